"""FlashAttention's two kernels in torch, so that vLLM's classes around them run on a CPU."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

MODULE = "vllm.v1.attention.backends.flash_attn"
calls = 0
"""Of the kernel that attends."""


def reshape_and_cache_flash(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    *_: Any,
) -> None:
    """Caches [blocks, block, heads, dim]; slots below 0 are padding."""
    tokens = torch.nonzero(slot_mapping >= 0).flatten()
    slots = slot_mapping[tokens]
    block = key_cache.shape[1]
    key_cache[slots // block, slots % block] = key[tokens]
    value_cache[slots // block, slots % block] = value[tokens]


def flash_attn_varlen_func(
    *,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    softmax_scale: float,
    causal: bool,
    window_size: list[int],
    softcap: float,
    **_: Any,
) -> None:
    """Queries are a sequence's last; windows count keys on both sides."""
    global calls
    calls += 1
    assert causal and not softcap
    starts = cu_seqlens_q.tolist()
    for row, length in enumerate(seqused_k.tolist()):
        some = slice(starts[row], starts[row + 1])
        blocks = block_table[row, : -(-length // k.shape[1])].long()
        keys, values = (part[blocks].flatten(0, 1)[:length].float() for part in (k, v))
        heads = q.shape[1] // k.shape[2]
        keys, values = (part.repeat_interleave(heads, 1) for part in (keys, values))
        logits = torch.einsum("qhd,khd->hqk", q[some].float(), keys) * softmax_scale
        ahead = torch.arange(length) - torch.arange(length - logits.shape[1], length)[:, None]
        hidden = ahead > 0
        if window_size[0] >= 0:
            hidden |= ahead < -window_size[0]
        weights = logits.masked_fill(hidden, float("-inf")).softmax(-1)
        out[some] = torch.einsum("hqk,khd->qhd", weights, values).to(out.dtype)


@contextmanager
def flash_attention(really: bool) -> Iterator[None]:
    """The CPU platform has NearKV's backend for GPUs meanwhile."""
    global calls
    calls = 0
    if not really:
        yield
        return
    from vllm.v1.attention import selector
    from vllm.v1.attention.backends.registry import (
        _ATTN_OVERRIDES,
        AttentionBackendEnum,
        register_backend,
    )

    ours = _ATTN_OVERRIDES[AttentionBackendEnum.CUSTOM]
    with ExitStack() as stack:
        for kernel in (reshape_and_cache_flash, flash_attn_varlen_func):
            stack.enter_context(patch(f"{MODULE}.{kernel.__name__}", kernel, create=True))
        stack.enter_context(patch(f"{MODULE}.get_flash_attn_version", lambda **_: 2))
        stack.enter_context(patch.dict(_ATTN_OVERRIDES))
        register_backend(AttentionBackendEnum.CPU_ATTN, ours)
        selector._cached_get_attn_backend.cache_clear()
        yield
    selector._cached_get_attn_backend.cache_clear()
