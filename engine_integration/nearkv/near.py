"""Attention over what an engine keeps, with the LSE that merging with a pool's part needs."""

import math

import torch

# Logits that are held at once, fp32.
_LOGITS = 1 << 24


def attend_here(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    soft_cap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, LSE) in fp32: [batch, kv_heads, group, queries, value_dim], and without the last axis.

    query [batch, kv_heads, group, queries, head_dim], key and value [batch, kv_heads, tokens, dim],
    mask [batch, 1, queries, tokens], True where seen; soft_cap 0 for none.
    """
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


def merge(
    here: tuple[torch.Tensor, torch.Tensor], far: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """One attention's output of two parts (O, LSE); one that sees nothing has an LSE of -inf."""
    (output, lse), (far_output, far_lse) = here, far
    return torch.lerp(output, far_output, torch.sigmoid(far_lse - lse).unsqueeze(-1))
