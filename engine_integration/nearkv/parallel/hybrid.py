"""The 2-D hybrid (2405.07719): Ulysses within blocks of ranks, a ring between the blocks."""

from dataclasses import replace

import torch

from nearkv.parallel.links import Links
from nearkv.parallel.ring import Ring
from nearkv.parallel.shard import Scores
from nearkv.parallel.sharding import Sharding
from nearkv.parallel.token_ring import TokenRing
from nearkv.parallel.ulysses import HeadShard, Ulysses


class Hybrid:
    """More ranks than heads, and fewer exchanges than a ring has: blocks of `ulysses` ranks each.

    Ranks of a block lie together, as they should on the faster links. Between blocks, ranks of the
    same heads form a Ring or a TokenRing. Raises ValueError if `ulysses` does not divide the ranks.
    """

    def __init__(
        self,
        links: Links,
        *,
        heads: int,
        ulysses: int,
        ring: type[Ring] | type[TokenRing] = Ring,
    ) -> None:
        if links.size % ulysses:
            raise ValueError(f"{links.size} ranks are no whole number of blocks of {ulysses}")
        self.links = links
        self._blocks = [range(b, b + ulysses) for b in range(0, links.size, ulysses)]
        self._block = self._blocks[links.rank // ulysses]
        self._within = Ulysses(links.among(self._block), heads=heads)
        self._between = ring(links.among(range(links.rank % ulysses, links.size, ulysses)))

    def place(self, key: torch.Tensor, value: torch.Tensor, tokens: Sharding) -> HeadShard:
        """Where K and V [batch, kv_heads, this rank's tokens, dim] are kept: by heads, in a block.

        All ranks call it. Raises RankFailed, and ValueError as Heads.
        """
        shard = self._within.place(key, value, self._of_block(tokens))
        rank = self._between.links.rank
        return replace(shard, sharding=tokens.united(self._blocks), rank=rank)

    def attend(
        self, query: torch.Tensor, shard: HeadShard, queries: Sharding, scores: Scores
    ) -> torch.Tensor:
        """As Ring.attend."""
        own = self._of_block(queries)
        mine = self._within.scatter(query, shard.heads, own)
        output = self._between.attend(mine, shard, queries.united(self._blocks), scores)
        return self._within.collect(output, shard.heads, own)

    def _of_block(self, tokens: Sharding) -> Sharding:
        return Sharding(tuple(tokens.positions[rank] for rank in self._block))
