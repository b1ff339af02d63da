"""The model of links: where sums on paper are easy, it gives them."""

import pytest

from bench.ranks.projection import Link, Rank, llama_layer, project
from nearkv.parallel import Scores, Sharding

pytestmark = pytest.mark.quick

RANKS, TOKENS = 8, 1 << 12
SPREAD = Sharding.zigzag(TOKENS, RANKS)
LAYER = llama_layer(SPREAD, SPREAD)
SCORES = Scores(scale=1.0)
FREE = Link("free", 1e30, 0.0, "")
IDLE = Rank(flops=1e30, memory_bytes_per_s=1e30)
ALGORITHMS = ["ring", "token_ring", "hybrid_2_ring", "hybrid_4_token_ring"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_free_links_leave_the_computing(name: str) -> None:
    seen = project(LAYER, name, FREE, Rank(flops=1e9, memory_bytes_per_s=1e30), SCORES)
    pairs = TOKENS * (TOKENS + 1) / 2
    assert seen.seconds == pytest.approx(seen.computed_s)
    assert seen.computed_s == pytest.approx(pairs * 4 * 32 * 128 / 1e9 / RANKS, rel=0.01)


def test_a_ring_that_only_sends() -> None:
    link = Link("slow", 1e6, 0.5, "")
    seen = project(LAYER, "ring", link, IDLE, SCORES)
    block = TOKENS // RANKS * 2 * 8 * 128 * 2
    assert seen.seconds == pytest.approx((RANKS - 1) * (block / 1e6 + 0.5))
    assert seen.sent_bytes == (RANKS - 1) * block


def test_queries_and_outputs_share_the_way_out() -> None:
    link = Link("slow", 1e6, 0.0, "")
    seen = project(LAYER, "token_ring", link, IDLE, SCORES)
    assert seen.seconds == pytest.approx(seen.sent_bytes / 1e6, rel=0.01)


def test_communication_hides_behind_computing() -> None:
    rank = Rank(flops=1e9, memory_bytes_per_s=1e30)
    alone = project(LAYER, "ring", FREE, rank, SCORES).seconds
    link = Link("as fast", LAYER.ring(0)[0] * RANKS / alone * 1.2, 0.0, "")
    assert project(LAYER, "ring", link, rank, SCORES).seconds == pytest.approx(alone, rel=0.05)
