"""Envoy, the picker, two real vLLM servers on the CPU: prompts go where vLLM has them."""

import asyncio
import contextlib
import itertools
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("aiohttp")
pytest.importorskip("transformers")
pytest.importorskip("envoy.service.ext_proc.v3.external_processor_pb2_grpc")

import aiohttp
from transformers import AutoTokenizer

from bench.engines.environment import ROOT
from nearkv.cluster.processes import answers
from nearkv.cluster.workers import BLOCK_TOKENS, Engine, Worker
from nearkv.router.config import config_of
from nearkv.router.engines import Engines
from nearkv.router.gateway import Endpoints, Picker, make_server
from tests.engines.envoy_proxy import envoy
from tests.engines.skipping import environment_or_skip

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
START_S = 900  # beside other tests
MODEL = ROOT / "engine_integration" / "models" / "recall_3m"
DOCUMENTS = [" ".join(f"{name} {line} of a story." for line in range(60)) for name in "PQRS"]


def test_prompts_go_where_vllm_says_that_it_has_them(tmp_path: Path) -> None:
    vllm, proxy = environment_or_skip("vllm", "vLLM"), environment_or_skip("envoy", "Envoy")
    engine = Engine(vllm.python, MODEL, variables=vllm.variables)
    with contextlib.ExitStack() as running:
        workers = [Worker(name, engine, tmp_path, "both", None) for name in "ab"]
        for worker in workers:
            running.enter_context(worker.process)
        for worker in workers:
            worker.process.wait_until(lambda url=worker.url: answers(f"{url}/health"), START_S)
        asyncio.run(_ask_through_envoy(proxy, tmp_path, workers))


async def _ask_through_envoy(proxy: Any, folder: Path, workers: list[Worker]) -> None:
    places = [dict(worker.place()) for worker in workers]
    options = {"block_tokens": BLOCK_TOKENS, "policy": "longest_prefix", "worker": places}
    routed = Engines(config_of(options), AutoTokenizer.from_pretrained(MODEL))
    server, port = make_server(Picker(routed, Endpoints(routed.fleet.urls)), "127.0.0.1:0")
    await server.start()
    engines = [f"127.0.0.1:{worker.port}" for worker in workers]
    async with (
        routed.listening(),
        envoy(proxy, folder, port, engines) as url,
        aiohttp.ClientSession(url) as client,
    ):

        async def ask(prompt: str, stream: bool) -> None:
            body = {"model": MODEL.name, "prompt": prompt, "max_tokens": 4, "stream": stream}
            async with client.post("/v1/completions", json=body) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()

        for number in itertools.count():  # Until both subscriptions have come through.
            if all(
                f'event_batches_total{{worker="{name}"}} 0.0' not in _page(routed) for name in "ab"
            ):
                break
            await asyncio.gather(*(ask(f"{number} {n} warms up" * 99, False) for n in range(4)))
        await asyncio.gather(*(ask(document, False) for document in DOCUMENTS))
        blocks = [len((await routed.prompt(_body(text))).hashes) for text in DOCUMENTS]
        has: list[list[int]] = []
        while [sum(parts) for parts in zip(*has, strict=True)] != blocks:
            await asyncio.sleep(0.1)  # vLLM tells of them a little later.
            has = [await _cached(routed, name) for name in "ab"]
        before = [worker.counters()["local_cache_hit"] for worker in workers]
        for text in DOCUMENTS:
            await ask(text + " Once more", True)
        hits = [
            worker.counters()["local_cache_hit"] - old
            for worker, old in zip(workers, before, strict=True)
        ]
        assert hits == [BLOCK_TOKENS * sum(found) for found in has]
    await server.stop(None)


def _page(routed: Engines) -> str:
    return routed.metrics.page().decode()


def _body(prompt: str) -> bytes:
    return b'{"prompt": "%s"}' % prompt.encode()


async def _cached(routed: Engines, name: str) -> list[int]:
    found = []
    for text in DOCUMENTS:
        prompt = await routed.prompt(_body(text))
        decision = routed.router.route(prompt.tokens, hashes=prompt.hashes, among=[name])
        found.append(decision.cached_blocks)
    return found
