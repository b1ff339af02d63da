"""What each algorithm sends, by its formula: bytes of a rank in each of its exchanges, in order."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from nearkv.parallel.sharding import Sharding
from nearkv.parallel.ulysses import Heads


@dataclass(frozen=True, kw_only=True)
class Volume:
    """One attention of `queries` over K and V of `tokens`, of which `new` are placed for it.

    K, V and Q travel in `itemsize` bytes an element, O of Ulysses too; (O, LSE) of TokenRing in
    `exact` bytes, 4 or 8.
    """

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    itemsize: int
    exact: int
    queries: Sharding
    tokens: Sharding
    new: Sharding

    def ring(self, rank: int) -> list[int]:
        """K and V of each rank but the next one, as they come by."""
        row = self.batch * self.kv_heads * (self.head_dim + self.value_dim) * self.itemsize
        ranks = self.tokens.ranks
        return [row * self.tokens.counts[(rank - step) % ranks] for step in range(ranks - 1)]

    def token_ring(self, rank: int) -> list[int]:
        """Queries of each rank but the next one forward, (O, LSE) of each but our own back."""
        query = self.batch * self.heads * self.head_dim * self.itemsize
        part = self.batch * self.heads * (self.value_dim + 1) * self.exact
        counts, ranks = self.queries.counts, self.queries.ranks
        sent = []
        for step in range(ranks):
            visiting = counts[(rank - step) % ranks]
            sent += [query * visiting] if step < ranks - 1 else []
            sent += [part * visiting] if step else []
        return sent

    def ulysses(self, rank: int) -> list[int]:
        """Every other rank's heads of our K and V, of our queries, our heads of their O."""
        heads = Heads(self.heads, self.kv_heads, self.tokens.ranks)
        others = [other for other in range(heads.ranks) if other != rank]
        scalar = self.batch * self.itemsize
        kvs = sum(_length(heads.kvs_of(other)) for other in others)
        queries = sum(_length(heads.queries_of(other)) for other in others)
        theirs = sum(self.queries.counts[other] for other in others)
        return [
            scalar * (self.head_dim + self.value_dim) * kvs * self.new.counts[rank],
            scalar * self.head_dim * queries * self.queries.counts[rank],
            scalar * self.value_dim * _length(heads.queries_of(rank)) * theirs,
        ]

    def hybrid(self, rank: int, ulysses: int, ring: str) -> list[int]:
        """Ulysses in blocks of `ulysses` ranks, between them a "ring" or "token_ring"."""
        ranks = self.tokens.ranks
        blocks = [range(begin, begin + ulysses) for begin in range(0, ranks, ulysses)]
        block = blocks[rank // ulysses]
        heads = Heads(self.heads, self.kv_heads, ulysses)
        within = self._of(lambda tokens: Sharding(tuple(tokens.positions[r] for r in block)))
        between = self._of(
            lambda tokens: tokens.united(blocks),
            heads=_length(heads.queries_of(rank % ulysses)),
            kv_heads=_length(heads.kvs_of(rank % ulysses)),
        )
        placed, queries, outputs = within.ulysses(rank % ulysses)
        return [placed, queries, *getattr(between, ring)(rank // ulysses), outputs]

    def _of(self, part: Callable[[Sharding], Sharding], **changes: int) -> "Volume":
        shardings = {name: part(getattr(self, name)) for name in ("queries", "tokens", "new")}
        return replace(self, **shardings, **changes)


def _length(heads: slice) -> int:
    return heads.stop - heads.start
