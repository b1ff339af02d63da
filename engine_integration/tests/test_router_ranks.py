"""Data-parallel ranks behind one address: each has a cache and numbers its batches by itself."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")

import msgspec
import zmq

from engine_integration.tests.event_engine import until
from engine_integration.tests.router_scene import Scene, engines
from nearkv.kv_events.wire import decode_batch, encode_event, endpoint_of_rank
from nearkv.membership import BadMember, Member
from nearkv.router import CostModel, EventSubscriber, Router, SglangHashes
from nearkv.router.config import ConfigError, config_of

PROMPTS = [list(range(16)), list(range(100, 116))]
CLEARED = encode_event("AllBlocksCleared", "map")


def router_of(policy: str = "longest_prefix", **options: Any) -> Router:
    cost = CostModel()
    cost.block_tokens = 4
    made = Router(SglangHashes(), policy=policy, cost=cost)
    made.add_worker("a", **options)
    return made


def stored(tokens: list[int], first: int = 0, last: int = 4) -> Any:
    digests = SglangHashes().digests(tokens, 4)
    numbers = [SglangHashes().number(digest) for digest in digests]
    return encode_event(
        "BlockStored",
        "map",
        block_hashes=numbers[first:last],
        parent_block_hash=numbers[first - 1] if first else None,
        token_ids=tokens[4 * first : 4 * last],
        block_size=4,
        medium="GPU",
    )


def batch(rank: int | None, *events: Any) -> bytes:
    return msgspec.msgpack.encode([0.0, events, rank])


def tell(router: Router, rank: int, *events: Any) -> None:
    router.apply("a", decode_batch(batch(rank, *events)), rank)


def known(router: Router) -> list[int]:
    """Of each prompt."""
    return [router.cached_blocks(router.block_hashes(prompt))["a"] for prompt in PROMPTS]


class Ranks:
    """Publishers of two ranks, at one endpoint or at two, that keep what they have published."""

    def __init__(self, *, is_shared: bool) -> None:
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        port = self.router.bind_to_random_port("tcp://127.0.0.1")
        self.replay = f"tcp://127.0.0.1:{port}"
        self.pubs, self.endpoint = [], ""
        while not self.endpoint:
            self._bind(1 if is_shared else 2)
        self.kept: list[list[bytes]] = [[], []]

    def _bind(self, count: int) -> None:
        """To ports that lie side by side."""
        self.pubs = [self.context.socket(zmq.XPUB) for _ in range(count)]
        port = self.pubs[0].bind_to_random_port("tcp://127.0.0.1")
        try:
            for behind, pub in enumerate(self.pubs[1:], 1):
                pub.bind(f"tcp://127.0.0.1:{port + behind}")
        except zmq.ZMQError:
            return
        self.endpoint = f"tcp://127.0.0.1:{port}"

    def publish(self, rank: int, *events: Any, is_lost: bool = False) -> None:
        number = len(self.kept[rank])
        self.kept[rank].append(batch(rank, *events))
        if not is_lost:
            pub = self.pubs[rank % len(self.pubs)]
            pub.send_multipart([b"", number.to_bytes(8, "big"), self.kept[rank][-1]])

    def are_heard(self) -> bool:
        """Whether subscriptions have come through: what was published before is not heard."""
        return all(pub.poll(0) for pub in self.pubs)

    def answer(self) -> None:
        while self.router.poll(0):
            client, _, first = self.router.recv_multipart()
            for kept in self.kept:
                for number in range(int.from_bytes(first, "big"), len(kept)):
                    named = number.to_bytes(8, "big")
                    self.router.send_multipart([client, b"", b"", named, kept[number]])
            self.router.send_multipart([client, b"", b"", b"\xff" * 8, b""])


@pytest.fixture(params=[True, False], ids=["one address", "an address each"])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    made = Ranks(is_shared=request.param)
    yield made
    made.context.destroy(linger=0)


@pytest.mark.parametrize("has_replay", [True, False])
def test_batches_of_ranks_do_not_look_like_those_of_one_publisher(
    ranks: Ranks, has_replay: bool
) -> None:
    count = len(ranks.pubs)
    router = router_of(ranks=count)
    events = EventSubscriber(router, patience_s=0.3)
    replay = ranks.replay if has_replay and count == 1 else ""
    events.add("a", ranks.endpoint, replay_endpoint=replay, ranks=count)

    def publish_beginnings() -> None:
        for rank in (0, 1):
            ranks.publish(rank, stored(PROMPTS[rank], last=2))

    try:
        until(ranks.are_heard, lambda: events.poll(20))
        until(
            lambda: known(router) == [2, 2],
            publish_beginnings,
            ranks.answer,
            lambda: events.poll(20),
        )
        dropped = events.counters("a").dropped
        for rank in (0, 1):
            ranks.publish(rank, stored(PROMPTS[rank], first=2))
        until(lambda: known(router) == [4, 4], lambda: events.poll(10), ranks.answer)
        assert events.counters("a").dropped == dropped
        ranks.publish(1, CLEARED)
        until(lambda: known(router) == [4, 0], lambda: events.poll(10), ranks.answer)
        # What one rank has missed is asked for, or costs this rank's blocks and no other's.
        ranks.publish(1, stored(PROMPTS[1], last=2), is_lost=True)
        ranks.publish(1, stored(PROMPTS[1], first=2))
        lost = events.counters("a").dropped
        ended = (
            (lambda: known(router) == [4, 4])
            if replay
            else (lambda: events.counters("a").dropped > lost)
        )
        until(ended, lambda: events.poll(10), ranks.answer)
        assert known(router)[0] == 4
    finally:
        events.close()


@pytest.mark.quick
def test_what_one_rank_loses_another_keeps() -> None:
    router = router_of()
    for rank in (3, 5):
        tell(router, rank, stored(PROMPTS[0]))
    removed = {"block_hashes": stored(PROMPTS[0])["block_hashes"], "medium": "GPU"}
    tell(router, 3, encode_event("BlockRemoved", "map", **removed))
    assert known(router) == [4, 0]
    tell(router, 3, stored(PROMPTS[1]), CLEARED)
    assert known(router) == [4, 0]
    router.clear("a", 5)
    assert known(router) == [0, 0]
    tell(router, 5, stored(PROMPTS[1]))
    router.clear("a")
    assert router.stats.blocks == 0
    router.remove_worker("a")
    router.add_worker("a")
    assert known(router) == [0, 0]


@pytest.mark.quick
def test_an_engine_with_one_rank_of_any_number_is_one_worker() -> None:
    router = router_of()
    tell(router, 7, stored(PROMPTS[0]))
    assert router.route(PROMPTS[0]).candidates == 1
    assert router.route(PROMPTS[0]).rank is None


@pytest.mark.quick
def test_configured_ranks_are_chosen_by_their_caches_and_their_load() -> None:
    router = router_of("least_load", ranks=2)
    started = [router.start(router.route(PROMPTS[0])) for _ in range(2)]
    assert router.load("a").requests == 2
    assert {each.rank for each in (router.route([1]), router.route([1]))} <= {0, 1}
    for each in started:
        each.finish()
    assert router.load("a") == (0, 0, 0)
    # Those of the second of two machines are numbered on from the first one's.
    longest = router_of(ranks=2)
    tell(longest, 3, stored(PROMPTS[0]))
    decision = longest.route(PROMPTS[0])
    assert (decision.worker, decision.rank, decision.cached_blocks) == ("a", 1, 4)
    assert str(decision).startswith("a rank 1 of 2: ")


async def test_a_request_goes_to_the_rank_that_has_its_beginning() -> None:
    async with Scene(engines(""), ranks=2) as scene:
        scene.routed.router.apply("a", decode_batch(scene.batch(PROMPTS[0])), 1)
        assert await scene.status("/v1/completions", prompt=PROMPTS[0]) == 200
        assert await scene.status("/v1/completions", prompt=PROMPTS[0], stream=True) == 200
        names = {"X-data-parallel-rank": "0"}
        async with scene.client.post(
            "/v1/completions", json={"prompt": PROMPTS[0]}, headers=names
        ) as answer:
            assert answer.status == 200
        told = [
            {name.lower(): value for name, value in each.items()}
            for each in scene.engines[0].headers
        ]
        assert [each["x-data-parallel-rank"] for each in told] == ["1", "1", "0"]
        while any(scene.loads()):
            await asyncio.sleep(0.01)
    async with Scene(engines("")) as scene:
        assert await scene.status("/v1/completions") == 200
        assert "x-data-parallel-rank" not in map(str.lower, scene.engines[0].headers[0])


@pytest.mark.quick
@pytest.mark.parametrize("wrong", [{"ranks": 0}, {"ranks": 2, "events": "ipc://here"}])
def test_ranks_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    worker = {"name": "a", "url": "http://a:8000"} | wrong
    with pytest.raises(ConfigError, match="tcp://host:5557"):
        config_of({"worker": [worker]})
    with pytest.raises(BadMember, match="tcp://host:5557"):
        Member(**worker)
    assert Member("a", "http://a", ranks=2, events="tcp://a:5557").ranks == 2


@pytest.mark.quick
def test_ranks_publish_at_the_ports_behind() -> None:
    assert endpoint_of_rank("tcp://[::1]:5557", 3) == "tcp://[::1]:5560"
    assert endpoint_of_rank("ipc://here", 0) == "ipc://here"
    assert endpoint_of_rank("", 2) == ""


@pytest.mark.quick
@pytest.mark.parametrize("rank", [-1, 1 << 20, "first"])
def test_a_rank_that_cannot_be_is_no_batch(rank: Any) -> None:
    with pytest.raises(msgspec.DecodeError):
        list(decode_batch(batch(rank)))
