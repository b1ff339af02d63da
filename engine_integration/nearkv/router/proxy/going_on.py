"""A streamed completion's way to an engine, and to the next where that one ends."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp import web

from nearkv.router.placing import Placed
from nearkv.router.proxy.bodies import behind
from nearkv.router.proxy.completion_stream import BadStream, CompletionStream
from nearkv.router.proxy.errors import broken_off, error_event, said
from nearkv.router.proxy.forward import GONE, TRY_ANOTHER, EngineFailed, end_to_end


class ClientGone(Exception):
    """There is nobody left to write to."""


class GoingOn:
    """One client's stream. relay() once for each engine, until one brings it to its end."""

    def __init__(
        self, session: aiohttp.ClientSession, request: web.Request, body: dict[str, Any]
    ) -> None:
        self._session = session
        self._request = request
        self._body = body
        self._completion = CompletionStream(body)
        self._stream: web.StreamResponse | None = None

    async def relay(self, url: str, worker: str, placed: Placed) -> web.StreamResponse:
        """What an engine has to say. EngineFailed: another may go on. ClientGone."""
        completion = self._completion
        body = self._body | {"return_token_ids": True}
        if completion.written:
            body = behind(body, completion.prompt, completion.written)
        headers = end_to_end(self._request.headers) | {"content-type": "application/json"}
        try:
            async with self._session.post(url, data=json.dumps(body), headers=headers) as answer:
                if answer.status in TRY_ANOTHER or (self._stream and answer.status != 200):
                    raise EngineFailed(f"{worker} answered {answer.status}")
                told = end_to_end(answer.headers) | {"x-nearkv-worker": worker}
                if answer.content_type != "text/event-stream":
                    whole = await answer.read()
                    return web.Response(status=answer.status, body=whole, headers=told)
                async for line in _lines(answer.content):
                    if piece := completion.take(line):
                        placed.first_token()
                        await self._write(piece, told)
        except (*GONE, BadStream) as error:
            if not await self._can_go_on(worker, said(error)):
                return await self._end()
            raise EngineFailed.at(url, worker, error) from error
        if not completion.is_over and await self._can_go_on(worker, "without an end"):
            raise EngineFailed(f"{worker} ended its stream without an end")
        return await self._end()

    async def give_up(self, why: str) -> web.StreamResponse | None:
        """Tells a client that has a part that there is no more; None if it has nothing."""
        if self._stream is None:
            return None
        await self._write(error_event(why), {})
        return await self._end()

    async def _can_go_on(self, worker: str, why: str) -> bool:
        """Prepares for another engine; False when there is nothing that it could do."""
        completion = self._completion
        if completion.has_finished:
            for piece in completion.finish():
                await self._write(piece, {})
            return False
        if not completion.can_go_on:
            await self._write(broken_off(worker, why), {})
            return False
        completion.go_on()
        return True

    async def _write(self, piece: bytes, headers: dict[str, str]) -> None:
        try:
            if self._stream is None:
                self._stream = web.StreamResponse(headers=headers)
                await self._stream.prepare(self._request)
            await self._stream.write(piece)
        except ConnectionResetError as error:
            raise ClientGone from error

    async def _end(self) -> web.StreamResponse:
        assert self._stream is not None
        await self._stream.write_eof()
        return self._stream


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: the first event has the prompt's tokens in it."""
    rest = b""
    while chunk := await content.readany():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest
