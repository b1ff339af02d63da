"""One rank's part of a bench: attention in parallel, timed, with what was sent and waited for."""

import time
from dataclasses import dataclass
from typing import Any

import torch

from nearkv.parallel import Hybrid, Links, Ring, Scores, Sharding, TokenRing, Ulysses, Volume

ALGORITHMS = ("ring", "token_ring", "ulysses", "hybrid_2_ring", "hybrid_2_token_ring")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A layer, float32: `tokens` zig-zag over the ranks; the queries are all of them, or one."""

    tokens: int
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    repeats: int = 5
    is_decode: bool = False

    @property
    def scores(self) -> Scores:
        return Scores(scale=self.head_dim**-0.5)

    def shardings(self, ranks: int) -> tuple[Sharding, Sharding]:
        """Of the queries, and of all K and V."""
        context = self.tokens - 1 if self.is_decode else self.tokens
        spread = Sharding.zigzag(context, ranks)
        if not self.is_decode:
            return spread, spread
        query = Sharding.at(0, ranks, context)
        return query, spread + query

    def volume(self, ranks: int) -> Volume:
        queries, tokens = self.shardings(ranks)
        return Volume(
            batch=1,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            value_dim=self.head_dim,
            itemsize=4,
            exact=4,
            queries=queries,
            tokens=tokens,
            new=queries,
        )


def formula(volume: Volume, name: str, rank: int) -> list[int]:
    """What an algorithm sends, by its name."""
    if name.startswith("hybrid"):
        _, blocks, ring = name.split("_", 2)
        return volume.hybrid(rank, int(blocks), ring)
    return getattr(volume, name)(rank)


def _algorithm(name: str, links: Links, heads: int) -> Any:
    if name.startswith("hybrid"):
        _, blocks, ring = name.split("_", 2)
        kind = {"ring": Ring, "token_ring": TokenRing}[ring]
        return Hybrid(links, heads=heads, ulysses=int(blocks), ring=kind)
    if name == "ulysses":
        return Ulysses(links, heads=heads)
    return {"ring": Ring, "token_ring": TokenRing}[name](links)


def run(links: Links, name: str, work: Workload) -> list[dict[str, Any]]:
    """Of each repetition, after one that does not count: seconds, and by exchange what was sent."""
    torch.manual_seed(links.rank)
    algorithm = _algorithm(name, links, work.heads)
    queries, tokens = work.shardings(links.size)
    count = queries.counts[links.rank]

    def rows(heads: int, count: int) -> torch.Tensor:
        return torch.randn(1, heads, count, work.head_dim)

    before = tokens.counts[links.rank] - count if work.is_decode else 0
    earlier = Sharding.zigzag(work.tokens - 1, links.size)
    query, key, value = (rows(heads, count) for heads in (work.heads, *[work.kv_heads] * 2))
    old = rows(work.kv_heads, before), rows(work.kv_heads, before)
    told = []
    for _ in range(work.repeats + 1):
        kept = algorithm.place(*old, earlier) if work.is_decode else None
        links.gather(torch.zeros(1), [1] * links.size, 0)  # All begin at once.
        with links.recorded() as transfers:
            began_s = time.perf_counter()
            placed = algorithm.place(key, value, queries)
            if kept is None:
                kept = placed
            else:
                kept.append(placed)
            algorithm.attend(query, kept, queries, work.scores)
            seconds = time.perf_counter() - began_s
        told.append(
            {
                "seconds": seconds,
                "sent": [transfer.sent_bytes for transfer in transfers],
                "under_way_s": sum(t.done_s - t.posted_s for t in transfers),
                "waited_s": sum(t.waited_s for t in transfers),
            }
        )
    return told[1:]
