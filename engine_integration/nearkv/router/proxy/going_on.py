"""A streamed completion's way to an engine, and to the next where that one ends."""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from nearkv.router.placing import Placed
from nearkv.router.proxy.bodies import behind
from nearkv.router.proxy.completion_stream import BadStream, CompletionStream
from nearkv.router.proxy.connections import Connections
from nearkv.router.proxy.errors import broken_off, error_event, said
from nearkv.router.proxy.events import Comment, events
from nearkv.router.proxy.forward import GONE, TRY_ANOTHER, EngineFailed, asked, told, whole


class ClientGone(Exception):
    """There is nobody left to write to."""


class GoingOn:
    """One client's stream. relay() once for each engine, until one brings it to its end."""

    def __init__(
        self, connections: Connections, request: web.Request, body: dict[str, Any]
    ) -> None:
        self._connections = connections
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
        headers = asked(self._request, placed)
        headers["content-type"] = "application/json"
        try:
            async with self._connections.request("POST", url, json.dumps(body), headers) as answer:
                if self._stream and answer.status != 200:
                    raise EngineFailed(f"{worker} answered {answer.status}", suspends=False)
                headers = told(answer, worker)
                if answer.content_type != "text/event-stream" or answer.status in TRY_ANOTHER:
                    return await whole(answer, worker)
                async for event in events(answer.content):
                    if isinstance(event, Comment):
                        await self._write(event.text, headers)
                    elif piece := completion.take(event):
                        placed.first_token()
                        await self._write(piece, headers)
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

    async def _write(self, piece: bytes, headers: Mapping[str, str]) -> None:
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
