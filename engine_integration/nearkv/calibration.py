"""Gains of K's channels: what pages with codes of K and V need to know of a model, once.

A code of a key spends the same bits on every channel. A query weighs channels differently, so a
channel is multiplied by a gain before it is coded, and the query is divided by it. The best gain is
the square root of what the channel's queries are, beside what its keys are away from the mean of
their page (ARITHMETIC 11.2). It belongs to a layer and KV head of a model, not to a text: a few
thousand tokens of any text tell it.

    gains = gains_from(queries, keys)       # of one layer and KV head, after RoPE
"""

import torch

from nearkv.core import PAGE_TOKENS

_STEPS_PER_OCTAVE = 16
_LEAST_SHARE = 0.01
"""A channel that hardly varied in one text may vary in another: of the mean over channels."""


def gains_from(
    queries: torch.Tensor, keys: torch.Tensor, page_tokens: int = PAGE_TOKENS
) -> torch.Tensor:
    """The gains of one KV head's channels, int8 [head_dim], in sixteenths of an octave.

    queries: [..., head_dim], those of all query heads of the KV head; keys: [tokens, head_dim];
    both as attention multiplies them, that is after RoPE, of any floating dtype and device. Keys
    beyond the last whole page do not count. The gains' mean is near 0, since a factor of all
    channels does not matter. ValueError where shapes do not fit or there is no whole page.
    """
    head_dim = keys.shape[-1]
    if keys.ndim != 2 or queries.shape[-1:] != (head_dim,) or queries.numel() == 0:
        raise ValueError(
            f"queries {list(queries.shape)} and keys {list(keys.shape)} are not "
            "[..., head_dim] and [tokens, head_dim]"
        )
    pages = keys.shape[0] // page_tokens
    if pages == 0:
        raise ValueError(f"{keys.shape[0]} keys are not a page of {page_tokens}")
    paged = keys[: pages * page_tokens].float().reshape(pages, page_tokens, head_dim)
    asked = _rms_of_channels(queries.float().reshape(-1, head_dim))
    spread = _rms_of_channels((paged - paged.mean(1, keepdim=True)).reshape(-1, head_dim))
    octaves = (asked / spread).log2() / 2
    sixteenths = _STEPS_PER_OCTAVE * (octaves - octaves.mean())
    return sixteenths.round().clamp(-128, 127).to(torch.int8)


def _rms_of_channels(rows: torch.Tensor) -> torch.Tensor:
    """Root mean square of each channel, not below a share of their mean; 1 if all are 0."""
    rms = rows.square().mean(0).sqrt()
    mean = rms.mean()
    return torch.ones_like(rms) if mean == 0 else rms.clamp(min=float(_LEAST_SHARE * mean))
