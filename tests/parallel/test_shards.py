"""Shardings and attention to one shard, without processes."""

import pytest
import torch

from nearkv.parallel import Links, Scores, Shard, Sharding, Volume
from nearkv.parallel import shard as shard_module
from nearkv.parallel.ulysses import Heads
from tests.parallel.jobs import attend_in_one_place, sharding_of

pytestmark = pytest.mark.quick

KINDS = ["contiguous", "zigzag", "striped", "stripes of 4", "uneven", "one"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens, ranks", [(0, 2), (1, 3), (17, 4), (64, 5), (100, 1)])
def test_every_token_has_one_rank(kind: str, tokens: int, ranks: int) -> None:
    sharding = sharding_of(kind, tokens, ranks, first=5)
    assert (sharding.ranks, sum(sharding.counts)) == (ranks, tokens)
    whole = torch.arange(5, 5 + tokens)
    assert torch.equal(torch.cat(sharding.positions).sort().values, whole)
    parts = [sharding.take(rank, whole, 0, first=5) for rank in range(ranks)]
    assert torch.equal(sharding.join(parts, 0), whole)
    assert torch.equal(sharding.united([range(ranks)]).positions[0], whole)


@pytest.mark.parametrize("kind", ["zigzag", "striped"])
def test_causal_work_is_alike(kind: str) -> None:
    sharding = sharding_of(kind, 4096, 8)
    work = [int((positions + 1).sum()) for positions in sharding.positions]
    assert max(work) < 1.01 * min(work)
    contiguous = [int((held + 1).sum()) for held in Sharding.contiguous(4096, 8).positions]
    assert max(contiguous) > 10 * min(contiguous)


def test_later_tokens_come_after() -> None:
    both = Sharding.zigzag(10, 2) + Sharding.at(1, 2, 10)
    assert both.counts == [5, 6] or both.counts == [6, 5]
    with pytest.raises(ValueError, match="rank 0 are not ascending"):
        Sharding.zigzag(10, 2) + Sharding.contiguous(10, 2)
    with pytest.raises(ValueError, match="has 5 positions"):
        rows = torch.zeros(1, 1, 4, 16)
        Shard(rows, rows, Sharding.contiguous(10, 2), 0)


@pytest.mark.parametrize("tile", [1, 7, 256])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [0, 9])
def test_what_nobody_sees_is_left_out(monkeypatch, tile: int, kind: str, window: int) -> None:
    monkeypatch.setattr(shard_module, "_TILE", tile)
    torch.manual_seed(3)
    query, key, value = (torch.randn(2, heads, 60, 16).double() for heads in (6, 2, 2))
    scores = Scores(scale=0.3, window=window)
    sharding = sharding_of(kind, 60, 3)
    parts = []
    for rank, positions in enumerate(sharding.positions):
        rows = [sharding.take(rank, part, 2) for part in (key, value)]
        parts.append(Shard(*rows, sharding, rank).attend(query, torch.arange(60), scores))
        assert parts[-1][0].shape == (2, 6, 60, 16)
        blind = torch.isinf(parts[-1][1])
        seen = torch.arange(60)[:, None] - positions
        seen = (seen >= 0) & (seen < (window or 60))
        assert torch.equal(blind, ~seen.any(1).expand_as(blind))
        assert not parts[-1][0][blind].any()
    output = sum(part * (lse - total(parts)).exp().unsqueeze(-1) for part, lse in parts)
    assert (output - attend_in_one_place(query, key, value, 0, scores)).abs().max() < 1e-13


def total(parts) -> torch.Tensor:
    return torch.stack([lse for _, lse in parts]).logsumexp(0)


def test_causal_tiles_read_half_of_the_keys(monkeypatch) -> None:
    monkeypatch.setattr(shard_module, "_TILE", 16)
    read = []
    plain = shard_module.attend_here

    def counted(query, key, *rest):
        read.append(query.shape[3] * key.shape[2])
        return plain(query, key, *rest)

    monkeypatch.setattr(shard_module, "attend_here", counted)
    rows = torch.randn(1, 1, 256, 16)
    for kind in ("zigzag", "striped"):
        sharding = sharding_of(kind, 512, 2)
        Shard(rows, rows, sharding, 0).attend(rows, sharding.positions[1], Scores(scale=1))
        assert sum(read) < 0.54 * 256 * 256
        read.clear()


@pytest.mark.parametrize("heads, kv_heads, ranks", [(8, 2, 4), (12, 4, 5), (7, 7, 3), (5, 1, 5)])
def test_every_query_head_has_one_rank_and_its_kv_head(
    heads: int, kv_heads: int, ranks: int
) -> None:
    shares = Heads(heads, kv_heads, ranks)
    taken = [head for rank in range(ranks) for head in range(heads)[shares.queries_of(rank)]]
    assert taken == list(range(heads))
    for rank in range(ranks):
        own, kvs = range(heads)[shares.queries_of(rank)], range(kv_heads)[shares.kvs_of(rank)]
        assert list(kvs) == sorted({head // (heads // kv_heads) for head in own})
        for queries, some in shares.split(rank):
            group = len(own[queries]) // len(kvs[some])
            read = {head: kvs[some][i // group] for i, head in enumerate(own[queries])}
            assert all(kv == head // (heads // kv_heads) for head, kv in read.items())


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="take a Hybrid"):
        Heads(4, 2, 5)
    with pytest.raises(ValueError, match="no multiple"):
        Heads(6, 4, 2)
    with pytest.raises(ValueError, match="causal"):
        Scores(scale=1.0, is_causal=False, window=3)
    with pytest.raises(RuntimeError, match="init_process_group"):
        Links()


def test_formulas_are_those_of_the_papers() -> None:
    ranks, tokens, heads, dim = 8, 8000, 16, 64
    spread = Sharding.zigzag(tokens, ranks)
    sizes = {"batch": 1, "head_dim": dim, "value_dim": dim, "itemsize": 2, "exact": 4}
    volume = Volume(heads=heads, kv_heads=heads, queries=spread, tokens=spread, new=spread, **sizes)
    hidden = heads * dim
    # 2310.01889: K and V of every other rank, 2 b c d bytes of 2 each.
    assert volume.ring(3) == [2 * 2 * tokens // ranks * hidden] * (ranks - 1)
    # 2309.14509: 4 N h / P for each link, of which a rank keeps its P-th part.
    assert sum(volume.ulysses(3)) == 4 * tokens * hidden * 2 // ranks * (ranks - 1) // ranks
    # Queries forward and O with its LSE back, every step.
    row = tokens // ranks * heads
    assert volume.token_ring(3)[:3] == [row * dim * 2, row * dim * 2, row * (dim + 1) * 4]
    assert len(volume.token_ring(3)) == 2 * (ranks - 1)
    # The ring is between 2 blocks of 4 ranks, with 4 heads each.
    assert volume.hybrid(3, 4, "ring")[2:-1] == [2 * 2 * tokens // 2 * 4 * dim]
