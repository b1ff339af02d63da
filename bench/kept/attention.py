"""Attention in which each KV head sees the tokens that were kept for it, and tells what it saw.

Registered with transformers as "kept". Keys and values, or latents, lie in a plain cache; what a
token is kept at comes from a TokenKeeper, to which queries' shares of attention go back, in the
form in which a TOPK and an LSE have them. Layers without a budget attend as transformers has it.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from bench.kept.budgeted import Budgeted
from nearkv.core import PAGE_TOKENS

ATTENTION = "kept"
NAMED = 256
"""Tokens that an observation names of each query row, at most."""
_UNKNOWN = ("softcap", "s_aux", "position_bias")


@dataclass(frozen=True)
class Seen:
    """What one layer's query rows attended to, the most first: [kv_heads, queries, group, NAMED].

    Beyond `counts` [kv_heads, queries, group] a row has nothing.
    """

    positions: np.ndarray
    ids: np.ndarray
    mass: np.ndarray
    counts: np.ndarray


class TokenKeeper(Protocol):
    """Says what a layer's heads may see, and learns what they saw."""

    demoted_planes: int
    tokens: int
    """That it knows of."""

    def learn(self, prompt: "TokenKeeper") -> None:
        """What another one noted of a prompt, or of more of it."""

    def decide(self) -> None:
        """What is kept from now on."""

    def fork(self, tokens: int | None = None) -> "TokenKeeper":
        """One that goes on from here by itself, or from its first tokens."""

    def watched(self, queries: int, total: int) -> np.ndarray:
        """Which of the newest queries it wants to learn of, as numbers from 0."""

    def visible(
        self, layer: int, query: torch.Tensor, total: int
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Masks [kv_heads, queries or 1, tokens] of what is exact and what is demoted.

        `query` is [kv_heads, group, queries, head_dim]. None: all; None: nothing.
        """

    def saw(self, layer: int, keys: torch.Tensor, seen: Seen) -> None:
        """A step's new keys [kv_heads, tokens, head_dim], and what watched queries attended to."""


@dataclass(frozen=True)
class _Reading:
    keeper: TokenKeeper
    cache: Cache
    budgeted: Budgeted


_reading: ContextVar[_Reading | None] = ContextVar("reading", default=None)


@contextmanager
def kept_by(keeper: TokenKeeper, cache: Cache, budgeted: Budgeted) -> Any:
    """Attention "kept" to this cache goes by this keeper, in layers that have a budget."""
    before = _reading.set(_Reading(keeper, cache, budgeted))
    try:
        yield
    finally:
        _reading.reset(before)


def planes_of(rows: torch.Tensor, planes: int) -> torch.Tensor:
    """Rows [heads, tokens, channels] as the first planes of page-affine 8-bit codes have them.

    The middle of what a code's first planes leave open; channels of a page share a range.
    """
    heads, tokens, channels = rows.shape
    pad = -tokens % PAGE_TOKENS
    paged = torch.nn.functional.pad(rows, (0, 0, 0, pad), mode="replicate") if pad else rows
    paged = paged.view(heads, -1, PAGE_TOKENS, channels)
    low, high = paged.amin(2, keepdim=True), paged.amax(2, keepdim=True)
    step = (high - low).clamp(min=1e-20) / 2**planes
    codes = ((paged - low) / step).floor().clamp(max=2**planes - 1)
    return (low + (codes + 0.5) * step).view(heads, -1, channels)[:, :tokens]


def page_means(rows: torch.Tensor) -> torch.Tensor:
    """Each row as the mean of its page."""
    means = [page.mean(1, keepdim=True).expand_as(page) for page in rows.split(PAGE_TOKENS, 1)]
    return torch.cat(means, 1)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """As transformers' attention interface has it, for a batch of one."""
    reading = _reading.get()
    assert reading is not None and query.shape[0] == 1
    if module.layer_idx not in reading.budgeted.layers:
        local = sdpa_attention_forward
        return local(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    if unknown := [name for name in _UNKNOWN if kwargs.get(name) is not None]:
        raise ValueError(f"attention with budgets has no {' and '.join(unknown)}")
    layer = reading.budgeted.layers.index(module.layer_idx)
    rows = reading.budgeted.rows_of(reading.cache, module.layer_idx)
    layout = reading.budgeted.layout
    grouped = layout.far_query(module, query)[0]
    output = _attend_to_kept(reading.keeper, layer, grouped, *rows, scaling)
    return layout.far_output(module, output[None]).transpose(1, 2).contiguous(), None


def _attend_to_kept(
    keeper: TokenKeeper,
    layer: int,
    grouped: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """Output [kv_heads, group, queries, channels] of queries [kv_heads, group, queries, ...]."""
    total, queries = keys.shape[1], grouped.shape[2]
    exact, demoted = keeper.visible(layer, grouped, total)
    positions = torch.arange(total - queries, total)
    causal = torch.arange(total) <= positions[:, None]
    logits = grouped @ keys[:, None].transpose(-1, -2) * scaling
    visible = causal if exact is None else exact & causal
    if demoted is not None:
        coarse = planes_of(keys, keeper.demoted_planes)[:, None]
        lower = (demoted & causal)[:, None]
        logits = torch.where(lower, grouped @ coarse.transpose(-1, -2) * scaling, logits)
        visible = visible | (demoted & causal)
    visible = visible if visible.ndim == 2 else visible[:, None]
    shares = logits.masked_fill(~visible, -torch.inf).softmax(-1)
    if demoted is None:
        output = shares @ values[:, None]
    else:
        fine = torch.where(lower, 0, shares)
        output = fine @ values[:, None] + (shares - fine) @ page_means(values)[:, None]
    watched = torch.from_numpy(keeper.watched(queries, total))
    new_keys = keys[:, total - queries :]
    keeper.saw(layer, new_keys, _seen(watched, positions, shares))
    return output


def _seen(watched: torch.Tensor, positions: torch.Tensor, shares: torch.Tensor) -> Seen:
    some = shares[:, :, watched].transpose(1, 2)
    mass, ids = some.topk(min(NAMED, some.shape[-1]), -1)

    def as_numpy(tensor: torch.Tensor, dtype: Any) -> np.ndarray:
        return tensor.contiguous().numpy().astype(dtype)

    return Seen(
        as_numpy(positions[watched], np.uint32),
        as_numpy(ids, np.uint32),
        as_numpy(mass.clamp(0, 1), np.float32),
        as_numpy((mass > 0).sum(-1), np.uint32),
    )


AttentionInterface.register(ATTENTION, _attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
