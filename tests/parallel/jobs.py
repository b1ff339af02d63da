"""What ranks are asked to do: attention in parallel beside attention in float64 in one place."""

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch

from nearkv.parallel import Hybrid, Links, Ring, Scores, Sharding, TokenRing, Ulysses, Volume
from nearkv.parallel import links as links_module
from nearkv.parallel import shard as shard_module


@dataclass(frozen=True, kw_only=True)
class Case:
    """Random tokens, attended to at once, in two parts, and then one by one."""

    algorithm: str = "ring"
    sharding: str = "zigzag"
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 16
    value_dim: int = 16
    batch: int = 2
    tokens: int = 45
    later: int = 19
    decoded: int = 3
    dtype: torch.dtype = torch.float64
    scores: Scores = field(default_factory=lambda: Scores(scale=0.3))
    tile: int = 8

    @property
    def all_tokens(self) -> int:
        return self.tokens + self.later + self.decoded


def algorithm_of(case: Case, links: Links) -> Any:
    name = case.algorithm
    if name.startswith("hybrid"):
        _, blocks, ring = name.split()
        kind = {"ring": Ring, "token_ring": TokenRing}[ring]
        return Hybrid(links, heads=case.heads, ulysses=int(blocks), ring=kind)
    if name == "ulysses":
        return Ulysses(links, heads=case.heads)
    return {"ring": Ring, "token_ring": TokenRing}[name](links)


def sharding_of(kind: str, tokens: int, ranks: int, first: int = 0) -> Sharding:
    if kind == "uneven":  # One rank holds none.
        counts = [0 if rank == 1 else rank + 1 for rank in range(ranks)]
        counts = [count * tokens // sum(counts) for count in counts]
        counts[0] += tokens - sum(counts)
        return Sharding.uneven(counts, first)
    if kind == "one":
        return Sharding.at(ranks - 1, ranks, first, tokens)
    if kind == "stripes of 4":
        return Sharding.striped(tokens, ranks, first, stripe=4)
    return getattr(Sharding, kind)(tokens, ranks, first)


def random_tokens(case: Case) -> tuple[torch.Tensor, ...]:
    """Query, key and value of all tokens, alike on all ranks."""
    generator = torch.Generator().manual_seed(7)
    shapes = ((case.heads, case.head_dim), (case.kv_heads, case.head_dim))
    return tuple(
        torch.randn(case.batch, heads, case.all_tokens, dim, generator=generator).to(case.dtype)
        for heads, dim in (*shapes, (case.kv_heads, case.value_dim))
    )


def attend_in_one_place(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, first: int, scores: Scores
) -> torch.Tensor:
    """In float64, with nothing of ours: queries are the tokens from `first` on."""
    group = query.shape[1] // key.shape[1]
    key, value = (part.double().repeat_interleave(group, 1) for part in (key, value))
    logits = query.double() @ key.transpose(2, 3) * scores.scale
    if scores.soft_cap:
        logits = scores.soft_cap * torch.tanh(logits / scores.soft_cap)
    at = torch.arange(first, first + query.shape[2])[:, None]
    columns = torch.arange(key.shape[2])
    seen = columns <= at if scores.is_causal else torch.ones_like(columns <= at)
    if scores.window:
        seen = seen & (columns > at - scores.window)
    return logits.masked_fill(~seen, -torch.inf).softmax(-1) @ value


def attend(links: Links, case: Case) -> dict[str, Any]:
    """The worst error of this rank's O, beside its largest value; bytes sent, and by formula."""
    shard_module._TILE = case.tile
    query, key, value = random_tokens(case)
    algorithm, kept = algorithm_of(case, links), None
    answer = {"error": 0.0, "largest": 0.0, "sent": [], "formula": []}
    placed = Sharding.uneven([0] * links.size)
    first = 0
    for count in (case.tokens, case.later, *[1] * case.decoded):
        end = first + count
        if count == 1:
            tokens = Sharding.at(first % links.size, links.size, first)
        else:
            tokens = sharding_of(case.sharding, count, links.size, first)
        placed += tokens
        own = [tokens.take(links.rank, part[:, :, first:end], 2, first) for part in (key, value)]
        mine = tokens.take(links.rank, query[:, :, first:end], 2, first)
        with links.recorded() as transfers:
            part = algorithm.place(*own, tokens)
            if kept is None:
                kept = part
            else:
                kept.append(part)
            output = algorithm.attend(mine, kept, tokens, case.scores)
        rows = query[:, :, first:end], key[:, :, :end], value[:, :, :end]
        wanted = tokens.take(links.rank, attend_in_one_place(*rows, first, case.scores), 2, first)
        assert output.dtype == case.dtype and output.shape == wanted.shape
        if wanted.numel():
            answer["error"] = max(answer["error"], float((output - wanted).abs().max()))
            answer["largest"] = max(answer["largest"], float(wanted.abs().max()))
        answer["sent"].append([transfer.sent_bytes for transfer in transfers])
        answer["formula"].append(formula_of(case, tokens, placed, links.rank))
        first = end
    return answer


def attend_staged(links: Links, case: Case) -> dict[str, Any]:
    """As attend, with all messages through host memory, as those of GPUs over gloo."""
    with patch.object(links_module, "_is_staged", lambda tensor: True):
        return attend(links, case)


def formula_of(case: Case, new: Sharding, placed: Sharding, rank: int) -> list[int]:
    volume = Volume(
        batch=case.batch,
        heads=case.heads,
        kv_heads=case.kv_heads,
        head_dim=case.head_dim,
        value_dim=case.value_dim,
        itemsize=case.dtype.itemsize,
        exact=8 if case.dtype == torch.float64 else 4,
        queries=new,
        tokens=placed,
        new=new,
    )
    if case.algorithm.startswith("hybrid"):
        _, blocks, ring = case.algorithm.split()
        return volume.hybrid(rank, int(blocks), ring)
    return getattr(volume, case.algorithm)(rank)
