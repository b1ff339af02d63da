"""DeepSpeed Ulysses (2309.14509, section 3): tokens are exchanged for heads, and back."""

from dataclasses import dataclass

import torch

from nearkv.parallel.links import Links
from nearkv.parallel.shard import Part, Scores, Shard
from nearkv.parallel.sharding import Sharding


@dataclass(frozen=True)
class Heads:
    """Which heads a rank attends to: as equal a share of the query heads as there can be.

    A KV head goes to every rank that has a query head of it, so there may be fewer of them than
    ranks. Raises ValueError where there are fewer query heads than ranks.
    """

    query: int
    kv: int
    ranks: int

    def __post_init__(self) -> None:
        if self.query % self.kv:
            raise ValueError(f"{self.query} query heads are no multiple of {self.kv} KV heads")
        if self.ranks > self.query:
            raise ValueError(
                f"{self.query} heads do not go round {self.ranks} ranks: take a Hybrid of fewer"
            )

    @property
    def group(self) -> int:
        """Query heads of a KV head."""
        return self.query // self.kv

    def queries_of(self, rank: int) -> slice:
        """The query heads of a rank."""
        return slice(rank * self.query // self.ranks, (rank + 1) * self.query // self.ranks)

    def kvs_of(self, rank: int) -> slice:
        """The KV heads that they read."""
        own = self.queries_of(rank)
        return slice(own.start // self.group, (own.stop - 1) // self.group + 1)

    def split(self, rank: int) -> list[tuple[slice, slice]]:
        """A rank's query heads and their KV heads, both counted from its first, in even groups."""
        own, kvs = self.queries_of(rank), self.kvs_of(rank)
        ends = [
            min((kv + 1) * self.group, own.stop) - own.start for kv in range(kvs.start, kvs.stop)
        ]
        begins = [0, *ends[:-1]]
        if len({end - begin for begin, end in zip(begins, ends, strict=True)}) == 1:
            return [(slice(0, ends[-1]), slice(0, len(ends)))]
        pairs = enumerate(zip(begins, ends, strict=True))
        return [(slice(begin, end), slice(kv, kv + 1)) for kv, (begin, end) in pairs]


@dataclass
class HeadShard(Shard):
    """All tokens' K and V of a rank's KV heads; its query heads may share them unevenly."""

    heads: Heads
    head_rank: int

    def attend(self, query: torch.Tensor, positions: torch.Tensor, scores: Scores) -> Part:
        """(O, LSE) of the rank's query heads, as Shard.attend."""
        parts = []
        for queries, kvs in self.heads.split(self.head_rank):
            some = Shard(self.key[:, kvs], self.value[:, kvs], self.sharding, self.rank)
            parts.append(some.attend(query[:, queries], positions, scores))
        outputs, lses = zip(*parts, strict=True)
        return torch.cat(outputs, 1), torch.cat(lses, 1)


class Ulysses:
    """An all-to-all gives every rank all tokens of some heads, and another takes O back.

    K and V are exchanged when they are placed, once for all queries to come: a step of decoding
    exchanges its own tokens alone. `heads` are the model's query heads.
    """

    def __init__(self, links: Links, *, heads: int) -> None:
        self.links, self.heads = links, heads

    def place(self, key: torch.Tensor, value: torch.Tensor, tokens: Sharding) -> HeadShard:
        """Where K and V [batch, kv_heads, this rank's tokens, dim] are kept: by heads, exchanged.

        All ranks call it. Raises RankFailed, and ValueError as Heads.
        """
        heads = Heads(self.heads, key.shape[1], self.links.size)
        slices = [heads.kvs_of(rank) for rank in range(heads.ranks)]
        key, value = self._scatter([key, value], slices, tokens)
        united = tokens.united([range(tokens.ranks)])
        return HeadShard(key, value, united, 0, heads, self.links.rank)

    def attend(
        self, query: torch.Tensor, shard: HeadShard, queries: Sharding, scores: Scores
    ) -> torch.Tensor:
        """As Ring.attend; O travels in the query's dtype."""
        mine = self.scatter(query, shard.heads, queries)
        positions = queries.united([range(queries.ranks)]).positions[0]
        output, _ = shard.attend(mine, positions, scores)
        return self.collect(output.to(query.dtype), shard.heads, queries)

    def scatter(self, query: torch.Tensor, heads: Heads, queries: Sharding) -> torch.Tensor:
        """All ranks' queries of this rank's heads, in order of their positions."""
        slices = [heads.queries_of(rank) for rank in range(heads.ranks)]
        (mine,) = self._scatter([query], slices, queries)
        return mine

    def collect(self, output: torch.Tensor, heads: Heads, queries: Sharding) -> torch.Tensor:
        """The inverse of scatter: O of all heads of this rank's queries."""
        links = self.links
        (united,) = queries.united([range(queries.ranks)]).positions
        sends, parts = [], []
        for rank, positions in enumerate(queries.positions):
            theirs = output.index_select(2, torch.searchsorted(united, positions).to(output.device))
            own = heads.queries_of(rank)
            shape = (output.shape[0], own.stop - own.start, queries.counts[links.rank])
            parts.append(output.new_empty(*shape, output.shape[3]))
            sends.append((rank, theirs))
        _, parts[links.rank] = sends.pop(links.rank)
        receives = [(rank, part) for rank, part in enumerate(parts) if rank != links.rank]
        links.exchange(sends, receives).wait()
        return torch.cat(parts, 1)

    def _scatter(
        self, tensors: list[torch.Tensor], slices: list[slice], tokens: Sharding
    ) -> list[torch.Tensor]:
        """Sends each rank its heads of our tokens; our heads of all tokens, in their order."""
        own, others = self.links.rank, [r for r in range(self.links.size) if r != self.links.rank]
        sends = [(rank, tensor[:, slices[rank]]) for rank in others for tensor in tensors]
        parts = [[tensor[:, slices[own]]] * self.links.size for tensor in tensors]
        for part in parts:
            shape = part[own].shape
            for rank in others:
                part[rank] = part[own].new_empty(*shape[:2], tokens.counts[rank], shape[3])
        receives = [(rank, part[rank]) for rank in others for part in parts]
        self.links.exchange(sends, receives).wait()
        return [tokens.join(part, 2) for part in parts]
