"""Server-sent events as their standard has them (HTML, 9.2.6)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp


@dataclass(frozen=True)
class Comment:
    """What keeps a connection open that is silent otherwise."""

    text: bytes
    """As a stream has it, its end included."""


async def events(content: aiohttp.StreamReader) -> AsyncIterator[bytes | Comment]:
    """The data of each event, and comments between them, as soon as they are there.

    Lines end in LF, CR LF or CR and have any length: the first event has the prompt's tokens in it.
    What stands behind the last empty line is an event, too: engines that break off leave it so.
    """
    data: list[bytes] = []
    async for line in _lines(content):
        if line.startswith(b":"):
            yield Comment(line + b"\n\n")
            continue
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
    if data:
        yield b"\n".join(data)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    while chunk := await content.readany():
        rest += chunk
        # The LF of a CR LF may be yet to come.
        whole, cut = (rest[:-1], b"\r") if rest.endswith(b"\r") else (rest, b"")
        *lines, rest = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        rest += cut
        for line in lines:
            yield line
    if rest:
        yield rest.removesuffix(b"\r")
