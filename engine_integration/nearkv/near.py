"""Attention over what an engine keeps, with the LSE that merging with a pool's part needs."""

import math

import torch

# Logits that are held at once, fp32.
_LOGITS = 1 << 24
UNSEEN = torch.finfo(torch.float32).min
"""Added to a logit that is not seen: not -inf, for a row that sees nothing must not become NaN."""


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
    mask [batch, 1, queries, tokens], True where seen or what is added to logits; soft_cap 0: none.
    """
    query, key, value = query.float(), key.float(), value.float()
    step = max(1, _LOGITS // (math.prod(query.shape[:3]) * key.shape[-2]))
    is_plain = not soft_cap and key.shape[-1] == value.shape[-1] and query.device.type == "cpu"
    attend = _attend_fused if is_plain else _attend
    parts = []
    for begin in range(0, query.shape[3], step):
        rows = slice(begin, begin + step)
        added = None if mask is None else _added(mask[:, :, None, rows])
        parts.append(attend(query[..., rows, :], key, value, added, scale, soft_cap))
    if len(parts) == 1:
        return parts[0]
    outputs, lses = zip(*parts, strict=True)
    return torch.cat(outputs, 3), torch.cat(lses, 3)


def _added(mask: torch.Tensor) -> torch.Tensor:
    if mask.is_floating_point():
        return mask
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, UNSEEN)


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    added: torch.Tensor | None,
    scale: float,
    soft_cap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = query @ key.unsqueeze(2).transpose(-1, -2) * scale
    if soft_cap:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    if added is not None:
        logits = logits + added
    lse = logits.logsumexp(-1)
    return torch.exp(logits - lse.unsqueeze(-1)) @ value.unsqueeze(2), lse


def _attend_fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    added: torch.Tensor | None,
    scale: float,
    soft_cap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As _attend, in one call of torch's kernel for CPUs."""
    shape = query.shape
    if added is not None:
        added = added.expand(-1, -1, shape[2], -1, -1).flatten(2, 3)
    # It takes rows to lie in one piece without a look.
    rows = [part.contiguous() if part.stride(-1) != 1 else part for part in (query, key, value)]
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        rows[0].flatten(2, 3), *rows[1:], attn_mask=added, scale=scale
    )
    return output.unflatten(2, shape[2:4]), lse.unflatten(2, shape[2:4])


def merge(
    here: tuple[torch.Tensor, torch.Tensor], far: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """One attention's output of two parts (O, LSE); one that sees nothing has an LSE of -inf."""
    (output, lse), (far_output, far_lse) = here, far
    return torch.lerp(output, far_output, torch.sigmoid(far_lse - lse).unsqueeze(-1))
