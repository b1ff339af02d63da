"""Attention over what an engine keeps, with the LSE that merging with a pool's part needs."""

import math
from functools import partial

import torch
from nkv_abi import MAX_HEAD_DIM

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
    """(O, LSE): [batch, kv_heads, group, queries, value_dim], and without the last axis.

    query [batch, kv_heads, group, queries, head_dim], key and value [batch, kv_heads, tokens, dim],
    mask [batch, 1, queries, tokens], True where seen or what is added to logits; soft_cap 0: none.
    All is computed and given in fp32, for a query of float64 in float64. A row that sees nothing
    has an O of 0 and an LSE of -inf.
    """
    if mask is None and query.shape[3] == 1 and _fits_kernels(query, key, value):
        from nearkv.cuda import attend_window

        output, lse = attend_window(query[:, :, :, 0], key, value, scale, soft_cap)
        return output.unsqueeze(3), lse.unsqueeze(3)
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    rows, tokens = query.shape[:-1], key.shape[-2]
    if not math.prod(rows) or not tokens:
        return query.new_zeros(*rows, value.shape[-1]), query.new_full(rows, -torch.inf)
    step = max(1, _LOGITS // (math.prod(query.shape[:3]) * tokens))
    is_plain = not soft_cap and key.shape[-1] == value.shape[-1] and query.device.type == "cpu"
    attend = _attend_fused if is_plain else partial(_attend, soft_cap=soft_cap)
    parts = []
    for begin in range(0, query.shape[3], step):
        some = slice(begin, begin + step)
        added = None if mask is None else _added(mask[:, :, None, some], dtype)
        part = attend(query[..., some, :], key, value, added, scale)
        parts.append(part if mask is None else _without_unseen(*part))
    if len(parts) == 1:
        return parts[0]
    outputs, lses = zip(*parts, strict=True)
    return torch.cat(outputs, 3), torch.cat(lses, 3)


@torch.compiler.assume_constant_result
def _has_kernels(device: torch.device) -> bool:
    """Whether libnearkv_cuda.so is there for a GPU's tensors."""
    if device.type != "cuda":
        return False
    from nearkv.cuda import serves

    return serves(device)


@torch.compiler.assume_constant_result
def _attend_dim(device: torch.device, dtype: torch.dtype) -> int:
    """The greatest head_dim that a GPU's kernel takes."""
    from nearkv.cuda import gpu_of

    return gpu_of(device).attend_dims[dtype]


def _fits_kernels(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Rows as attend_window takes them; others are attended to by torch."""
    fits = _has_kernels(query.device) and all(
        part.dtype == query.dtype
        and part.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and part.shape[-1] % 16 == 0
        and 0 < part.shape[-1] <= MAX_HEAD_DIM
        and not _is_learning(part)
        and part.stride(-1) == 1
        and not any(
            step * part.element_size() % 16 for step in (part.storage_offset(), *part.stride()[:-1])
        )
        for part in (query, key, value)
    )
    return fits and query.shape[-1] <= _attend_dim(query.device, query.dtype)


def _is_learning(*parts: torch.Tensor) -> bool:
    """Whether torch wants derivatives, which the kernels have none of."""
    return torch.is_grad_enabled() and any(part.requires_grad for part in parts)


def _without_unseen(output: torch.Tensor, lse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    unseen = lse < UNSEEN / 2
    return output.masked_fill(unseen.unsqueeze(-1), 0), lse.masked_fill(unseen, -torch.inf)


def _added(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    # torch's fused kernel misreads a mask of another dtype than the query's.
    if mask.is_floating_point():
        return mask.to(dtype)
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill(~mask, UNSEEN)


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
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, LSE) of two parts of an attention; one that sees nothing has an LSE of -inf."""
    (output, lse), (far_output, far_lse) = here, far
    fits = output.dtype == far_output.dtype == torch.float32
    if fits and not _is_learning(*here, *far) and _has_kernels(output.device):
        from nearkv.cuda import merge_parts

        outputs = [part.reshape(-1, output.shape[-1]).contiguous() for part in (output, far_output)]
        merged = merge_parts(outputs, [part.reshape(-1).contiguous() for part in (lse, far_lse)])
        return merged[0].view(output.shape), merged[1].view(lse.shape)
    # -inf beside -inf gives NaN; both parts are 0 there.
    weight = torch.sigmoid(torch.nan_to_num(far_lse - lse)).unsqueeze(-1)
    return torch.lerp(output, far_output, weight), torch.logaddexp(lse, far_lse)
