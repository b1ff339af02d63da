"""How the tokens of a sequence are spread over ranks: who holds which positions."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False)
class Sharding:
    """The positions of each rank's tokens: int64, on the CPU, ascending, no two alike.

    A rank may hold none. Every rank has the same Sharding, so positions are never sent. Immutable.
    Raises ValueError for positions that are not ascending.
    """

    positions: tuple[torch.Tensor, ...]

    def __post_init__(self) -> None:
        for rank, held in enumerate(self.positions):
            if held.dtype != torch.int64 or held.dim() != 1 or (held.diff() <= 0).any():
                raise ValueError(f"the positions of rank {rank} are not ascending int64: {held}")

    @classmethod
    def contiguous(cls, tokens: int, ranks: int, first: int = 0) -> "Sharding":
        """One run for each rank, as equal as they can be; `first` is the first token's position."""
        return cls.uneven([_even(tokens, ranks, rank) for rank in range(ranks)], first)

    @classmethod
    def uneven(cls, counts: Sequence[int], first: int = 0) -> "Sharding":
        """One run for each rank, of counts[rank] tokens."""
        return cls(torch.arange(first, first + sum(counts)).split(list(counts)))

    @classmethod
    def zigzag(cls, tokens: int, ranks: int, first: int = 0) -> "Sharding":
        """Rank r has runs r and 2 ranks - 1 - r of 2 ranks: alike in causal work."""
        runs = cls.contiguous(tokens, 2 * ranks, first).positions
        return cls(tuple(torch.cat([runs[r], runs[-1 - r]]) for r in range(ranks)))

    @classmethod
    def striped(cls, tokens: int, ranks: int, first: int = 0, *, stripe: int = 1) -> "Sharding":
        """Stripes of `stripe` tokens go to the ranks in turn (2311.09431): alike in causal work."""
        positions = torch.arange(tokens)
        owners = positions // stripe % ranks
        return cls(tuple(positions[owners == rank] + first for rank in range(ranks)))

    @classmethod
    def at(cls, owner: int, ranks: int, first: int, tokens: int = 1) -> "Sharding":
        """All tokens at one rank, the others have none: a step of decoding."""
        return cls.uneven([tokens if rank == owner else 0 for rank in range(ranks)], first)

    @property
    def ranks(self) -> int:
        """How many ranks there are, those without tokens included."""
        return len(self.positions)

    @property
    def counts(self) -> list[int]:
        """Tokens of each rank."""
        return [len(held) for held in self.positions]

    def take(self, rank: int, whole: torch.Tensor, dim: int, first: int = 0) -> torch.Tensor:
        """A rank's part of a tensor whose axis `dim` has all positions from `first` on."""
        return whole.index_select(dim, (self.positions[rank] - first).to(whole.device))

    def join(self, parts: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        """The tensor in order of positions, of the parts of all ranks."""
        order = torch.cat(self.positions).argsort()
        whole = torch.cat(list(parts), dim)
        if torch.equal(order, torch.arange(len(order))):
            return whole
        return whole.index_select(dim, order.to(whole.device))

    def united(self, groups: Sequence[Sequence[int]]) -> "Sharding":
        """The sharding of groups of ranks: each has what its ranks have."""
        united = [torch.cat([self.positions[rank] for rank in group]) for group in groups]
        return Sharding(tuple(positions.sort().values for positions in united))

    def __add__(self, later: "Sharding") -> "Sharding":
        """With later tokens of the same ranks after those of each."""
        pairs = zip(self.positions, later.positions, strict=True)
        return Sharding(tuple(torch.cat(pair) for pair in pairs))


def _even(whole: int, parts: int, index: int) -> int:
    return whole * (index + 1) // parts - whole * index // parts
