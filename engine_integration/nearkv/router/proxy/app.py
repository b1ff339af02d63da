"""The proxy's pages: completions by prefix, all else to whoever has least to do."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

import aiohttp
import numpy as np
from aiohttp import web

from nearkv.core import Error, Status
from nearkv.router import (
    CostModel,
    EventSubscriber,
    MooncakeThresholds,
    Router,
    scheme_of,
)
from nearkv.router.decision import StartedRequest
from nearkv.router.proxy.bodies import can_go_on, for_prefill
from nearkv.router.proxy.config import ROLES, ProxyConfig
from nearkv.router.proxy.errors import NoEngine, error_response
from nearkv.router.proxy.forward import EngineFailed, ask, forward
from nearkv.router.proxy.going_on import ClientGone, GoingOn
from nearkv.router.proxy.prompts import BadRequest, Tokenizer, tokens_of

_LOG = logging.getLogger("nearkv.router")
_SHORT_PROMPT_BYTES = 4096  # what is not worth a thread's time

_PREFILL = ("prefill",)
_DECODE = ("both", "decode")

_T = TypeVar("_T")
Hashes = np.ndarray | Sequence[int]


class Proxy:
    """Who the engines are, how they do, and what they are sent. One event loop uses it."""

    def __init__(self, config: ProxyConfig, tokenizer: Tokenizer | None) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._urls = {
            worker.name: worker.url.rstrip("/") for worker in config.workers if worker.url
        }
        self._roles = {worker.name: worker.role for worker in config.workers}
        self._suspended_until: dict[str, float] = {}
        cost, mooncake = CostModel(), MooncakeThresholds()
        cost.block_tokens, cost.block_bytes = config.block_tokens, config.block_bytes
        mooncake.ttft_slo_s = config.ttft_slo_s
        self.router = Router(
            scheme_of(config.scheme, config.seed),
            policy=config.policy,
            cost=cost,
            mooncake=mooncake,
            index_limit_bytes=config.index_limit_bytes,
        )
        for worker in config.workers:
            self.router.add_worker(
                worker.name,
                is_pool=not worker.url,
                prefill_tokens_per_s=worker.prefill_tokens_per_s,
            )

    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """Listens to events and keeps connections, as long as the application runs."""
        events = EventSubscriber(self.router)
        for worker in self._config.workers:
            if worker.events:
                events.add(
                    worker.name, worker.events, replay_endpoint=worker.replay, topic=worker.topic
                )
        events.start()
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self._config.connect_timeout_s,
            sock_read=self._config.silence_timeout_s,
        )
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            timeout=timeout,
            connector=connector,
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
        ) as session:
            self._session = session
            yield
        await asyncio.to_thread(events.close)

    async def health(self, request: web.Request) -> web.Response:
        """200 while an engine may be sent something; what each has to do, and the index holds."""
        up = self._up()
        stats = self.router.stats
        workers = {}
        for name in self._urls:
            load = self.router.load(name)
            workers[name] = {
                "up": name in up,
                "role": self._roles[name],
                "requests": load.requests,
                "prefill_tokens": load.prefill_tokens,
                "blocks": load.blocks,
            }
        index = {
            "blocks": stats.blocks,
            "memory_bytes": stats.memory_bytes,
            "limit_bytes": stats.limit_bytes,
            "refused": stats.counters.refused,
        }
        return web.json_response(
            {"workers": workers, "index": index}, status=200 if self._up(_DECODE) else 503
        )

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """A prompt: goes where its beginning is, before that to one that prefills if any do."""
        raw = await request.read()
        try:
            body, tokens, hashes = await self._prompt(raw)
        except BadRequest as error:
            return error_response(str(error), 400)
        await self._prefill(request, body, tokens, hashes)
        if not can_go_on(request.path, body):
            return await self._send(request, raw, tokens, hashes)
        stream = GoingOn(self._session, request, body)
        try:
            return await self._try(request, _DECODE, tokens, hashes, stream.relay)
        except NoEngine as error:
            return await stream.give_up(error.text) or error.response()
        except ClientGone:
            raise asyncio.CancelledError from None

    async def pass_through(self, request: web.Request) -> web.StreamResponse:
        """Whatever else engines answer, such as /v1/models."""
        return await self._send(request, await request.read(), 1, ())

    async def _prompt(self, raw: bytes) -> tuple[dict[str, Any], int, Hashes]:
        """A body, how many tokens its prompt has, and the hashes of its blocks."""
        if len(raw) <= _SHORT_PROMPT_BYTES:
            return self._hashed(raw)
        return await asyncio.to_thread(self._hashed, raw)

    def _hashed(self, raw: bytes) -> tuple[dict[str, Any], int, Hashes]:
        try:
            body: Any = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is no JSON: {error}") from error
        tokens = tokens_of(body, self._tokenizer)
        if isinstance(tokens, int):
            return body, tokens, ()
        return body, len(tokens), self.router.block_hashes(tokens)

    async def _prefill(
        self, request: web.Request, body: dict[str, Any], tokens: int, hashes: Hashes
    ) -> None:
        """Has an engine that prefills compute what one that decodes lacks.

        Where that fails, the engine that decodes computes it.
        """
        if not self._up(_PREFILL):
            return
        if decoders := self._up(_DECODE):
            decision = self.router.route(tokens, hashes=hashes, among=decoders)
            if decision.uncached_tokens < self._config.prefill_from_tokens:
                return
        told = json.dumps(for_prefill(body)).encode()
        with contextlib.suppress(NoEngine):
            await self._try(
                request,
                _PREFILL,
                tokens,
                hashes,
                lambda url, worker, _: ask(self._session, url, request, told, worker),
            )

    async def _send(
        self, request: web.Request, body: bytes, tokens: int, hashes: Hashes
    ) -> web.StreamResponse:
        try:
            return await self._try(
                request,
                _DECODE,
                tokens,
                hashes,
                lambda url, worker, started: forward(
                    self._session, url, request, body, started, worker
                ),
            )
        except NoEngine as error:
            return error.response()

    async def _try(
        self,
        request: web.Request,
        roles: Collection[str],
        tokens: int,
        hashes: Hashes,
        send: Callable[[str, str, StartedRequest], Awaitable[_T]],
    ) -> _T:
        """What the best engine makes of it; where that fails the next one's. NoEngine."""
        failures: list[str] = []
        tried: set[str] = set()
        while among := [name for name in self._up(roles) if name not in tried]:
            try:
                decision = self.router.route(tokens, hashes=hashes, among=among)
                started = self.router.start(decision)
            except Error as error:
                if error.status == Status.BUSY:
                    raise NoEngine(error.strerror, 429) from error
                raise
            _LOG.debug("%s", decision)
            worker = decision.worker
            tried.add(worker)
            url = self._urls[worker] + request.rel_url.raw_path_qs
            with started:
                try:
                    return await send(url, worker, started)
                except EngineFailed as error:
                    failures.append(str(error))
                    self._suspended_until[worker] = time.monotonic() + self._config.suspend_s
                    _LOG.warning("%s: nothing new for %s s", error, self._config.suspend_s)
        text = "; ".join(failures) or f"all have failed within the last {self._config.suspend_s} s"
        raise NoEngine(f"no engine answers ({text}): look at /health", 503)

    def _up(self, roles: Collection[str] = ROLES) -> list[str]:
        now = time.monotonic()
        return [
            name
            for name in self._urls
            if self._suspended_until.get(name, 0) <= now and self._roles[name] in roles
        ]


PROXY = web.AppKey("proxy", Proxy)


def make_app(config: ProxyConfig, tokenizer: Tokenizer | None = None) -> web.Application:
    """The proxy as an application of aiohttp: run it with handler_cancellation=True.

    Error or ValueError for options that cannot be. `tokenizer` is one of transformers', or None.
    """
    proxy = Proxy(config, tokenizer)
    app = web.Application(client_max_size=config.most_body_bytes)
    app[PROXY] = proxy
    app.cleanup_ctx.append(proxy.running)
    app.router.add_get("/health", proxy.health)
    app.router.add_post("/v1/completions", proxy.complete)
    app.router.add_post("/v1/chat/completions", proxy.complete)
    app.router.add_route("*", "/v1/{rest:.*}", proxy.pass_through)
    return app
