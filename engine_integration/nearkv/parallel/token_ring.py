"""TokenRing (2412.20501): K and V stay, queries go round, (O, LSE) come straight back."""

import torch

from nearkv.near import merge
from nearkv.parallel.links import Links, Transfer
from nearkv.parallel.shard import Keeper, Part, Scores, Shard
from nearkv.parallel.sharding import Sharding


class TokenRing:
    """Every rank passes queries on to the next one, and sends (O, LSE) to their owner.

    Both go at once, each straight to its rank, as in the paper's fully connected mesh. K and V may
    be any Keeper: tensors, or a device that they never leave.
    """

    def __init__(self, links: Links) -> None:
        self.links = links

    def place(self, key: torch.Tensor, value: torch.Tensor, tokens: Sharding) -> Shard:
        """Where K and V [batch, kv_heads, this rank's tokens, dim] are kept: here."""
        return Shard(key, value, tokens, self.links.rank)

    def attend(
        self, query: torch.Tensor, shard: Keeper, queries: Sharding, scores: Scores
    ) -> torch.Tensor:
        """As Ring.attend; (O, LSE) travel in fp32, or in float64 for float64."""
        output, _ = self.attend_parts(query, shard, queries, scores)
        return output.to(query.dtype)

    def attend_parts(
        self, query: torch.Tensor, shard: Keeper, queries: Sharding, scores: Scores
    ) -> Part:
        """As attend, but (O, LSE)."""
        links, counts = self.links, queries.counts
        ahead, behind = (links.rank + 1) % links.size, (links.rank - 1) % links.size
        visitor, parts = query, None
        coming_back: tuple[Transfer, Part] | None = None
        for step in range(links.size):
            owner = (links.rank - step) % links.size
            forward = None
            if step < links.size - 1:
                count = counts[(owner - 1) % links.size]
                following = query.new_empty(*query.shape[:2], count, query.shape[3])
                forward = links.exchange([(ahead, visitor)], [(behind, following)])
            seen = shard.attend(visitor, queries.positions[owner], scores)
            if step == 0:
                parts = seen
            else:
                parts = _merged(parts, coming_back)
                coming_back = self._send_back(seen, owner, parts, step)
            if forward is not None:
                forward.wait()
                visitor = following
        return _merged(parts, coming_back)

    def _send_back(self, seen: Part, owner: int, like: Part, step: int) -> tuple[Transfer, Part]:
        """Sends (O, LSE) to the owner of the queries; from whoever saw ours, room for the same."""
        visited = (self.links.rank + step) % self.links.size
        room = torch.empty_like(like[0]), torch.empty_like(like[1])
        sends, receives = [(owner, part) for part in seen], [(visited, part) for part in room]
        return self.links.exchange(sends, receives), room


def _merged(parts: Part, coming_back: tuple[Transfer, Part] | None) -> Part:
    if coming_back is None:
        return parts
    transfer, part = coming_back
    transfer.wait()
    return merge(parts, part)
