"""Workers of vLLM's, a router and a pool's daemon, of which one dies or stops while a prompt runs.

The processes are those of `./nearkv demo cluster`. Whatever fails, a completion comes, and has the
text of an engine that computed it without any help.
"""

import json
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.engines.environment import ROOT
from bench.engines.shapes import DOCUMENT, MODELS
from nearkv.cluster.client import Answer, complete
from nearkv.cluster.processes import Process
from nearkv.cluster.workers import (
    BLOCK_TOKENS,
    Engine,
    Worker,
    start_daemon,
    start_pool,
    start_router,
)
from nearkv.store import ObjectStore
from tests.engines.skipping import environment_or_skip

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
PROGRAM = ROOT / "build/release/bin/nearkv"
PROMPT_CHARACTERS = 24_000
TOKENS = 16
# A prompt takes many steps, so that there is a middle.
STEP_TOKENS = 512
MOST_TOKENS = 12_288
NO_HANG_S = 300
# Room for all prompts: what is new is seen by how many blocks there are.
POOL_BYTES = "1GiB"


@dataclass
class Cluster:
    """What stands, and what it is asked."""

    folder: Path
    model: str
    port: int
    workers: dict[str, Worker]
    daemon: Process
    socket: str
    stack: ExitStack
    asked: int = field(default=0)

    def prompt(self) -> str:
        """One that nobody has seen."""
        text = DOCUMENT.read_text(encoding="utf-8")
        self.asked += 1
        begin = self.asked * 1009
        return text[begin : begin + PROMPT_CHARACTERS]

    def alone(self, prompt: str) -> Answer:
        """What an engine answers that is asked by itself, and finds nothing for this salt."""
        port = self.workers["decode-0"].port
        return complete(port, self.model, prompt, TOKENS, cache_salt="alone")

    @contextmanager
    def asking(self, prompt: str) -> Iterator[Future[Answer]]:
        """The answer of the cluster, which is to come."""
        with ThreadPoolExecutor(1) as thread:
            yield thread.submit(complete, self.port, self.model, prompt, TOKENS)

    def objects(self) -> int:
        """Blocks in the pool."""
        with ObjectStore.connect(self.socket) as store:
            return store.stats().objects

    def busy(self) -> list[Worker]:
        """Those that the router has sent a prompt."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=10) as answer:
            told = json.load(answer)["workers"]
        return [self.workers[name] for name in told if told[name]["requests"]]

    def busy_prefill(self) -> Worker:
        """The one of them, which prefills."""
        (worker,) = self.busy()
        assert worker.role == "prefill"
        return worker

    def wait_for_blocks(self, more_than: int) -> int:
        """Until the pool has more; how many it has then."""
        wait_until(lambda: self.objects() > more_than)
        return self.objects()

    def computed(self) -> float:
        """Tokens of prompts that workers of the cluster have computed, those that are left."""
        running = [worker for worker in self.workers.values() if worker.process.is_running]
        return sum(worker.counters().get("local_compute", 0) for worker in running)

    def restart_daemon(self) -> None:
        """On the same pool."""
        self.daemon, _ = start_daemon(PROGRAM, self.folder, POOL_BYTES)
        self.stack.enter_context(self.daemon)


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end_s, "it does not come"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two that prefill, of which one may be lost, and one that decodes."""
    environment = environment_or_skip("vllm", "vLLM")
    folder = tmp_path_factory.mktemp("cluster")
    words = ("--max-num-batched-tokens", str(STEP_TOKENS), "--max-model-len", str(MOST_TOKENS))
    words += ("--num-gpu-blocks-override", str(MOST_TOKENS // BLOCK_TOKENS + 1))
    engine = Engine(environment.python, MODELS / "recall_3m", words, environment.variables)
    with ExitStack() as stack:
        pool = start_pool(engine, PROGRAM, folder, POOL_BYTES)
        stack.enter_context(pool.daemon)
        stack.enter_context(pool.publisher)
        roles = {"prefill-0": "prefill", "prefill-1": "prefill", "decode-0": "decode"}
        workers = {
            name: Worker(name, engine, folder, role, pool.socket) for name, role in roles.items()
        }
        for worker in workers.values():
            stack.enter_context(worker.process)
        for worker in workers.values():
            worker.wait_until_ready()
        router, port = start_router(engine, list(workers.values()), pool, 1024, folder)
        stack.enter_context(router)
        name = engine.model_name
        yield Cluster(folder, name, port, workers, pool.daemon, pool.socket, stack)


def test_what_a_killed_prefill_worker_has_stored_is_not_computed_again(cluster: Cluster) -> None:
    prompt, before = cluster.prompt(), cluster.objects()
    with cluster.asking(prompt) as answer:
        cluster.wait_for_blocks(before)
        victim = cluster.busy_prefill()
        victim.process.kill()
        stored = cluster.objects() - before
        computed = cluster.computed()
        told = answer.result(NO_HANG_S)
    computed = cluster.computed() - computed
    assert told.text == cluster.alone(prompt).text
    assert 0 < stored * BLOCK_TOKENS < told.prompt_tokens - STEP_TOKENS  # It was in the middle.
    # Whoever went on found that, and whoever decodes found all but what is no whole block.
    left = told.prompt_tokens - stored * BLOCK_TOKENS
    assert computed <= left + 2 * BLOCK_TOKENS


def test_a_reader_that_stops_holds_up_nobody_else(cluster: Cluster) -> None:
    prompt, before = cluster.prompt(), cluster.objects()
    decode = cluster.workers["decode-0"]
    prefill = next(w for w in cluster.workers.values() if w.role == "prefill" and is_up(w))
    with cluster.asking(prompt) as answer:
        wait_until(lambda: decode in cluster.busy())
        decode.process.signal(signal.SIGSTOP)
        try:
            stored = cluster.objects()
            assert stored > before  # All that it is to load.
            # Others store and load what they like.
            other = cluster.prompt()
            computed = complete(prefill.port, cluster.model, other, 1)
            blocks = computed.prompt_tokens // BLOCK_TOKENS
            assert cluster.objects() == stored + blocks
            with ObjectStore.connect(cluster.socket) as store:
                own = store.namespace("beside", "bytes", "one")
                assert own.set([b"key"], [b"what is said"]).all_ok
                assert own.get([b"key"]).buffers == [b"what is said"]
            assert not answer.done()
        finally:
            decode.process.signal(signal.SIGCONT)
        told = answer.result(NO_HANG_S)
    assert told.text == cluster.alone(prompt).text
    check_that_blocks_are_handed_over(cluster)


def is_up(worker: Worker) -> bool:
    return worker.process.is_running


def test_without_its_pool_a_cluster_computes(cluster: Cluster) -> None:
    prompts, before = [cluster.prompt() for _ in range(2)], cluster.objects()
    with cluster.asking(prompts[0]) as answer:
        cluster.wait_for_blocks(before)
        cluster.daemon.kill()
        first = answer.result(NO_HANG_S)
    second = complete(cluster.port, cluster.model, prompts[1], TOKENS)
    alone = [cluster.alone(prompt).text for prompt in prompts]
    assert [first.text, second.text] == alone
    cluster.restart_daemon()
    check_that_blocks_are_handed_over(cluster)


def test_a_daemon_that_is_killed_and_comes_back_costs_no_text(cluster: Cluster) -> None:
    prompt, before = cluster.prompt(), cluster.objects()
    with cluster.asking(prompt) as answer:
        cluster.wait_for_blocks(before)
        cluster.daemon.kill()
        cluster.restart_daemon()
        told = answer.result(NO_HANG_S)
    assert told.text == cluster.alone(prompt).text
    check_that_blocks_are_handed_over(cluster)


def test_a_daemon_that_stops_hangs_nobody(cluster: Cluster) -> None:
    prompt, before = cluster.prompt(), cluster.objects()
    with cluster.asking(prompt) as answer:
        cluster.wait_for_blocks(before)
        cluster.daemon.signal(signal.SIGSTOP)
        try:
            told = answer.result(NO_HANG_S)
        finally:
            cluster.daemon.signal(signal.SIGCONT)
    assert told.text == cluster.alone(prompt).text
    check_that_blocks_are_handed_over(cluster)


def check_that_blocks_are_handed_over(cluster: Cluster) -> None:
    """A prompt goes through the pool as if nothing had been."""
    prompt = cluster.prompt()
    decode = cluster.workers["decode-0"]
    loaded = decode.counters().get("external_kv_transfer", 0)
    told = complete(cluster.port, cluster.model, prompt, TOKENS)
    assert told.text == cluster.alone(prompt).text
    whole = told.prompt_tokens // BLOCK_TOKENS * BLOCK_TOKENS
    assert decode.counters()["external_kv_transfer"] - loaded == whole
