"""The router beside engines' own caches: what it knows of a prompt is what they have."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec")

from bench.engines.environment import Environment
from nearkv.kv_events.wire import decode_batch, encode_batch, encode_event, rank_of
from nearkv.router import CostModel, Router, SglangHashes, VllmHashes
from nearkv.router.hashes import HashScheme

# The first makes the engines' environments.
pytestmark = pytest.mark.timeout(600)
OF_VLLM = Path(__file__).parent / "vllm_events_program.py"
OF_SGLANG = Path(__file__).parent / "sglang_events_program.py"
TOKENS = 192
BLOCK = 16
PROMPTS = [list(range(first, first + TOKENS)) for first in (0, 1000, 2000)]
HYBRIDS = {
    "a window of as large blocks": [[16, 0], [16, 32]],
    "the window first": [[16, 32], [16, 0]],
    "full attention of larger blocks": [[32, 0], [16, 32]],
    "a window of larger blocks": [[16, 0], [64, 64]],
}
COVERED = [
    {"tokens": PROMPTS[0]},
    {"tokens": PROMPTS[0], "salt": "tenant"},
    {"tokens": PROMPTS[0], "adapter": "sql"},
    {"tokens": PROMPTS[0], "adapter": "sql", "salt": "tenant"},
    {"tokens": PROMPTS[1], "image_at": 20},
    {"tokens": PROMPTS[2], "image_at": 20, "salt": "tenant", "adapter": "sql"},
]
FOUND = [12, 12, 12, 12, 1, 0]
"""Blocks of each: of one with an image those before it, unless only the engine can hash them."""
OURS = [
    encode_event("BlockStored", "map", block_hashes=[1], token_ids=[], block_size=4, medium="CPU"),
    encode_event("BlockRemoved", "map", block_hashes=[1], medium="CPU"),
    encode_event("AllBlocksCleared", "map"),
]


def heard(batches: list[str], scheme: HashScheme, block_tokens: int = BLOCK) -> Router:
    cost = CostModel()
    cost.block_tokens = block_tokens
    router = Router(scheme, cost=cost)
    router.add_worker("engine")
    for each in map(bytes.fromhex, batches):
        router.apply("engine", decode_batch(each), rank_of(each))
    return router


def known(router: Router, tokens: list[int], **covered: str) -> int:
    return router.cached_blocks(router.block_hashes(tokens, **covered))["engine"]


@pytest.fixture(scope="module")
def of_vllm(vllm: Environment) -> dict[str, Any]:
    """By name, what vLLM's cache manager told of requests, and what it has of them."""
    asked = {name: [[{"tokens": each} for each in PROMPTS], 40] for name in HYBRIDS}
    asked["covered"] = [COVERED, 200]
    engines = [
        {"requests": of, "groups": HYBRIDS.get(name, [[16, 0]]), "hash_size": 16, "blocks": blocks}
        for name, (of, blocks) in asked.items()
    ]
    question = {"engines": engines, "ours": encode_batch(OURS).hex()}
    answer = vllm.run(OF_VLLM, question, timeout_s=300)
    return dict(zip(asked, answer["engines"], strict=True)) | {"ours": answer["ours"]}


@pytest.mark.parametrize("name", HYBRIDS)
def test_of_a_hybrid_models_prompts_the_router_knows_what_vllm_has(
    of_vllm: dict[str, Any], name: str
) -> None:
    told = of_vllm[name]
    router = heard(told["batches"], VllmHashes())
    found = [BLOCK * known(router, prompt) for prompt in PROMPTS]
    assert min(told["whole"]) < TOKENS, "some blocks were taken for others"
    large = max(size for size, window in HYBRIDS[name] if not window)
    for of_router, of_engine, usable in zip(found, told["whole"], told["hits"], strict=True):
        assert of_engine <= of_router < of_engine + large
        assert usable <= of_router


def test_salts_and_adapters_are_found_as_vllm_hashes_them(of_vllm: dict[str, Any]) -> None:
    batches = of_vllm["covered"]["batches"]
    for asked, batch, expected in zip(COVERED, batches, FOUND, strict=True):
        router = heard([batch], VllmHashes())
        for other in COVERED:
            named = {name: other[name] for name in ("salt", "adapter") if name in other}
            found = known(router, other["tokens"], **named)
            assert found == (expected if other is asked else 0), (asked, other)


def test_our_publishers_events_are_read_by_vllms_own_classes(of_vllm: dict[str, Any]) -> None:
    assert of_vllm["ours"] == OURS


def test_salts_and_adapters_are_found_as_sglang_hashes_them(sglang_environment) -> None:
    question = {"tokens": PROMPTS[0], "page_size": BLOCK, "salt": "tenant", "adapter": "sql"}
    batches = sglang_environment.run(OF_SGLANG, question, timeout_s=300)
    assert [rank_of(bytes.fromhex(batch)) for batch in batches] == [1, 1, 1]
    for place, batch in enumerate(batches):
        router = heard([batch], SglangHashes())
        found = [
            known(router, PROMPTS[0], **covered)
            for covered in ({}, {"salt": "tenant"}, {"adapter": "sql"})
        ]
        assert found == [FOUND[each] if place == each else 0 for each in range(3)]
