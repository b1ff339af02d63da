"""A rank's K and V, and attention to them by position, which is right for any sharding."""

from dataclasses import dataclass
from typing import Protocol

import torch

from nearkv.near import attend_here
from nearkv.parallel.sharding import Sharding

# Queries that are attended to together when they see different tokens: few, to leave out keys that
# none of them sees; many, for a kernel to be worth its call.
_TILE = 256

Part = tuple[torch.Tensor, torch.Tensor]
"""(O [batch, heads, queries, value_dim], LSE [batch, heads, queries]), in fp32 or in float64."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What a query makes of a key.

    A causal query sees positions up to its own; with a window, only the last `window` of them.
    soft_cap 0: none.
    """

    scale: float
    is_causal: bool = True
    window: int = 0
    soft_cap: float = 0.0

    def __post_init__(self) -> None:
        if self.window < 0 or (self.window and not self.is_causal):
            raise ValueError(f"a window is causal and not negative, not {self}")

    def seen(self, queries: torch.Tensor, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of ascending key positions, the first and the end of those that each query sees."""
        end = torch.full_like(queries, len(keys))
        if self.is_causal:
            end = torch.searchsorted(keys, queries, right=True)
        if not self.window:
            return torch.zeros_like(end), end
        return torch.searchsorted(keys, queries - self.window, right=True), end


class Keeper(Protocol):
    """Where K and V stay while queries come by: tensors here, or a device."""

    @property
    def sharding(self) -> Sharding:
        """The positions of K and V, of all ranks."""

    def attend(self, query: torch.Tensor, positions: torch.Tensor, scores: Scores) -> Part:
        """(O, LSE) of query [batch, heads, queries, head_dim], whose positions are given."""


@dataclass
class Shard:
    """K and V of a rank: [batch, kv_heads, tokens, dim], tokens as sharding.positions[rank].

    Not thread-safe. Raises ValueError for K and V that are not of as many tokens.
    """

    key: torch.Tensor
    value: torch.Tensor
    sharding: Sharding
    rank: int

    def __post_init__(self) -> None:
        count = len(self.positions)
        if self.key.shape[2] != count or self.value.shape[2] != count:
            raise ValueError(
                f"rank {self.rank} has {count} positions, K {list(self.key.shape)} "
                f"and V {list(self.value.shape)}"
            )

    @property
    def positions(self) -> torch.Tensor:
        """Of the tokens here."""
        return self.sharding.positions[self.rank]

    def append(self, later: "Shard") -> None:
        """Adds tokens that come after those here, on every rank."""
        self.sharding += later.sharding
        self.key = torch.cat([self.key, later.key], 2)
        self.value = torch.cat([self.value, later.value], 2)

    def attend(self, query: torch.Tensor, positions: torch.Tensor, scores: Scores) -> Part:
        """(O, LSE) of query [batch, heads, queries, head_dim], whose ascending positions are given.

        The query heads of a KV head lie together. A query that sees nothing here has an O of 0 and
        an LSE of -inf.
        """
        return attend(query, positions, self.key, self.value, self.positions, scores)


def attend(
    query: torch.Tensor,
    query_positions: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_positions: torch.Tensor,
    scores: Scores,
) -> Part:
    """(O, LSE) of queries over keys, as Shard.attend gives it. Reads only what a tile may see."""
    grouped = query.unflatten(1, (key.shape[1], -1))
    first, end = scores.seen(query_positions, key_positions)
    parts = []
    for tile in _tiles(first, end):
        keys = (
            slice(int(first[tile].min()), int(end[tile].max())) if len(end[tile]) else slice(0, 0)
        )
        mask = _mask(first[tile], end[tile], keys, key.device)
        rows = grouped[..., tile, :], key[:, :, keys], value[:, :, keys]
        parts.append(attend_here(*rows, mask, scores.scale, scores.soft_cap))
    output, lse = parts[0] if len(parts) == 1 else map(_joined, zip(*parts, strict=True))
    return output.flatten(1, 2), lse.flatten(1, 2)


def _joined(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat(parts, 3)


def _tiles(first: torch.Tensor, end: torch.Tensor) -> list[slice]:
    """Queries that are attended to together: all, where they see the same."""
    count = len(end)
    if not count or ((first == first[0]).all() and (end == end[0]).all()):
        return [slice(0, count)]
    return [slice(begin, min(begin + _TILE, count)) for begin in range(0, count, _TILE)]


def _mask(
    first: torch.Tensor, end: torch.Tensor, keys: slice, device: torch.device
) -> torch.Tensor | None:
    """[1, 1, queries, keys], True where seen; None where all are."""
    if not len(end) or (first.max() <= keys.start and end.min() >= keys.stop):
        return None
    columns = torch.arange(keys.start, keys.stop)
    seen = (columns >= first[:, None]) & (columns < end[:, None])
    return seen[None, None].to(device)
