"""What Prometheus reads of a front end, after things that happened."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from engine_integration.tests.event_engine import Engine, stored
from engine_integration.tests.router_scene import PROMPT, Scene, engines, settled
from nearkv.kv_events.wire import encode_batch
from nearkv.router.config import config_of
from nearkv.router.engines import Engines

DASHBOARD = Path(__file__).parents[1] / "deploy" / "nearkv" / "dashboards" / "router.json"
UNITS = ("_seconds", "_bytes", "_tokens", "_blocks", "_total", "_requests", "_length")


class Page:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        samples = [sample for family in self.families.values() for sample in family.samples]
        self._values = {(s.name, *sorted(s.labels.values())): s.value for s in samples}
        self.names = {sample.name for sample in samples}

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        name, *labels = (key,) if isinstance(key, str) else key
        return self._values[f"nearkv_router_{name}", *sorted(labels)]


async def scrape(scene: Scene) -> Page:
    async with scene.client.get("/metrics") as answer:
        assert answer.content_type == "text/plain"
        return Page(await answer.text())


async def test_decisions_hits_and_times_are_counted() -> None:
    async with Scene(engines("", "")) as scene:
        scene.tell("b", PROMPT[:32])
        for _ in range(3):
            async with scene.post(stream=True) as answer:
                await answer.read()
        await settled(scene)
        page = await scrape(scene)
        reason = scene.routed.router.route(PROMPT).reason
        assert page["decisions_total", "longest_prefix", reason] == 3
        assert (page["prompt_blocks_total"], page["hit_blocks_total", "gpu"]) == (48, 24)
        assert page["hit_blocks_total", "cxl"] == 0
        for name in ("decision", "first_token", "request"):
            assert page[f"{name}_seconds_count"] == 3
            assert page[f"{name}_seconds_sum"] > 0
        assert page["index_blocks"] == 8
        assert page["worker_requests", "b"] == 0


async def test_failures_refusals_and_who_waits_are_counted() -> None:
    behaviours = engines("dies", "hangs after its first byte")
    async with Scene(behaviours, max_running=1, queue_length=2) as scene:
        scene.tell("a", PROMPT)
        async with scene.post() as answer:
            assert answer.status == 200
        clients = [asyncio.create_task(scene.post(stream=True)._coro) for _ in range(3)]
        while scene.routed.health()["waiting"]["decode"] < 2:
            await asyncio.sleep(0.01)
        async with scene.post() as answer:
            assert answer.status == 429
        page = await scrape(scene)
        assert (page["retries_total", "a"], page["worker_suspended", "a"]) == (1, 1)
        assert (page["worker_suspended", "b"], page["worker_requests", "b"]) == (0, 1)
        assert (page["queue_length", "decode"], page["queue_length", "prefill"]) == (2, 0)
        assert page["refusals_total", "429"] == 1
        scene.engines[1].go_on.set()
        for client in clients:
            await (await client).read()
        page = await scrape(scene)
        assert (page["queue_wait_seconds_count"], page["queue_length", "decode"]) == (2, 0)


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path)
    yield made
    made.close()


async def test_gaps_in_events_and_other_hashes_are_counted(publisher: Engine) -> None:
    worker = {"name": "a", "url": "http://1.1.1.1:1", "topic": "kv"}
    worker |= {"events": publisher.endpoint, "replay": publisher.replay_endpoint}
    routed = Engines(config_of({"scheme": "sglang", "block_tokens": 4, "worker": [worker]}), None)

    async def until(name: str, value: float, batch: bytes | None = None) -> None:
        while page_of(routed)[name, "a"] < value:
            if batch is not None:
                publisher.publish(batch)
            publisher.answer()
            await asyncio.sleep(0.01)

    async with asyncio.timeout(20), routed.listening():
        while not publisher.is_heard():
            await asyncio.sleep(0.01)
        await until("event_batches_total", 1, encode_batch([]))
        assert page_of(routed)["event_gaps_total", "a"] <= 1
        before = page_of(routed)["event_gaps_total", "a"]
        publisher.publish(stored(0, 4), is_lost=True)
        publisher.publish(stored(4, 8))
        await until("event_gaps_total", before + 1)
        assert page_of(routed)["event_drops_total", "a"] == 0
        publisher.publish(b"no batch")
        await until("event_malformed_batches_total", 1)
        assert page_of(routed)["hash_mismatch", "a"] == 0
        publisher.publish(stored(0, 4).replace(b"block_size\x04", b"block_size\x05"))
        await until("event_other_sizes_total", 1)
        assert page_of(routed)["hash_mismatch", "a"] == 0
        publisher.publish(stored(0, 4).replace(bytes(range(4)), bytes(range(1, 5))))
        await until("hash_mismatch", 1)


def page_of(routed: Engines) -> Page:
    return Page(routed.metrics.page().decode())


def test_names_say_units_and_each_has_a_text() -> None:
    worker = {"name": "a", "url": "http://1.1.1.1:1"}
    page = page_of(Engines(config_of({"worker": [worker]}), None))
    assert len(page.families) > 20
    for name, family in page.families.items():
        assert name.startswith("nearkv_router_")
        assert family.documentation.endswith("."), name
        if family.type == "counter" or name.endswith("_created"):
            continue
        has_unit = name.endswith(UNITS) or family.documentation.startswith("1: ")
        assert has_unit, name


def test_the_dashboard_names_only_metrics_that_there_are() -> None:
    worker = {"name": "a", "url": "http://1.1.1.1:1"}
    page = page_of(Engines(config_of({"worker": [worker]}), None))
    there = set(page.families) | page.names
    there |= {f"{family.name}_total" for family in page.families.values()}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    named = {
        name
        for panel in panels
        for target in panel["targets"]
        for name in re.findall(r"nearkv_[a-z_]+", target["expr"])
    }
    assert len(named) > 12
    assert named <= there
    assert len({panel["id"] for panel in panels}) == len(panels)
