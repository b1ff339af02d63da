"""The router in Python: hashes as engines have them, events in both forms, decisions, refusals."""

import array
import contextlib
import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")

from nearkv.core import Error, Status
from nearkv.kv_events.wire import decode_batch, encode_batch, encode_event
from nearkv.router import (
    CostModel,
    HashMismatch,
    MooncakeThresholds,
    Router,
    SglangHashes,
    Tier,
    TierCost,
    UnknownMedium,
    VllmHashes,
    scheme_of,
)

# What the engines' own functions give for tokens 0 to 7 in blocks of 4, and with the cache_salt "s"
# (vLLM's for 0 to 3 alone): vLLM 0.32's hash_block_tokens with PYTHONHASHSEED=7, SGLang 0.5.23's
# get_hash_str.
VLLM_OF_SEED_7 = {
    "sha256": [
        "4ca76ca470822cb598398a1368491dd4483d1f0bbe73075a1fdfcf116132f436",
        "83ec2bbafeea4fe287afaa908b4298385c9665ba443e249ffcb9569841f5ae20",
        "d08766fc1e584a89f17b0fe09b70b1b4e21ec05f593e75149193511fc4b69e45",
    ],
    "sha256_cbor": [
        "5bad2223cd70c1fa647988e94aa712429d613dde74030580d84df7b311492298",
        "459dea4779d8e5671bc3ebb44c06414c29c69baa0801773ab744c8a173177855",
        "86e4c5bc17c75fcf56ed5e621e09f97c69e1ec8b64e112fb4912c81cb3b1a304",
    ],
    "xxhash": [
        "8c413b4469ae56f699bc55bfeaed537d",
        "9bbf3bd206e517cba397ca075b429146",
        "5fe53e253a98b1855bc8f3fb48113926",
    ],
    "xxhash_cbor": [
        "65ac626b43b9ca1d2c3ac784ac8a78dd",
        "b3bd8ad3e3a6259dcc030aea9d218f8e",
        "47050a89463dae6622d78f7d6ce22ed4",
    ],
}
VLLM_SHA256 = [
    "9da1c53089c000ad1a79a77c143b68dda00e2a85315bc1f690bbd03ba4a195dd",
    "1c9b6c0620e875631f1c5395ed56f2243aa113f88fc842f04fbb0654074b8d43",
]
SGLANG = [
    "baed642339816affb3fe8719792d0e4ce82f12db72b7373d244eaa65445800fe",
    "01414b052706d93bd0f1f1646c0e8ca2fa8ef5efd7bcc99f7a1cee8eb11ad052",
]
SGLANG_NUMBERS = [-4977211910723114241, 90435953025800507]
SGLANG_SALTED = [-8786366623287297573, 1605981857989356601]


def cost_of(block_tokens: int) -> CostModel:
    cost = CostModel()
    cost.block_tokens = block_tokens
    return cost


def router_of(policy: str = "longest_prefix", **options: Any) -> Router:
    router = Router(SglangHashes(), policy=policy, cost=cost_of(4), **options)
    for name in ("a", "b"):
        router.add_worker(name)
    return router


def stored(
    tokens: Sequence[int], *, first: int = 0, medium: str | None = "GPU", form: str = "map"
) -> Any:
    """As SGLang tells of the blocks of a prompt from the given one on."""
    digests = SglangHashes().digests(tokens, 4)
    hashes = [int.from_bytes(digest[:8], "big", signed=True) for digest in digests]
    return encode_event(
        "BlockStored",
        form,
        block_hashes=hashes[first:],
        parent_block_hash=hashes[first - 1] if first else None,
        token_ids=list(tokens[4 * first :]),
        block_size=4,
        medium=medium,
    )


def tell(router: Router, worker: str, *events: Any) -> None:
    router.apply(worker, decode_batch(encode_batch(events)))


@pytest.mark.parametrize("algorithm", list(VLLM_OF_SEED_7))
def test_hashes_are_vllms(algorithm: str) -> None:
    if algorithm.startswith("xxhash"):
        pytest.importorskip("xxhash")
    if algorithm.endswith("cbor"):
        pytest.importorskip("cbor2")
    scheme = VllmHashes(algorithm, seed="7")
    own = scheme.digests(range(10), 4) + scheme.digests(range(4), 4, salt="s")
    assert [digest.hex() for digest in own] == VLLM_OF_SEED_7[algorithm]
    assert scheme.digests(range(4, 8), 4, parent=own[0]) == [own[1]]
    assert scheme.number(own[0]) == int(VLLM_OF_SEED_7[algorithm][0][-16:], 16)


def test_hashes_are_vllms_without_a_seed() -> None:
    scheme = scheme_of("vllm-sha256")
    assert [digest.hex() for digest in scheme.digests(range(8), 4)] == VLLM_SHA256


def test_hashes_are_sglangs() -> None:
    scheme = scheme_of("sglang")
    digests = scheme.digests(range(9), 4)
    assert [digest.hex() for digest in digests] == SGLANG
    assert [scheme.number(digest) for digest in digests] == [
        number % 2**64 for number in SGLANG_NUMBERS
    ]
    salted = [scheme.number(digest) for digest in scheme.digests(range(8), 4, salt="s")]
    assert salted == [number % 2**64 for number in SGLANG_SALTED]


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("vllm-md5", "sha256_cbor"),
        ("fnv", "sglang, vllm-sha256"),
        ("vllm-xxhash", "PYTHONHASHSEED"),
    ],
)
def test_schemes_that_cannot_be_are_refused(name: str, mend: str) -> None:
    with pytest.raises(ValueError, match=mend):
        scheme_of(name)


def test_tokens_that_cannot_be_hashed_are_refused() -> None:
    with pytest.raises(ValueError, match="0 to 2"):
        SglangHashes().digests([1, 2, 3, -4], 4)


@pytest.mark.parametrize("form", ["map", "array"])
def test_prompts_go_where_events_say_their_blocks_are(form: str) -> None:
    router = router_of()
    prompt = list(range(23))
    tell(router, "a", stored(prompt[:8], form=form))
    tell(
        router,
        "b",
        stored(prompt[:16], form=form),
        stored(prompt, first=4, form=form, medium="CPU"),
    )
    decision = router.route(prompt)
    assert (decision.worker, decision.blocks, decision.cached_blocks) == ("b", 5, 5)
    assert decision.prefix == {Tier.GPU: 4, Tier.DRAM: 1, Tier.CXL: 0, Tier.SHARED: 0}
    assert decision.uncached_tokens == 3
    assert "b of 2: the longest prefix" in str(decision)
    assert "has 5 of 5 blocks (gpu 4, dram 1)" in str(decision)
    second = stored(prompt)["block_hashes"][1]
    tell(router, "b", encode_event("BlockRemoved", form, block_hashes=[second], medium="GPU"))
    assert router.route(prompt).worker == "a"
    tell(router, "a", encode_event("AllBlocksCleared", form))
    assert router.route(prompt).worker == "b"
    assert router.route(prompt, among=["a"]).cached_blocks == 0
    assert "b has 1" not in str(router.route(prompt, among=["a"]))


def test_a_tier_keeps_a_block_that_another_loses() -> None:
    router = router_of()
    tell(router, "a", stored(range(8)), stored(range(8), medium="CPU"))
    hashes = stored(range(8))["block_hashes"]
    tell(router, "a", encode_event("BlockRemoved", "map", block_hashes=hashes, medium="GPU"))
    assert router.route(list(range(8))).prefix[Tier.DRAM] == 2


def test_pools_are_everybodys_and_media_have_tiers() -> None:
    router = router_of(media={"hbf": Tier.CXL})
    router.add_worker("pool", is_pool=True)
    tell(router, "pool", stored(range(12), medium="STORAGE"))
    tell(router, "b", stored(range(4), medium="HBF"))
    assert router.route(list(range(12)), among=["a"]).prefix[Tier.SHARED] == 3
    decision = router.route(list(range(12)), among=["b"])
    assert (decision.prefix[Tier.CXL], decision.prefix[Tier.SHARED]) == (1, 2)
    with pytest.raises(UnknownMedium, match=r"media=.*FLOPPY"):
        tell(router, "a", stored(range(4), medium="floppy"))


def test_hashes_may_be_given_instead_of_tokens() -> None:
    router = router_of()
    tell(router, "a", stored(range(8)))
    hashes = router.block_hashes(range(9))
    assert hashes.dtype == np.uint64
    assert router.route(9, hashes=hashes).cached_blocks == 2
    assert router.route(9, hashes=[int(each) for each in hashes]).cached_blocks == 2
    assert router.route(9).cached_blocks == 0
    assert router.route(array.array("I", range(9))).cached_blocks == 2
    with pytest.raises(Error, match="whole blocks") as caught:
        router.route(7, hashes=hashes)
    assert caught.value.status == Status.BAD_ARGUMENT
    for bad, kind in (
        (hashes.astype(np.int64), TypeError),
        ([2**64], ValueError),
        ([1.5], TypeError),
    ):
        with pytest.raises(kind):
            router.route(9, hashes=bad)


def test_another_hash_is_refused_and_nothing_of_it_kept() -> None:
    router = router_of()
    tell(router, "a", stored(range(8)))
    wrong = stored(range(100, 108)) | {"token_ids": list(range(8))}
    with pytest.raises(HashMismatch, match="PYTHONHASHSEED"):
        tell(router, "a", wrong)
    assert router.stats.blocks == 0


def test_pairs_of_tokens_are_another_hash_and_no_nonsense() -> None:
    router = router_of()
    pairs = [[token, token + 1] for token in range(8)]
    with pytest.raises(HashMismatch, match="EAGLE"):
        tell(router, "a", stored(range(8)) | {"token_ids": pairs})


def test_whole_digests_are_compared_whole() -> None:
    scheme = VllmHashes("sha256")
    router = Router(scheme, cost=cost_of(4))
    router.add_worker("a")
    digests = scheme.digests(range(8), 4)
    event = {"type": "BlockStored", "block_hashes": digests, "parent_block_hash": None}
    event |= {"token_ids": list(range(8)), "block_size": 4, "medium": "GPU"}
    tell(router, "a", event)
    assert router.route(list(range(8))).cached_blocks == 2
    other = [bytes([digests[0][0] ^ 1]) + digests[0][1:], digests[1]]
    with pytest.raises(HashMismatch):
        tell(router, "a", event | {"block_hashes": other})


def test_salted_blocks_are_not_taken_for_another_hash() -> None:
    scheme = VllmHashes("sha256")
    router = Router(scheme, cost=cost_of(4))
    router.add_worker("a")
    digests = scheme.digests(range(8), 4, salt="tenant")
    event = {"type": "BlockStored", "block_hashes": digests, "parent_block_hash": None}
    event |= {"token_ids": list(range(8)), "block_size": 4, "medium": "GPU"}
    tell(router, "a", event | {"extra_keys": [["tenant"], None]})
    assert router.route(list(range(8)), salt="tenant").cached_blocks == 2
    assert router.route(list(range(8))).cached_blocks == 0


def test_unknown_workers_are_named_with_the_mend() -> None:
    router = Router(SglangHashes(), cost=cost_of(4))
    with pytest.raises(Error, match="add_worker one") as caught:
        router.route([1, 2, 3, 4])
    assert caught.value.status == Status.NOT_FOUND
    router.add_worker("a")
    for call in (
        lambda: tell(router, "c", stored(range(4))),
        lambda: router.remove_worker("c"),
        lambda: router.clear("c"),
        lambda: router.load("c"),
        lambda: router.route([1], among=["c"]),
    ):
        with pytest.raises((Error, KeyError), match="'c'"):
            call()
    with pytest.raises(Error, match="remove_worker it first"):
        router.add_worker("a")


@pytest.mark.parametrize(
    ("options", "mend"),
    [
        ({"policy": "fastest"}, "longest_prefix"),
        ({"index_limit_bytes": 10}, "index_limit_bytes at least 1 MiB"),
        ({"tiers": [TierCost(2, 0, 0)] * 4}, "weights 0 to 1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], mend: str) -> None:
    cost = CostModel()
    if tiers := options.pop("tiers", None):
        cost.tiers = tiers
    with pytest.raises(Error, match=mend):
        Router(SglangHashes(), cost=cost, **options)


def test_mooncake_refuses_what_would_be_late() -> None:
    slow = MooncakeThresholds()
    slow.ttft_slo_s = 0.001
    router = router_of("mooncake", mooncake=slow)
    with pytest.raises(Error, match="429") as caught:
        router.route(list(range(400)))
    assert caught.value.status == Status.BUSY


def test_load_counts_until_a_request_has_ended() -> None:
    router = router_of("least_load")
    first = router.start(router.route(list(range(40))))
    second = router.route(list(range(40)))
    assert (second.worker, router.load("a").prefill_tokens) == ("b", 40)
    with router.start(second) as started:
        started.first_token()
        assert (router.load("b").requests, router.load("b").prefill_tokens) == (1, 0)
    first.finish()
    first.finish()
    assert [router.load(name).requests for name in ("a", "b")] == [0, 0]
    stale = router.route([1])
    router.remove_worker(stale.worker)
    with pytest.raises(Error, match="route again"):
        router.start(stale)


def test_a_full_index_says_so_and_goes_on() -> None:
    router = router_of(index_limit_bytes=1 << 20)
    hashes = np.random.default_rng(1).integers(1, 2**63, 100_000, dtype=np.uint64)
    event = stored(range(4)) | {"block_hashes": hashes.tolist(), "token_ids": []}
    with pytest.raises(Error, match="index_limit_bytes") as caught:
        tell(router, "a", event)
    assert caught.value.status == Status.POOL_FULL
    stats = router.stats
    assert stats.memory_bytes <= stats.limit_bytes == 1 << 20
    assert stats.counters.refused + stats.blocks == 100_000
    router.clear("a")
    tell(router, "a", stored(range(8)))
    assert router.route(list(range(8))).cached_blocks == 2


@pytest.mark.parametrize("seed", range(20))
def test_nonsense_never_breaks_the_router(seed: int) -> None:
    draw = random.Random(seed)
    router = router_of()
    good = encode_batch([stored(range(16)), encode_event("AllBlocksCleared", "map")])
    for _ in range(300):
        batch = bytearray(good)
        for _ in range(draw.randrange(1, 6)):
            batch[draw.randrange(len(batch))] = draw.randrange(256)
        # What EventSubscriber expects; anything else fails the test.
        with contextlib.suppress(ValueError, TypeError, Error):
            router.apply("a", decode_batch(bytes(batch[: draw.randrange(1, len(batch) + 1)])))
    router.clear("a")
    tell(router, "a", stored(range(8)))
    assert router.route(list(range(8))).cached_blocks == 2


def test_threads_route_while_events_come() -> None:
    router = router_of("least_ttft")
    over = threading.Event()
    failures: list[BaseException] = []

    def route() -> None:
        try:
            while not over.is_set():
                with router.start(router.route(list(range(64)))):
                    pass
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=route) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        tell(router, "a", stored(range(64)))
        tell(router, "b", stored(range(32)), encode_event("AllBlocksCleared", "map"))
    over.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert router.route(list(range(64)), among=["a"]).cached_blocks == 16
    assert router.load("a").requests == 0
