"""Envoy sends requests where the endpoint picker says: a real one, before fake engines."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")

import aiohttp

from bench.engines.environment import Environment
from engine_integration.tests.envoy_calls import tell
from engine_integration.tests.router_scene import CHUNKS, PROMPT, FakeEngine, engines
from nearkv.router.config import config_of
from nearkv.router.engines import Engines
from nearkv.router.gateway import Endpoints, Picker, make_server
from tests.engines.envoy_proxy import envoy
from tests.engines.skipping import environment_or_skip


@pytest.fixture(scope="module")
def environment() -> Environment:
    return environment_or_skip("envoy", "Envoy")


class EnvoyScene:
    """Envoy before fake engines, and the picker that it asks."""

    def __init__(self, engines: list[FakeEngine], **options: Any) -> None:
        self.engines = engines
        self._options = options

    @contextlib.asynccontextmanager
    async def running(
        self, environment: Environment, folder: Path, **modes: str
    ) -> AsyncIterator[None]:
        for engine in self.engines:
            await engine.server.start_server()
        self.at = {e.name: f"127.0.0.1:{e.server.port}" for e in self.engines}
        workers = [{"name": name, "url": f"http://{at}"} for name, at in self.at.items()]
        options = {"scheme": "sglang", "block_tokens": 4, "policy": "longest_prefix"}
        config = config_of(options | {"suspend_s": 600.0} | self._options | {"worker": workers})
        self.routed = Engines(config, None)
        picker = Picker(self.routed, Endpoints(self.routed.fleet.urls))
        server, port = make_server(picker, "127.0.0.1:0")
        await server.start()
        async with (
            envoy(environment, folder, port, list(self.at.values()), **modes) as url,
            aiohttp.ClientSession(url) as self.client,
        ):
            yield
        await server.stop(None)
        for engine in self.engines:
            engine.go_on.set()
            await engine.server.close()

    def post(self, headers: dict[str, str] | None = None, **body: Any) -> Any:
        body = {"prompt": PROMPT} | body
        return self.client.post("/v1/completions", json=body, headers=headers)

    def loads(self) -> list[int]:
        return [self.routed.router.load(engine.name).requests for engine in self.engines]

    async def settled(self) -> None:
        while any(self.loads()):
            await asyncio.sleep(0.01)


@pytest.fixture
def run(environment: Environment, tmp_path: Path) -> Callable[..., None]:
    def runs(
        scene: EnvoyScene, test: Callable[[EnvoyScene], Awaitable[None]], **modes: str
    ) -> None:
        async def whole() -> None:
            async with asyncio.timeout(60), scene.running(environment, tmp_path, **modes):
                await test(scene)

        asyncio.run(whole())

    return runs


@pytest.mark.parametrize("mode", ["FULL_DUPLEX_STREAMED", "BUFFERED"])
def test_envoy_sends_a_prompt_where_its_beginning_is(run: Any, mode: str) -> None:
    async def test(scene: EnvoyScene) -> None:
        tell(scene.routed, "c", PROMPT)
        prompt = PROMPT + list(range(100_000))  # Envoy sends it in many pieces.
        for stream in (False, True):
            async with scene.post(prompt=prompt, stream=stream, user="é" * 40) as answer:
                assert answer.status == 200
                whole = await answer.read()
                assert whole == (b"".join(CHUNKS) if stream else b'{"id": "c"}')
        assert [len(engine.bodies) for engine in scene.engines] == [0, 0, 2]
        assert scene.engines[2].bodies[0] == {"prompt": prompt, "stream": False, "user": "é" * 40}
        async with scene.client.get("/v1/models") as answer:
            assert answer.status == 200
        await scene.settled()

    run(EnvoyScene(engines("", "", "")), test, mode=mode)


@pytest.mark.parametrize("response_mode", ["FULL_DUPLEX_STREAMED", "NONE"])
def test_load_is_counted_until_the_answer_ends(run: Any, response_mode: str) -> None:
    async def test(scene: EnvoyScene) -> None:
        async with scene.post(stream=True) as answer:
            assert await answer.content.readany() == CHUNKS[0]
            load = scene.routed.router.load("a")
            assert (load.requests, load.prefill_tokens) == (1, 0)
            scene.engines[0].go_on.set()
            assert await answer.content.read() == b"".join(CHUNKS[1:])
        await scene.settled()

    run(EnvoyScene(engines("hangs after its first byte")), test, response_mode=response_mode)


def test_a_client_that_vanishes_takes_its_load_along(run: Any) -> None:
    async def test(scene: EnvoyScene) -> None:
        async with scene.post(stream=True) as answer:
            await answer.content.readany()
            assert scene.loads() == [1]
            answer.close()
        await scene.settled()
        await scene.engines[0].closed_early.wait()

    run(EnvoyScene(engines("hangs after its first byte")), test)


@pytest.mark.parametrize("behaviour", ["gone", "overloaded"])
def test_envoy_goes_on_to_the_next_endpoint(run: Any, behaviour: str) -> None:
    async def test(scene: EnvoyScene) -> None:
        tell(scene.routed, "b", PROMPT)
        if behaviour == "gone":
            await scene.engines[1].server.close()
        for _ in range(2):
            async with scene.post() as answer:
                assert (answer.status, await answer.json()) == (200, {"id": "a"})
        assert scene.routed.fleet.up() == ["a"]
        assert len(scene.engines[1].bodies) == (behaviour == "overloaded")
        await scene.settled()

    run(EnvoyScene(engines("", behaviour)), test)


def test_envoy_says_what_may_be_picked(run: Any) -> None:
    async def test(scene: EnvoyScene) -> None:
        tell(scene.routed, "b", PROMPT)
        async with scene.post({"x-test-subset": scene.at["a"]}) as answer:
            assert await answer.json() == {"id": "a"}
        async with scene.post({"x-test-subset": "9.9.9.9:1"}) as answer:
            assert answer.status == 503
            assert "9.9.9.9:1" in (await answer.json())["error"]["message"]

    run(EnvoyScene(engines("", "")), test)


def test_what_is_refused_here_reaches_the_client_as_it_was_said(run: Any) -> None:
    async def test(scene: EnvoyScene) -> None:
        async with scene.client.post("/v1/completions", data=b"{") as answer:
            assert answer.status == 400
            assert "no JSON" in (await answer.json())["error"]["message"]
        async with scene.post(prompt=list(range(4000))) as answer:
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        async with scene.post(prompt=[1] * 40_000) as answer:
            assert answer.status == 413
        assert json.dumps(scene.engines[0].bodies) == "[]"
        await scene.settled()

    run(EnvoyScene(engines(""), policy="mooncake", ttft_slo_s=0.01, most_body_bytes=65536), test)
