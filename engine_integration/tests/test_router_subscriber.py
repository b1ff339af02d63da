"""Events over ZeroMQ, from our publisher and from one that does what vLLM's does."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")

import zmq

from engine_integration.tests.event_engine import HASHES, PROMPT, Engine, stored, until
from nearkv.kv_events import BlockChanges, KVEventPublisher
from nearkv.kv_events.wire import encode_batch, encode_event
from nearkv.router import CostModel, EventSubscriber, Router, SglangHashes


@pytest.fixture
def router() -> Router:
    cost = CostModel()
    cost.block_tokens = 4
    made = Router(SglangHashes(), policy="longest_prefix", cost=cost)
    made.add_worker("a")
    return made


@pytest.fixture
def subscriber(router: Router) -> Iterator[EventSubscriber]:
    made = EventSubscriber(router, patience_s=0.3)
    yield made
    made.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path)
    yield made
    made.close()


def cached(router: Router) -> int:
    return router.route(PROMPT, among=["a"]).cached_blocks


def listen(subscriber: EventSubscriber, engine: Engine, **options: Any) -> None:
    """Adds the worker, and waits until its subscription has come through."""
    subscriber.add("a", engine.endpoint, topic="kv", **options)
    until(engine.is_heard, lambda: subscriber.poll(10))
    while subscriber.counters("a").batches == 0:
        engine.publish(encode_batch([]))
        engine.answer()
        subscriber.poll(10)


@pytest.mark.parametrize("form", ["map", "array"])
def test_events_arrive_in_either_form(
    router: Router, subscriber: EventSubscriber, engine: Engine, form: str
) -> None:
    listen(subscriber, engine, replay_endpoint=engine.replay_endpoint)
    engine.publish(stored(0, 5, form))
    until(lambda: cached(router) == 5, lambda: subscriber.poll(10), engine.answer)
    assert subscriber.counters("a").dropped == 0


def test_who_comes_late_learns_what_there_is_without_a_new_event(
    router: Router, subscriber: EventSubscriber, engine: Engine
) -> None:
    engine.publish(stored(0, 5))
    engine.publish(stored(5, 9))
    subscriber.add("a", engine.endpoint, replay_endpoint=engine.replay_endpoint, topic="kv")
    until(lambda: cached(router) == 9, lambda: subscriber.poll(10), engine.answer)
    assert (subscriber.counters("a").gaps, subscriber.counters("a").dropped) == (0, 0)


def test_a_gap_is_asked_for(router: Router, subscriber: EventSubscriber, engine: Engine) -> None:
    listen(subscriber, engine, replay_endpoint=engine.replay_endpoint)
    engine.publish(stored(0, 5), is_lost=True)
    engine.publish(stored(5, 9))
    until(lambda: cached(router) == 9, lambda: subscriber.poll(10), engine.answer)
    assert subscriber.counters("a").dropped == 0


def test_a_gap_that_is_kept_no_more_drops_the_worker_and_says_so(
    router: Router,
    subscriber: EventSubscriber,
    engine: Engine,
    caplog: pytest.LogCaptureFixture,
) -> None:
    listen(subscriber, engine, replay_endpoint=engine.replay_endpoint)
    engine.publish(stored(0, 5))
    until(lambda: cached(router) == 5, lambda: subscriber.poll(10), engine.answer)
    engine.publish(encode_batch([encode_event("AllBlocksCleared", "map")]), is_lost=True)
    engine.kept.clear()
    engine.publish(stored(0, 2))
    with caplog.at_level(logging.WARNING):
        until(lambda: cached(router) == 2, lambda: subscriber.poll(10), engine.answer)
    assert subscriber.counters("a").dropped == 1
    assert "Its blocks are dropped" in caplog.text


def test_who_does_not_answer_is_not_waited_for(
    router: Router, subscriber: EventSubscriber, engine: Engine
) -> None:
    listen(subscriber, engine, replay_endpoint=engine.replay_endpoint)
    engine.publish(stored(0, 5), is_lost=True)
    engine.publish(stored(0, 3))
    until(lambda: cached(router) == 3, lambda: subscriber.poll(10))
    assert subscriber.counters("a").dropped == 1


def test_without_a_replay_endpoint_a_gap_drops_the_worker(
    router: Router, subscriber: EventSubscriber, engine: Engine
) -> None:
    listen(subscriber, engine)
    engine.publish(stored(0, 5), is_lost=True)
    engine.publish(stored(0, 3))
    until(lambda: cached(router) == 3, lambda: subscriber.poll(10))
    assert subscriber.counters("a").dropped >= 1


def test_an_engine_that_begins_anew_has_nothing(
    router: Router, subscriber: EventSubscriber, tmp_path: Path
) -> None:
    with closing(Engine(tmp_path)) as engine:
        listen(subscriber, engine, replay_endpoint=engine.replay_endpoint)
        for _ in range(50):
            engine.publish(stored(0, 5))
        until(lambda: cached(router) == 5, lambda: subscriber.poll(10), engine.answer)
    with closing(Engine(tmp_path)) as engine:
        until(
            lambda: subscriber.counters("a").dropped == 1,
            lambda: engine.publish(stored(0, 2)),
            lambda: subscriber.poll(20),
            engine.answer,
        )
        until(lambda: cached(router) == 2, lambda: subscriber.poll(10), engine.answer)


def test_what_is_no_batch_drops_the_worker(
    router: Router, subscriber: EventSubscriber, engine: Engine
) -> None:
    listen(subscriber, engine, replay_endpoint=engine.replay_endpoint)
    engine.publish(stored(0, 5))
    until(lambda: cached(router) == 5, lambda: subscriber.poll(10), engine.answer)
    engine.pub.send_multipart([b"kv", b"short"])
    engine.pub.send_multipart([b"kv"])
    engine.publish(b"\xc1 is no msgpack")
    until(lambda: subscriber.counters("a").malformed == 1, lambda: subscriber.poll(10))
    assert (cached(router), subscriber.counters("a").dropped) == (0, 1)
    engine.publish(stored(0, 5))
    until(lambda: cached(router) == 5, lambda: subscriber.poll(10), engine.answer)


def test_another_hash_is_not_listened_to(
    router: Router, subscriber: EventSubscriber, engine: Engine
) -> None:
    listen(subscriber, engine, replay_endpoint=engine.replay_endpoint)
    event = encode_event(
        "BlockStored",
        "map",
        block_hashes=[1, 2],
        token_ids=PROMPT[:8],
        block_size=4,
        medium="GPU",
    )
    engine.publish(encode_batch([event]))
    until(lambda: bool(subscriber.counters("a").mismatch), lambda: subscriber.poll(10))
    assert "PYTHONHASHSEED" in subscriber.counters("a").mismatch
    engine.publish(stored(0, 5))
    for _ in range(5):
        subscriber.poll(20)
    assert cached(router) == 0


def test_our_publisher_tells_who_comes_late_all(
    router: Router, subscriber: EventSubscriber, tmp_path: Path
) -> None:
    held = [number % 2**64 for number in HASHES]
    endpoints = f"ipc://{tmp_path}/e", f"ipc://{tmp_path}/r"
    publisher = KVEventPublisher(
        endpoints[0], lambda: held, replay_endpoint=endpoints[1], block_size=4, kept_batches=2
    )
    with closing(publisher):
        for block in held:
            publisher.tell(BlockChanges(stored=[block]))
        router.add_worker("pool", is_pool=True)
        subscriber.add("pool", endpoints[0], replay_endpoint=endpoints[1])
        again = BlockChanges(stored=held[-1:])
        until(
            lambda: cached(router) == 16,
            lambda: publisher.tell(again),
            publisher.answer,
            lambda: subscriber.poll(10),
        )
        # Nothing says whether the subscription came through, so this is told until it is heard.
        removed = BlockChanges(removed=held[10:])
        del held[10:]
        until(
            lambda: cached(router) == 10,
            lambda: publisher.tell(removed),
            publisher.answer,
            lambda: subscriber.poll(10),
        )


def test_workers_come_and_go_while_a_thread_listens(
    router: Router, subscriber: EventSubscriber, engine: Engine
) -> None:
    subscriber.start()
    for _ in range(20):
        subscriber.add("a", engine.endpoint, topic="kv", replay_endpoint=engine.replay_endpoint)
        with pytest.raises(ValueError, match="remove it first"):
            subscriber.add("a", engine.endpoint)
        subscriber.remove("a")
    subscriber.add("a", engine.endpoint, topic="kv", replay_endpoint=engine.replay_endpoint)
    until(
        lambda: cached(router) == 5,
        lambda: engine.publish(stored(0, 5)),
        engine.answer,
        lambda: time.sleep(0.01),
    )
    with pytest.raises(zmq.ZMQError):
        subscriber.add("b", "nowhere")


def test_who_listens_to_nobody_sleeps(subscriber: EventSubscriber) -> None:
    before_s = time.monotonic()
    assert subscriber.poll(50) == 0
    assert time.monotonic() - before_s > 0.04
