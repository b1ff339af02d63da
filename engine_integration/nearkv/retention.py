"""What of a sequence to keep where memory is short: policies, budgets, statistics of heads.

policy = RetentionPolicy("heavy_hitters", {"decay": 0.99})      # of one (layer, KV head)
policy.append(640)
ids, scores, counts = pool.top_k(1, 0, 0, query, 64, scale=scale)
policy.observe(None, 639, ids, masses(scores, lse, counts), counts)
kept = retain(policy.worth(), exact_tokens=64, sinks=4)         # Kept of each token
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

try:
    import _nearkv
    from _nearkv import (
        HeadDemand,
        HeadStatistics,
        Kept,
        PrefetchRecord,
        RetentionPolicy,
        key_sketches,
        next_pages,
        retention_budgets,
        retention_policies,
    )
except ImportError as error:
    raise ImportError(f"the extension of NearKV is missing ({error}); ./nearkv build") from error

__all__ = [
    "HeadDemand",
    "HeadStatistics",
    "Kept",
    "PrefetchRecord",
    "Retained",
    "RetentionPolicy",
    "key_sketches",
    "masses",
    "next_pages",
    "retain",
    "retention_budgets",
    "retention_policies",
    "share",
]


class Retained(NamedTuple):
    """What a budget had room for."""

    tokens: np.ndarray
    """Kept of each, as uint8."""
    beyond_budget: int
    """Protected tokens for which there was no room: they stay."""


def masses(scores: np.ndarray, lse: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Shares of attention [rows, top_k], of what Pool.top_k and Pool.attend gave for one query.

    Both over the same tokens, with the same scale. Beyond a row's count there is nothing: 0.
    """
    columns = np.arange(scores.shape[1])
    shares = np.exp(np.minimum(scores - lse[:, None], 0), dtype=np.float32)
    return np.where(columns < counts[:, None], shares, 0).astype(np.float32)


def retain(
    worth: np.ndarray,
    *,
    exact_tokens: int,
    demoted_tokens: int = 0,
    sinks: int = 0,
    recent: int = 0,
    grain: int = 1,
    pinned: Collection[int] = (),
) -> Retained:
    """The tokens of one (layer, KV head) that stay: protected ones, and those worth most.

    `sinks` first, `recent` last and `pinned` tokens stay whatever they are worth; then so many
    exactly, and so many more in a colder form. `grain`: tokens that stay or go together, such as
    PAGE_TOKENS. Error BAD_ARGUMENT for worth that is no number, and tokens that there are not.
    """
    limits = (exact_tokens, demoted_tokens, sinks, recent, grain)
    return Retained(*_nearkv.retain_tokens(worth, *limits, list(pinned)))


def share(
    rule: str, heads: Sequence[HeadDemand], total_tokens: int, **parameters: float
) -> list[int]:
    """The part of a budget that each (layer, KV head) gets, by a rule of retention_budgets().

    Error BAD_ARGUMENT lists rules and parameters.
    """
    return _nearkv.share_budget(rule, list(heads), total_tokens, parameters)
