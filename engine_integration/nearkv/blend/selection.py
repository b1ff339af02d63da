"""Which tokens of reused chunks are computed again, in their new place."""

import enum
from collections.abc import Sequence

import torch


class Rule(enum.Enum):
    """How the tokens are chosen."""

    DEVIATION = "deviation"
    """Those whose K and V differ most from what was reused (CacheBlend's HKVD tokens)."""
    CHUNK_STARTS = "chunk_starts"
    """The first of each chunk, which saw least when it was computed apart."""
    RANDOM = "random"
    """Any: what the others have to be better than."""


# How much more than the mean the first layer that chooses keeps, and how much less the last.
_SPREAD = 1 / 3


def kept_share(ratio: float, layer: int, layers: int) -> float:
    """The share of tokens that DEVIATION keeps from `layer` (from 1 on) on.

    It falls evenly over the layers; its mean is `ratio`. 0 stays 0, and 1 stays 1 in all of them.
    """
    way = 0.5 if layers < 3 else (layer - 1) / (layers - 2)
    return min(1.0, ratio * (1 + _SPREAD * (1 - ratio) * (1 - 2 * way)))


def deviation(
    new: tuple[torch.Tensor, torch.Tensor], old: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """How far K and V [1, heads, tokens, head_dim] are from others, for each token.

    The sum of both squared differences, each relative to the mean squared norm of the new ones.
    """
    parts = []
    for now, then in zip(new, old, strict=True):
        now = now.float()
        norm = now.square().sum((0, 1, 3)).mean().clamp(min=1e-30)
        parts.append((now - then.float()).square().sum((0, 1, 3)) / norm)
    return parts[0] + parts[1]


def choose_before(
    rule: Rule, ratio: float, lengths: Sequence[int], generator: torch.Generator
) -> torch.Tensor:
    """Places of chosen tokens among all tokens of chunks of these lengths, in order.

    For the rules that need to compute nothing first.
    """
    if rule is Rule.RANDOM:
        tokens = sum(lengths)
        order = torch.randperm(tokens, generator=generator)
        return order[: share_of(ratio, tokens)].sort().values
    places, first = [], 0
    for length in lengths:
        places.append(torch.arange(first, first + share_of(ratio, length)))
        first += length
    return torch.cat(places)


def share_of(ratio: float, tokens: int) -> int:
    """So many tokens; one at least where a share is wanted at all."""
    return min(tokens, max(round(ratio * tokens), int(ratio > 0)))
