"""One request's way to one engine and back: streams pass through as they come."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Self

import aiohttp
from aiohttp import web

from nearkv.router.placing import Placed
from nearkv.router.proxy.errors import broken_off, said

# Of one connection, not of the message (RFC 9110, 7.6.1), or set anew. Engines are not asked to
# compress: what they send goes on as it is.
_HOP_BY_HOP = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
    *("transfer-encoding", "upgrade", "host", "content-length", "accept-encoding"),
}
GONE = (aiohttp.ClientError, asyncio.TimeoutError, OSError)
TRY_ANOTHER = (502, 503, 504)


class EngineFailed(RuntimeError):
    """An engine gave nothing that the client has seen, or all can be gone on from: try another."""

    @classmethod
    def at(cls, url: str, worker: str, error: Exception) -> Self:
        """By an error that may have no text."""
        return cls(f"{worker} at {url}: {said(error)}")


def end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    """Those headers of a message that go on with it."""
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


async def forward(
    session: aiohttp.ClientSession,
    url: str,
    request: web.Request,
    body: bytes,
    placed: Placed,
    worker: str,
) -> web.StreamResponse:
    """Sends a request on, and its answer back.

    EngineFailed as long as the client was sent nothing. After that an engine's end becomes an error
    event in a stream of events, and else a connection that ends early. If the client vanishes, the
    engine's connection is closed, which makes engines stop.
    """
    headers = end_to_end(request.headers)
    try:
        async with session.request(
            request.method, url, data=body or None, headers=headers
        ) as answer:
            if answer.status in TRY_ANOTHER:
                raise EngineFailed(f"{worker} answered {answer.status}")
            told = end_to_end(answer.headers) | {"x-nearkv-worker": worker}
            if answer.content_type != "text/event-stream":
                whole = await answer.read()
                return web.Response(status=answer.status, body=whole, headers=told)
            first = await answer.content.readany()
            if not first:
                raise EngineFailed(f"{worker} ended its stream before it began")
            placed.first_token()
            stream = web.StreamResponse(status=answer.status, headers=told)
            await _pass_on(request, stream, first, answer, worker)
            return stream
    except GONE as error:
        raise EngineFailed.at(url, worker, error) from error


async def ask(
    session: aiohttp.ClientSession, url: str, request: web.Request, body: bytes, worker: str
) -> None:
    """Sends another body in a request's place; the answer is for nobody. EngineFailed."""
    headers = end_to_end(request.headers)
    try:
        async with session.post(url, data=body, headers=headers) as answer:
            await answer.read()
            if answer.status in TRY_ANOTHER:
                raise EngineFailed(f"{worker} answered {answer.status}")
    except GONE as error:
        raise EngineFailed.at(url, worker, error) from error


async def _pass_on(
    request: web.Request,
    stream: web.StreamResponse,
    first: bytes,
    answer: aiohttp.ClientResponse,
    worker: str,
) -> None:
    """From here on nothing is EngineFailed: the client has seen something."""
    with contextlib.suppress(ConnectionResetError):  # The client has vanished.
        await stream.prepare(request)
        await stream.write(first)
        while True:
            try:
                chunk = await answer.content.readany()
            except GONE as error:
                await stream.write(broken_off(worker, said(error)))
                break
            if not chunk:
                break
            await stream.write(chunk)
        await stream.write_eof()
