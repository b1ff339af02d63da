"""The attention implementation "nearkv": the pool's part near the data, the rest here, merged."""

from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from nearkv.near import attend_here, merge
from nearkv.transformers.handover import take_next
from nearkv.transformers.visible import check_mask

_UNSUPPORTED = ("s_aux", "position_bias")


def nearkv_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention over a NearKVCache, as transformers' attention interface wants it.

    query [batch, heads, queries, head_dim]; key and value are what the cache holds here, or all
    tokens when no NearKVCache is in use, and then this is plain `sdpa`. The result is
    [batch, queries, heads, head_dim].
    """
    layer = take_next(key)
    if layer is None:
        if softcap is not None:
            kwargs["softcap"] = softcap
        plain = sdpa_attention_forward
        return plain(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    if unsupported := [name for name in _UNSUPPORTED if _matters(name, kwargs.get(name))]:
        raise ValueError(f"NearKV's attention has no {' and '.join(unsupported)}")
    if query.requires_grad:
        raise RuntimeError("NearKV attends without gradients: call under torch.no_grad()")
    mask = layer.cut_mask(attention_mask)
    queries = query.shape[2]
    if layer.holds_all() and softcap is None:
        plain = sdpa_attention_forward
        output, _ = plain(module, query, key, value, mask, scaling=scaling, **kwargs)
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
    return output, None


def _matters(name: str, option: torch.Tensor | None) -> bool:
    # T5's cross-attention has a bias of zeros.
    return option is not None and (name != "position_bias" or bool(option.any()))
