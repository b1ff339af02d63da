"""The proxy's pages: completions by prefix, all else to whoever has least to do."""

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from aiohttp import web

from nearkv.router.config import RouterConfig
from nearkv.router.engines import DECODE, PREFILL, Engines
from nearkv.router.front import make_pages
from nearkv.router.placing import Placed, Prompt, Refused, unseen_prompt
from nearkv.router.prompts import BadRequest, Tokenizer
from nearkv.router.proxy.bodies import can_go_on, for_prefill
from nearkv.router.proxy.connections import Connections
from nearkv.router.proxy.errors import error_response, refusal
from nearkv.router.proxy.forward import EngineFailed, EngineRefused, ask, forward
from nearkv.router.proxy.going_on import ClientGone, GoingOn
from nearkv.router.waiting import tenant_of

_T = TypeVar("_T")


class Proxy:
    """What engines are sent for clients. One event loop uses it."""

    def __init__(self, engines: Engines) -> None:
        self.engines = engines

    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """Listens to events and keeps connections, as long as the application runs."""
        config = self.engines.config
        async with (
            self.engines.listening(),
            Connections(
                connect_timeout_s=config.connect_timeout_s,
                silence_timeout_s=config.silence_timeout_s,
            ) as connections,
        ):
            self._connections = connections
            yield

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """A prompt: goes where its beginning is, before that to one that prefills if any do."""
        raw = await request.read()
        try:
            prompt = await self.engines.prompt(raw)
        except BadRequest as error:
            return error_response(str(error), 400)
        with contextlib.ExitStack() as room:
            prompt = await self._prefill(request, prompt, room)
            if not can_go_on(request.path, prompt.body):
                return await self._send(request, raw, prompt)
            stream = GoingOn(self._connections, request, prompt.body)
            try:
                return await self._try(request, DECODE, prompt, stream.relay)
            except EngineRefused as error:
                return await stream.give_up(str(error)) or error.answer
            except Refused as error:
                return await stream.give_up(error.text) or refusal(error)
            except ClientGone:
                raise asyncio.CancelledError from None

    async def pass_through(self, request: web.Request) -> web.StreamResponse:
        """Whatever else engines answer, such as /v1/models; where it has a prompt, as one."""
        body = await request.read()
        prompt = unseen_prompt(request.method, request.path, len(body))
        return await self._send(request, body, prompt)

    async def _prefill(
        self, request: web.Request, prompt: Prompt, room: contextlib.ExitStack
    ) -> Prompt:
        """Has an engine that prefills compute what one that decodes lacks.

        `room` gets what was reserved for that, which has to last until it is decoded. Where it
        fails, the engine that decodes computes it.
        """
        if not self.engines.wants_prefill(prompt):
            return prompt
        told = json.dumps(for_prefill(prompt.body)).encode()

        async def compute(url: str, worker: str, placed: Placed) -> None:
            await ask(self._connections, url, request, told, placed, worker)
            room.enter_context(placed.take_room())

        with contextlib.suppress(Refused, EngineRefused):
            await self._try(request, PREFILL, prompt, compute)
            return dataclasses.replace(prompt, has_room=True)
        return prompt

    async def _send(self, request: web.Request, body: bytes, prompt: Prompt) -> web.StreamResponse:
        try:
            return await self._try(
                request,
                DECODE,
                prompt,
                lambda url, worker, placed: forward(
                    self._connections, url, request, body, placed, worker
                ),
            )
        except EngineRefused as error:
            return error.answer
        except Refused as error:
            return refusal(error)

    async def _try(
        self,
        request: web.Request,
        roles: tuple[str, ...],
        prompt: Prompt,
        send: Callable[[str, str, Placed], Awaitable[_T]],
    ) -> _T:
        """What the best engine makes of it; where that fails the next one's.

        Refused where none answers; EngineRefused where those that do, do not take it.
        """
        engines = self.engines
        failures: list[str] = []
        refused: EngineRefused | None = None
        among: set[str] | None = None  # All, and those that come while it waits.
        tenant = tenant_of(request.headers, engines.config.tenant_header)
        while engines.fleet.up(roles, among):
            with await engines.place(prompt, roles, among=among, tenant=tenant) as placed:
                worker = placed.worker
                among = (set(engines.fleet.urls) if among is None else among) - {worker}
                if (base := engines.fleet.urls.get(worker)) is None:
                    continue  # It has gone a moment ago.
                try:
                    answer = await send(base + request.rel_url.raw_path_qs, worker, placed)
                except EngineFailed as error:
                    failures.append(str(error))
                    if isinstance(error, EngineRefused):
                        refused = error
                    engines.metrics.retries.labels(worker).inc()
                    if error.suspends:
                        engines.suspend(worker, error)
                    continue
                engines.answered(worker, prompt)
                return answer
        if refused:
            raise refused
        text = (
            "; ".join(failures) or f"all have failed within the last {engines.config.suspend_s} s"
        )
        raise Refused(f"no engine answers ({text}): look at /health", 503)


PROXY = web.AppKey("proxy", Proxy)


def make_app(config: RouterConfig, tokenizer: Tokenizer | None = None) -> web.Application:
    """The proxy as an application of aiohttp: run it with handler_cancellation=True.

    Error or ValueError for options that cannot be. `tokenizer` is one of transformers', or None.
    """
    proxy = Proxy(Engines(config, tokenizer))
    app = make_pages(proxy.engines, client_max_size=config.most_body_bytes)
    app[PROXY] = proxy
    app.cleanup_ctx.append(proxy.running)
    app.router.add_post("/v1/completions", proxy.complete)
    app.router.add_post("/v1/chat/completions", proxy.complete)
    app.router.add_route("*", "/v1/{rest:.*}", proxy.pass_through)
    return app
