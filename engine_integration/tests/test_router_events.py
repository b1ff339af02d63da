"""Streams of events in all the forms that their standard allows."""

import asyncio
import itertools

import pytest

pytest.importorskip("aiohttp")

import aiohttp

from nearkv.router.proxy.events import Comment, events

WHOLE = b"data: one\n\n: alive\n\nid: 1\nevent: x\ndata:two\ndata:  three\n\ndata: [DONE]\n\n"
FOUND = [b"one", Comment(b": alive\n\n"), b"two\n three", b"[DONE]"]


async def read(*chunks: bytes) -> list[bytes | Comment]:
    stream = aiohttp.StreamReader(_Protocol(), 2**16)
    for chunk in chunks:
        stream.feed_data(chunk)
    stream.feed_eof()
    return [event async for event in events(stream)]


class _Protocol(aiohttp.base_protocol.BaseProtocol):
    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())


@pytest.mark.quick
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_all_ends_of_lines_and_all_cuts(end: bytes) -> None:
    text = WHOLE.replace(b"\n", end)
    assert await read(text) == FOUND
    for cut in range(1, len(text)):
        assert await read(text[:cut], text[cut:]) == FOUND, cut
    assert await read(*(bytes([byte]) for byte in text)) == FOUND


@pytest.mark.quick
async def test_an_event_without_its_end_is_one_too() -> None:
    assert await read(b"data: a\n\ndata: b") == [b"a", b"b"]
    assert await read(b"data: a\n\ndata: b\r") == [b"a", b"b"]
    assert await read(*itertools.repeat(b"\n", 5)) == []
