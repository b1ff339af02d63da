"""A proxy before fake engines, for tests of the router."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")
pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from nearkv.kv_events.wire import decode_batch, encode_batch, encode_event
from nearkv.router.config import config_of
from nearkv.router.engines import Engines
from nearkv.router.proxy import make_app
from nearkv.router.proxy.app import PROXY

CHUNKS = [b'data: {"n":%d}\n\n' % number for number in range(5)] + [b"data: [DONE]\n\n"]
PROMPT = list(range(64))


class FakeEngine:
    """What vLLM's server looks like from outside; `behaviour` says how it fails."""

    def __init__(self, name: str, behaviour: str = "") -> None:
        self.name, self.behaviour = name, behaviour
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.closed_early = asyncio.Event()
        self.go_on = asyncio.Event()
        app = web.Application()
        app.router.add_post("/v1/{rest:.*}", self.complete)
        app.router.add_get("/v1/models", self.models)
        self.ends_idle = False
        """Whether it ends a connection when a second request comes on it."""
        self._seen: set[Any] = set()
        self.server = TestServer(app)

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": self.name}]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        if self.ends_idle and request.transport in self._seen:
            request.transport.abort()
            return web.Response()
        self._seen.add(request.transport)
        self.headers.append(dict(request.headers))
        body = await request.json()
        self.bodies.append(body)
        if self.behaviour == "overloaded":
            return web.json_response({"busy": True}, status=503)
        if self.behaviour == "refuses":
            return web.json_response({"error": {"message": "too long"}}, status=400)
        if self.behaviour == "hangs":
            await self._wait()
        if not body.get("stream"):
            if self.behaviour == "dies":
                request.transport.abort()
            answer = web.json_response({"id": self.name})
            if self.behaviour == "sets cookies":
                answer.headers.extend([("set-cookie", "affinity=1"), ("set-cookie", "session=2")])
            return answer
        stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        if self.behaviour == "dies before its first byte":
            request.transport.abort()
            return stream
        for number, chunk in enumerate(CHUNKS):
            if self.behaviour == "dies" and number == 2:
                request.transport.abort()
                return stream
            await stream.write(chunk)
            if self.behaviour == "hangs after its first byte":
                await self._wait()
        return stream

    async def _wait(self) -> None:
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.closed_early.set()
            raise


class Scene:
    """A proxy before fake engines, in one event loop."""

    def __init__(
        self,
        engines: list[FakeEngine],
        roles: dict[str, str] | None = None,
        max_running: int = 0,
        *,
        configured: list[str] | None = None,
        events: dict[str, str] | None = None,
        stores_in: dict[str, str] | None = None,
        capacities: dict[str, float] | None = None,
        ranks: int = 1,
        **options: Any,
    ) -> None:
        """`configured`: which of the engines the proxy knows from the start; None: all.

        `stores_in`: pools by engine; `capacities`: of pools, of which nobody tells anything.
        """
        self.engines = engines
        self._max_running = max_running
        self.configured = [each.name for each in engines] if configured is None else configured
        self._roles = roles or {}
        self._events = events or {}
        self._stores_in = stores_in or {}
        self._capacities = capacities or {}
        self._ranks = ranks
        self._options = {"scheme": "sglang", "block_tokens": 4, "policy": "longest_prefix"}
        self._options |= {"suspend_s": 600.0, "connect_timeout_s": 2.0} | options

    async def __aenter__(self) -> "Scene":
        for engine in self.engines:
            await engine.server.start_server()
        workers = [
            {
                "name": engine.name,
                "url": str(engine.server.make_url("")).rstrip("/"),
                "role": self._roles.get(engine.name, "both"),
                "max_running": self._max_running,
                "events": self._events.get(engine.name, ""),
                "pool": self._stores_in.get(engine.name, ""),
                "ranks": self._ranks,
            }
            for engine in self.engines
            if engine.name in self.configured
        ]
        pools = [
            {"name": name, "events": "ipc:///nobody", "capacity_bytes": capacity}
            for name, capacity in self._capacities.items()
        ]
        app = make_app(config_of(self._options | {"worker": workers, "pool": pools}))
        self.routed: Engines = app[PROXY].engines
        self.server = TestServer(app)
        await self.server.start_server()
        self.client = aiohttp.ClientSession(self.server.make_url("/"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.server.close()
        for engine in self.engines:
            engine.go_on.set()
            await engine.server.close()

    def batch(self, tokens: list[int]) -> bytes:
        """What an engine tells when it has stored a prompt's blocks."""
        hashes = [int(each) for each in self.routed.router.block_hashes(tokens)]
        event = encode_event(
            "BlockStored",
            "map",
            block_hashes=hashes,
            token_ids=tokens,
            block_size=4,
            medium="GPU",
        )
        return encode_batch([event])

    def tell(self, worker: str, tokens: list[int]) -> None:
        self.routed.router.apply(worker, decode_batch(self.batch(tokens)))

    def post(self, path: str = "/v1/completions", **body: Any) -> Any:
        return self.client.post(path, json={"prompt": PROMPT} | body)

    async def status(self, path: str, **body: Any) -> int:
        async with self.post(path, **body) as answer:
            await answer.read()
            return answer.status

    def forgive(self) -> None:
        """As if the time of suspended engines had passed."""
        self.routed.fleet.resume()

    def loads(self) -> list[int]:
        return [
            self.routed.router.load(engine.name).requests
            for engine in self.engines
            if engine.name in self.routed.fleet.urls
        ]


def engines(*behaviours: str) -> list[FakeEngine]:
    return [FakeEngine(name, what) for name, what in zip("abc", behaviours, strict=False)]


async def settled(scene: Scene) -> None:
    while any(scene.loads()):
        await asyncio.sleep(0.01)
