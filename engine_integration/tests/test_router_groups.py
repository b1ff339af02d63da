"""Engines of hybrid models tell of several KV cache groups, whose blocks differ in size."""

from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")

from nearkv.kv_events import KnownTokens
from nearkv.kv_events.wire import decode_batch, encode_batch, encode_event, number_of
from nearkv.router import CostModel, OtherBlockSize, Router, Tier, UnknownMedium, VllmHashes

pytestmark = pytest.mark.quick
PROMPT = list(range(16))
SCHEME = VllmHashes()
DIGESTS = SCHEME.digests(PROMPT, 4)
FULL, WINDOW, STATE = "full_attention", "sliding_window", "mamba"


@pytest.fixture
def router() -> Router:
    cost = CostModel()
    cost.block_tokens = 4
    made = Router(SCHEME, cost=cost)
    made.add_worker("a")
    return made


def stored(group: int | None, kind: str | None, hashes: Any = DIGESTS, **fields: Any) -> Any:
    told = {"token_ids": PROMPT, "block_size": 4, "medium": "GPU"}
    told |= {"extra_keys": [None] * len(hashes), "group_idx": group, "kv_cache_spec_kind": kind}
    return encode_event("BlockStored", "map", block_hashes=hashes, **(told | fields))


def removed(group: int | None, *places: int) -> Any:
    hashes = [DIGESTS[place] for place in places]
    fields = {"block_hashes": hashes, "medium": "GPU", "group_idx": group}
    return encode_event("BlockRemoved", "map", **fields)


def tell(router: Router, *events: Any) -> int:
    """How many of the prompt's blocks are known then."""
    router.apply("a", decode_batch(encode_batch(events)))
    return known(router)


def known(router: Router) -> int:
    return router.cached_blocks(router.block_hashes(PROMPT))["a"]


@pytest.mark.parametrize("kind", [STATE, WINDOW, "chunked_local_attention", "of tomorrow"])
def test_a_group_that_is_not_of_full_attention_neither_adds_nor_takes(
    router: Router, kind: str
) -> None:
    large = stored(1, kind, DIGESTS[3:], block_size=16)
    assert tell(router, large, stored(0, FULL)) == 4
    assert tell(router, stored(2, kind), removed(1, 3), removed(2, 0, 1)) == 4
    assert tell(router, removed(0, 2)) == 2
    assert tell(router, stored(2, kind)) == 2


def test_of_groups_of_full_attention_each_one_is_needed(router: Router) -> None:
    assert tell(router, stored(0, FULL), stored(3, "mla_attention")) == 4
    assert tell(router, removed(3, 1)) == 1


def test_an_engine_without_full_attention_is_heard_as_it_is(router: Router) -> None:
    assert tell(router, stored(0, WINDOW)) == 4
    assert tell(router, removed(0, 0)) == 0
    assert tell(router, stored(None, None)) == 4
    assert tell(router, removed(None, 2)) == 2


@pytest.mark.parametrize("as_numbers", [False, True])
@pytest.mark.parametrize("salt", ["", "tenant"])
def test_larger_blocks_are_known_by_their_parts(
    router: Router, as_numbers: bool, salt: str
) -> None:
    """Engines hash by the size that divides those of all groups."""
    digests = SCHEME.digests(PROMPT, 4, salt=salt)
    told = [number_of(each) for each in digests] if as_numbers else digests
    first = stored(0, FULL, told[1:2], token_ids=PROMPT[:8], block_size=8)
    if salt:
        first["extra_keys"] = [[salt]]
    then = stored(0, FULL, told[3:], token_ids=PROMPT[8:], block_size=8, parent_block_hash=told[1])
    tell(router, first, then)
    hashes = router.block_hashes(PROMPT, salt=salt)
    assert router.cached_blocks(hashes)["a"] == 4
    # Of an image's prompt the parts are the engine's secret.
    unseen = stored(0, FULL, [b"?" * 32], token_ids=PROMPT[:8], block_size=8)
    tell(router, unseen | {"extra_keys": [[["digest", 0]]]})
    fields = {"block_hashes": told[3:], "medium": "GPU", "group_idx": 0}
    tell(router, encode_event("BlockRemoved", "map", **fields))
    assert router.cached_blocks(hashes)["a"] == 3


def test_blocks_of_another_size_are_left_out_and_the_rest_is_not(router: Router) -> None:
    """LMCache tells of chunks of its own in vLLM's batches, say, by hashes of its own."""
    other = stored(None, None, [b"o" * 32], block_size=16, medium="CPU")
    disc = stored(None, None, medium="FLOPPY")
    with pytest.raises(OtherBlockSize, match=r"--block-size 4 .*block_tokens = 16"):
        tell(router, other, disc, stored(0, FULL))
    assert known(router) == 4
    with pytest.raises(UnknownMedium):
        tell(router, disc, other, removed(0, 3))
    assert known(router) == 3


def test_tokens_that_are_not_those_of_the_blocks_are_not_taken_for_them(router: Router) -> None:
    """A window's group tells of the tokens of all, and of the blocks that it still has."""
    event = stored(0, WINDOW, DIGESTS[2:])
    tell(router, event)
    assert router.stats.blocks == 2
    tokens = KnownTokens()
    assert tokens.learn(encode_batch([event]))
    assert tokens.of(DIGESTS[2]) is None


def test_what_is_told_without_its_salt_is_not_taken_for_another_hash(router: Router) -> None:
    """vLLM's connectors do not know what else a hash of an offloaded block covers."""
    salted = SCHEME.digests(PROMPT, 4, salt="tenant")
    offloaded = stored(0, None, salted, medium="CPU", extra_keys=None)
    tell(router, offloaded, stored(0, FULL))
    assert known(router) == 4
    decision = router.route(PROMPT, salt="tenant")
    assert decision.prefix[Tier.DRAM] == 4
    tokens = KnownTokens()
    assert tokens.learn(encode_batch([offloaded]))
    assert tokens.of(salted[0]) is None, "it would be told on without its salt"


def test_a_pools_publisher_tells_of_the_smallest_block_with_a_hash() -> None:
    small, large = stored(0, FULL), stored(1, STATE, DIGESTS[3:], block_size=16)
    for events in ([small, large], [large, small]):
        tokens = KnownTokens()
        assert tokens.learn(encode_batch(events))
        told = tokens.of(DIGESTS[3])
        assert told is not None
        assert (told.block_size, told.parent, told.token_ids) == (4, DIGESTS[2], PROMPT[12:])
