"""How a query chooses the tokens that it reads: by scores, or first by what a paper knows of them.

Queries are [heads, rows, channels], keys [heads, tokens, channels] in whole pages; an estimate is
[heads, rows, tokens].
"""

from collections.abc import Callable

import torch

from bench.kept.attention import planes_of
from nearkv.core import PAGE_TOKENS

Estimate = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def by_score(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """The scores themselves."""
    return queries @ keys.mT


def by_sign(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """A bit of each channel, which says on which side of its page's middle the key lies."""
    return queries @ planes_of(keys, 1).mT


def by_page(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """The largest score that the least and the greatest key of a page's channels allow."""
    pages = keys.unflatten(1, (-1, PAGE_TOKENS))
    bounds = queries.clamp(min=0) @ pages.amax(2).mT + queries.clamp(max=0) @ pages.amin(2).mT
    return bounds.repeat_interleave(PAGE_TOKENS, -1)


def chosen(
    estimate: Estimate, queries: torch.Tensor, keys: torch.Tensor, count: int
) -> torch.Tensor:
    """Whether a row reads a token, [heads, rows, tokens].

    It reads `count` tokens: those with the best scores, among those whose estimate is one of the
    best `count` or as good as the last of these.
    """
    estimates, scores = estimate(queries, keys), by_score(queries, keys)
    count = min(count, keys.shape[1])
    last = estimates.topk(count).values[..., -1:]
    best = scores.masked_fill(estimates < last, -torch.inf).topk(count).indices
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, best, True)
