"""Ring Attention (2310.01889): queries stay, K and V go round while what is here is attended to."""

from dataclasses import replace

import torch

from nearkv.near import merge
from nearkv.parallel.links import Links, Transfer
from nearkv.parallel.shard import Part, Scores, Shard
from nearkv.parallel.sharding import Sharding


class Ring:
    """Every rank passes K and V on to the next one, as often as there are other ranks.

    The blocks of its section 3: the next block comes while this one is attended to. With a zig-zag
    or striped Sharding all ranks have as much causal work.
    """

    def __init__(self, links: Links) -> None:
        self.links = links

    def place(self, key: torch.Tensor, value: torch.Tensor, tokens: Sharding) -> Shard:
        """Where K and V [batch, kv_heads, this rank's tokens, dim] are kept: here."""
        return Shard(key, value, tokens, self.links.rank)

    def attend(
        self, query: torch.Tensor, shard: Shard, queries: Sharding, scores: Scores
    ) -> torch.Tensor:
        """O of this rank's queries [batch, heads, queries, head_dim] over the K and V of all ranks.

        `queries` has the positions of all ranks' queries. O [batch, heads, queries, value_dim] is
        in the query's dtype, computed in fp32, or in float64 for float64; 0 where nothing is seen.
        All ranks call it, also those without queries or tokens. Raises RankFailed.
        """
        output, _ = self.attend_parts(query, shard, queries, scores)
        return output.to(query.dtype)

    def attend_parts(
        self, query: torch.Tensor, shard: Shard, queries: Sharding, scores: Scores
    ) -> Part:
        """As attend, but (O, LSE)."""
        own = queries.positions[self.links.rank]
        parts: Part | None = None
        for _ in range(self.links.size - 1):
            transfer, following = self._pass_on(shard)
            parts = _merged(parts, shard.attend(query, own, scores))
            transfer.wait()
            shard = following
        return _merged(parts, shard.attend(query, own, scores))

    def _pass_on(self, shard: Shard) -> tuple[Transfer, Shard]:
        """Sends a shard to the next rank; what comes from the one before."""
        rank, size = self.links.rank, self.links.size
        origin = (shard.rank - 1) % size
        count = shard.sharding.counts[origin]
        key, value = (
            tensor.new_empty(*tensor.shape[:2], count, tensor.shape[3])
            for tensor in (shard.key, shard.value)
        )
        ahead, behind = (rank + 1) % size, (rank - 1) % size
        sends, receives = (
            [(ahead, shard.key), (ahead, shard.value)],
            [(behind, key), (behind, value)],
        )
        following = replace(shard, key=key, value=value, rank=origin)
        return self.links.exchange(sends, receives), following


def _merged(parts: Part | None, seen: Part) -> Part:
    return seen if parts is None else merge(parts, seen)
