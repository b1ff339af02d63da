"""One request's way to one engine and back: streams pass through as they come."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from nearkv.router.placing import Placed
from nearkv.router.proxy.connections import Connections, is_ours
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

    def __init__(self, text: str, *, suspends: bool = True) -> None:
        super().__init__(text)
        self.suspends = suspends
        """Whether the engine is to get nothing new for a while."""

    @classmethod
    def at(cls, url: str, worker: str, error: Exception) -> Self:
        """By an error that may have no text."""
        return cls(f"{worker} at {url}: {said(error)}", suspends=not is_ours(error))


class EngineRefused(EngineFailed):
    """An engine that is there does not take the request.

    Another may take it; if none does, this answer is the client's.
    """

    def __init__(self, worker: str, answer: web.Response) -> None:
        super().__init__(f"{worker} answered {answer.status}", suspends=False)
        self.answer = answer


def end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Those headers of a message that go on with it, each as often as it is there."""
    named = {name.strip() for name in headers.get("connection", "").lower().split(",")}
    dropped = _HOP_BY_HOP | named
    return CIMultiDict(pair for pair in headers.items() if pair[0].lower() not in dropped)


def asked(request: web.Request, placed: Placed) -> CIMultiDict[str]:
    """The headers with which a request goes on, whose body was unpacked when it was read.

    vLLM and SGLang compute it at the data-parallel rank that they name.
    """
    headers = end_to_end(request.headers)
    headers.popall("content-encoding", None)
    if placed.decision.rank is not None:
        headers.setdefault("x-data-parallel-rank", str(placed.decision.rank))
    return headers


def told(answer: aiohttp.ClientResponse, worker: str) -> CIMultiDict[str]:
    """The headers with which an engine's answer goes on."""
    headers = end_to_end(answer.headers)
    headers["x-nearkv-worker"] = worker
    return headers


async def whole(answer: aiohttp.ClientResponse, worker: str) -> web.Response:
    """An engine's answer that is no stream. EngineRefused."""
    response = web.Response(
        status=answer.status, body=await answer.read(), headers=told(answer, worker)
    )
    if answer.status in TRY_ANOTHER:
        raise EngineRefused(worker, response)
    return response


async def forward(
    connections: Connections,
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
    try:
        to_engine = asked(request, placed)
        async with connections.request(request.method, url, body or None, to_engine) as answer:
            headers = told(answer, worker)
            if answer.content_type != "text/event-stream" or answer.status in TRY_ANOTHER:
                return await whole(answer, worker)
            first = await answer.content.readany()
            if not first:
                raise EngineFailed(f"{worker} ended its stream before it began")
            placed.first_token()
            stream = web.StreamResponse(status=answer.status, headers=headers)
            await _pass_on(request, stream, first, answer, worker)
            return stream
    except GONE as error:
        raise EngineFailed.at(url, worker, error) from error


async def ask(
    connections: Connections,
    url: str,
    request: web.Request,
    body: bytes,
    placed: Placed,
    worker: str,
) -> None:
    """Sends another body in a request's place; the answer is for nobody. EngineFailed."""
    try:
        async with connections.request("POST", url, body, asked(request, placed)) as answer:
            await whole(answer, worker)
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
