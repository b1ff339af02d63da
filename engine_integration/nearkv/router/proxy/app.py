"""The proxy's pages: completions by prefix, all else to whoever has least to do."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

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
from nearkv.router.proxy.config import ProxyConfig
from nearkv.router.proxy.errors import error_response
from nearkv.router.proxy.forward import EngineFailed, forward
from nearkv.router.proxy.prompts import BadRequest, Tokenizer, tokens_of

_LOG = logging.getLogger("nearkv.router")
_SHORT_PROMPT_BYTES = 4096  # what is not worth a thread's time

Hashes = np.ndarray | Sequence[int]


class Proxy:
    """Who the engines are, how they do, and what they are sent. One event loop uses it."""

    def __init__(self, config: ProxyConfig, tokenizer: Tokenizer | None) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._urls = {
            worker.name: worker.url.rstrip("/") for worker in config.workers if worker.url
        }
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
        return web.json_response({"workers": workers, "index": index}, status=200 if up else 503)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """A prompt: goes where its beginning is."""
        body = await request.read()
        try:
            tokens, hashes = await self._prompt(body)
        except BadRequest as error:
            return error_response(str(error), 400)
        return await self._send(request, body, tokens, hashes)

    async def pass_through(self, request: web.Request) -> web.StreamResponse:
        """Whatever else engines answer, such as /v1/models."""
        return await self._send(request, await request.read(), 1, ())

    async def _prompt(self, body: bytes) -> tuple[int, Hashes]:
        """How many tokens a prompt has, and the hashes of its blocks."""
        if len(body) <= _SHORT_PROMPT_BYTES:
            return self._hashed(body)
        return await asyncio.to_thread(self._hashed, body)

    def _hashed(self, body: bytes) -> tuple[int, Hashes]:
        try:
            parsed: Any = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is no JSON: {error}") from error
        tokens = tokens_of(parsed, self._tokenizer)
        if isinstance(tokens, int):
            return tokens, ()
        return len(tokens), self.router.block_hashes(tokens)

    async def _send(
        self, request: web.Request, body: bytes, tokens: int, hashes: Hashes
    ) -> web.StreamResponse:
        failures: list[str] = []
        tried: set[str] = set()
        while among := [name for name in self._up() if name not in tried]:
            try:
                decision = self.router.route(tokens, hashes=hashes, among=among)
                started = self.router.start(decision)
            except Error as error:
                if error.status == Status.BUSY:
                    return error_response(error.strerror, 429, **{"retry-after": "1"})
                raise
            _LOG.debug("%s", decision)
            worker = decision.worker
            tried.add(worker)
            url = self._urls[worker] + request.rel_url.raw_path_qs
            with started:
                try:
                    return await forward(self._session, url, request, body, started, worker)
                except EngineFailed as error:
                    failures.append(str(error))
                    self._suspended_until[worker] = time.monotonic() + self._config.suspend_s
                    _LOG.warning("%s: nothing new for %s s", error, self._config.suspend_s)
        text = "; ".join(failures) or f"all have failed within the last {self._config.suspend_s} s"
        return error_response(f"no engine answers ({text}): look at /health", 503)

    def _up(self) -> list[str]:
        now = time.monotonic()
        return [name for name in self._urls if self._suspended_until.get(name, 0) <= now]


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
