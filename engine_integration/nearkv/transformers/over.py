"""Attention over one layer of a cache: the pool's part near the data, the rest here, merged."""

from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from nearkv.near import attend_here, merge
from nearkv.transformers.visible import check_mask


def attend_over(
    layer: Any,
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scaling: float | None,
    softcap: float | None,
    **kwargs: Any,
) -> torch.Tensor:
    """Output [batch, queries, heads, head_dim] of queries [batch, heads, queries, head_dim].

    key and value are what the layer gave of its last update, which is over with this.
    """
    mask = layer.cut_mask(mask)
    queries = query.shape[2]
    if layer.holds_all() and softcap is None:
        plain = sdpa_attention_forward
        # Columns before them are padding of every row.
        seen = None if mask is None else mask[..., -key.shape[2] :]
        output, _ = plain(module, query, key, value, seen, scaling=scaling, **kwargs)
    else:
        if mask is not None:
            check_mask(mask)
        logits = (query.shape[-1] ** -0.5 if scaling is None else scaling, softcap or 0.0)
        # Query heads of a KV head lie together.
        grouped = query.unflatten(1, (key.shape[1], -1))
        parts = attend_here(grouped, key, value, layer.mask_here(mask, queries), *logits)
        here = tuple(part.flatten(1, 2) for part in parts)
        merged = here[0]
        if not layer.holds_all():
            far_query = layer.layout.far_query(module, query)
            far, far_lse = layer.attend_far(far_query, mask, *logits)
            far = layer.layout.far_output(module, far)
            merged, _ = merge(here, (far, far_lse.flatten(1, 2)))
        output = merged.to(query.dtype).transpose(1, 2).contiguous()
    layer.settle(mask, queries, output)
    return output
