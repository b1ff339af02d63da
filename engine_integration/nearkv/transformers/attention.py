"""The attention implementation "nearkv": the pool's part near the data, the rest here, merged."""

import math
from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from nearkv.transformers.cache import NearKVLayer
from nearkv.transformers.visible import ALL, NONE, check_mask, far_windows

# Logits that local attention holds at once, fp32.
_LOGITS = 1 << 24
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
    layer = getattr(key, "nearkv_layer", None)
    if layer is None:
        if softcap is not None:
            kwargs["softcap"] = softcap
        plain = sdpa_attention_forward
        return plain(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    if unsupported := [name for name in _UNSUPPORTED if kwargs.get(name) is not None]:
        raise ValueError(f"NearKV's attention has no {' and '.join(unsupported)}")
    if query.requires_grad:
        raise RuntimeError("NearKV attends without gradients: call under torch.no_grad()")
    if not any(layer.stored) and softcap is None:
        key, value = key.to(query.dtype), value.to(query.dtype)
        output, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    else:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        output = _attend(layer, query, key, value, attention_mask, scale, softcap or 0.0)
    layer.settle(attention_mask, query.shape[2])
    return output, None


def _attend(
    layer: NearKVLayer,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    soft_cap: float,
) -> torch.Tensor:
    batch, heads, queries, head_dim = query.shape
    kv_heads = key.shape[1]
    if mask is not None:
        check_mask(mask)
    elif queries > 1:
        mask = torch.ones(1, 1, queries, layer.length, dtype=torch.bool, device=query.device)
        mask = mask.tril(layer.length - queries).expand(batch, -1, -1, -1)
    # Query heads of a KV head lie together.
    grouped = query.reshape(batch, kv_heads, heads // kv_heads, queries, head_dim)
    output, lse = _attend_here(grouped, key, value, layer.hide_stored(mask), scale, soft_cap)
    if any(layer.stored):
        far_output, far_lse = _attend_far(layer, grouped, mask, scale, soft_cap)
        # Weights e^lse of both parts, normalised; a part that sees nothing has lse = -inf.
        far_weight = torch.sigmoid(far_lse - lse).unsqueeze(-1)
        output = torch.lerp(output, far_output, far_weight)
    merged = output.to(query.dtype).reshape(batch, heads, queries, -1)
    return merged.transpose(1, 2).contiguous()


def _attend_here(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    soft_cap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, LSE) in fp32 of query [batch, kv_heads, group, queries, head_dim] over the local part."""
    key, value = key.float().unsqueeze(2), value.float().unsqueeze(2)
    step = max(1, _LOGITS // (math.prod(query.shape[:3]) * key.shape[-2]))
    parts = []
    for begin in range(0, query.shape[3], step):
        rows = slice(begin, begin + step)
        logits = query[..., rows, :].float() @ key.transpose(-1, -2) * scale
        if soft_cap:
            logits = soft_cap * torch.tanh(logits / soft_cap)
        if mask is not None:
            # The least number, not -inf: a row of padding sees nothing and must not become NaN.
            hidden = ~mask[:, :, None, rows]
            logits = logits.masked_fill(hidden, torch.finfo(logits.dtype).min)
        lse = logits.logsumexp(-1)
        parts.append((torch.exp(logits - lse.unsqueeze(-1)) @ value, lse))
    outputs, lses = zip(*parts, strict=True)
    return torch.cat(outputs, 3), torch.cat(lses, 3)


def _attend_far(
    layer: NearKVLayer,
    query: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    soft_cap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, LSE) in fp32 over the pool's part, shaped as _attend_here's."""
    windows = far_windows(mask, layer.pads, layer.stored, query.shape[3])
    if (windows == windows[0, 0]).all() and windows[0, 0] != NONE:
        return layer.attend_stored(query, int(windows[0, 0]), scale, soft_cap)
    output = query.new_zeros(*query.shape[:-1], layer.value_dim, dtype=torch.float32)
    lse = torch.full(query.shape[:-1], -torch.inf, device=query.device)
    for window in windows.unique().tolist():
        for row in range(len(windows)) if window != NONE else ():
            seeing = (windows[row] == window).nonzero().flatten()
            if len(seeing) and (layer.stored[row] or window != ALL):
                part = layer.attend_stored(query[row, :, :, seeing], window, scale, soft_cap, row)
                output[row, :, :, seeing], lse[row, :, :, seeing] = part
    return output, lse
