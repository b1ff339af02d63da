"""A module as a stationary rank: K and V stay in a pool near the data, queries go there."""

from collections.abc import Sequence

import torch

from nearkv.core import PAGE_TOKENS, Pool
from nearkv.far import FarAttention
from nearkv.near import merge
from nearkv.parallel.shard import Part, Scores, Shard
from nearkv.parallel.sharding import Sharding


class DeviceShard:
    """K and V of a rank in one layer of a pool: whole pages there, up to 63 newest tokens here.

    `sequences` are the pool's, one for each row of the batch, empty and this object's own. K and V
    are kept in the pool's dtype. Not thread-safe. Raises what Pool raises.
    """

    def __init__(
        self,
        pool: Pool,
        sequences: Sequence[int],
        layer: int,
        ranks: int,
        rank: int,
        *,
        far: FarAttention | None = None,
    ) -> None:
        self.sharding = Sharding.uneven([0] * ranks)
        self.rank = rank
        self._pool, self._sequences, self._layer = pool, list(sequences), layer
        far = FarAttention.of(far, pool)
        self._options = far.options()
        self._stored = 0
        self._open: Shard | None = None  # No whole page yet.

    def append(self, later: Shard) -> None:
        """Takes tokens [batch, kv_heads, tokens, dim] that come after those here, on every rank."""
        self.sharding += later.sharding
        key, value = later.key, later.value
        if self._open is not None:
            key, value = (
                torch.cat([self._open.key, key], 2),
                torch.cat([self._open.value, value], 2),
            )
        whole = key.shape[2] // PAGE_TOKENS * PAGE_TOKENS
        if whole:
            for row, sequence in enumerate(self._sequences):
                rows = (part[row, :, :whole].cpu().contiguous() for part in (key, value))
                self._pool.append(sequence, self._layer, *rows)
        self._stored += whole
        rest = Sharding((self.sharding.positions[self.rank][self._stored :],))
        self._open = Shard(key[:, :, whole:].clone(), value[:, :, whole:].clone(), rest, 0)

    def attend(self, query: torch.Tensor, positions: torch.Tensor, scores: Scores) -> Part:
        """(O, LSE) as Shard.attend, to the exactness of fp32."""
        shape = (*query.shape[:3], self._pool.value_dim)
        dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        output = query.new_zeros(shape, dtype=dtype)
        lse = query.new_full(shape[:3], -torch.inf, dtype=dtype)
        stored = self.sharding.positions[self.rank][: self._stored]
        first, end = scores.seen(positions, stored)
        seen = torch.stack([first, end], 1)
        for pair in seen[end > first].unique(dim=0):
            alike = (seen == pair).all(1).nonzero().flatten().to(query.device)
            far, far_lse = self._attend_stored(query[:, :, alike], *pair.tolist(), scores)
            output[:, :, alike], lse[:, :, alike] = far.to(dtype), far_lse.to(dtype)
        if self._open is None:
            return output, lse
        return merge((output, lse), self._open.attend(query, positions, scores))

    def _attend_stored(self, query: torch.Tensor, first: int, end: int, scores: Scores) -> Part:
        """Of queries that see the pool's tokens from `first` up to `end`."""
        batch, heads, count, _ = query.shape
        grouped = query.unflatten(1, (self._pool.kv_heads, -1)).flatten(2, 3)
        if grouped.dtype == torch.float64:
            grouped = grouped.float()
        output, lse = self._pool.attend(
            self._sequences,
            self._layer,
            grouped.contiguous().cpu(),
            scale=scores.scale,
            soft_cap=scores.soft_cap,
            tokens=end,
            window=end - first if first else 0,
            **self._options,
        )
        return (
            torch.from_numpy(output).to(query.device).view(batch, heads, count, -1),
            torch.from_numpy(lse).to(query.device).view(batch, heads, count),
        )
