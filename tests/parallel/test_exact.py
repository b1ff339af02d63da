"""Every algorithm on every sharding, against attention in float64 in one place; bytes, counted."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from bench.ranks.world import World
from nearkv.parallel import Scores
from tests.parallel.jobs import Case, attend, attend_staged

ALGORITHMS = ["ring", "token_ring", "ulysses", "hybrid 2 ring", "hybrid 2 token_ring"]
SHARDINGS = ["contiguous", "zigzag", "striped", "stripes of 4", "uneven", "one"]
# Of the largest value of O. bf16 rounds O to 2^-9, and its inputs are the oracle's too.
EXACT = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 2**-7}
HEADS = [(8, 8), (8, 2), (4, 1), (12, 4)]


def check(world: World, case: Case, ranks: int, job: Callable = attend) -> None:
    answers = world.run(job, case, ranks=ranks)
    largest = max(answer["largest"] for answer in answers)
    for answer in answers:
        assert answer["error"] <= EXACT[case.dtype] * largest
        assert answer["sent"] == answer["formula"]


def sizes(algorithm: str) -> list[int]:
    return [4] if algorithm.startswith("hybrid") else [2, 3, 4]


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_prefill_chunks_and_decoding(world: World, algorithm: str, sharding: str, dtype) -> None:
    case = Case(algorithm=algorithm, sharding=sharding, dtype=dtype)
    for ranks in sizes(algorithm):
        check(world, case, ranks)


@pytest.mark.parametrize("heads, kv_heads", HEADS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_heads_in_groups(world: World, algorithm: str, heads: int, kv_heads: int) -> None:
    case = Case(algorithm=algorithm, heads=heads, kv_heads=kv_heads, value_dim=8)
    for ranks in sizes(algorithm):
        check(world, case, ranks)


@pytest.mark.parametrize(
    "scores",
    [
        Scores(scale=0.3, is_causal=False),
        Scores(scale=0.3, window=1),
        Scores(scale=0.3, window=10),
        Scores(scale=0.3, soft_cap=1.5),
        Scores(scale=0.3, window=33, soft_cap=2.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_a_query_sees(world: World, algorithm: str, scores: Scores) -> None:
    for sharding in ("zigzag", "striped", "uneven"):
        check(world, Case(algorithm=algorithm, sharding=sharding, scores=scores), 4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fewer_tokens_than_ranks(world: World, algorithm: str) -> None:
    for sharding in ("contiguous", "zigzag", "striped"):
        check(world, Case(algorithm=algorithm, sharding=sharding, tokens=1, later=2), 4)


def test_one_rank_alone(world: World) -> None:
    for algorithm in ("ring", "token_ring", "ulysses", "hybrid 1 ring"):
        check(world, Case(algorithm=algorithm), 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_messages_through_host_memory(world: World, algorithm: str) -> None:
    check(world, Case(algorithm=algorithm), 4, attend_staged)


@pytest.mark.long
@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "hybrid 4 ring", "hybrid 4 token_ring"])
def test_eight_ranks(large_world: World, algorithm: str, sharding: str) -> None:
    for dtype in EXACT:
        case = Case(algorithm=algorithm, sharding=sharding, dtype=dtype, tokens=333, later=64)
        for heads, kv_heads in HEADS:
            if heads >= 8 or algorithm != "ulysses":
                check(large_world, replace(case, heads=heads, kv_heads=kv_heads), 8)
