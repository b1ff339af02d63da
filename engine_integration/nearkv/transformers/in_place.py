"""Attention in place: NearKV's kernels read transformers' own caches, and copy nothing.

On a CPU the model's memory is the memory near the compute. A step of one token attends to K and V
where a cache keeps them, if that has room behind them, as one of fixed size has; a pool takes no
part.
"""

import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from nearkv.core import MAX_HEAD_DIM, BlockBatch, BlockCache, BlockLayout

_DTYPES = torch.bfloat16, torch.float16, torch.float32
_BLOCKS_TOKENS = 64, 16
"""The kernels read whole blocks: the largest ones that end before the cache does."""


@dataclass(frozen=True)
class _Seen:
    """The tokens [first, first + counts) that each row of a batch sees."""

    first: torch.Tensor
    counts: torch.Tensor

    @classmethod
    def by(cls, mask: torch.Tensor | None, batch: int, tokens: int) -> "_Seen | None":
        """What a mask of one query a row shows; None if a row sees nothing, or has holes."""
        if mask is None:
            first = torch.zeros(batch, dtype=torch.int64, device="cpu")
            return cls(first, torch.full_like(first, tokens))
        shapes = ((rows, 1, 1, tokens) for rows in (1, batch))
        if mask.dtype != torch.bool or mask.shape not in shapes or mask.device.type != "cpu":
            return None
        rows = mask[:, 0, 0].expand(batch, -1).byte()
        first, counts = rows.argmax(-1), rows.sum(-1)
        last = tokens - 1 - rows.flip(-1).argmax(-1)
        is_whole = bool((counts > 0).all()) and torch.equal(last - first + 1, counts)
        return cls(first, counts) if is_whole else None


@dataclass(frozen=True)
class _Step:
    """What layers have in common that share a mask."""

    mask: torch.Tensor | None
    layout: tuple[Any, ...]
    """Of the mask and the keys: with it, what such a step is found again by."""
    batch: BlockBatch | None
    """None: such layers do not attend in place."""
    blocks: int = 0
    """A block begins with every row of the cache, so that a sequence may begin anywhere."""
    block_tokens: int = 0

    @classmethod
    def of(cls, mask: torch.Tensor | None, key: torch.Tensor) -> "_Step":
        """Of the keys of one of the layers."""
        known = mask, _layout(mask, key)
        batch, _, tokens, head_dim = key.shape
        seen = _Seen.by(mask, batch, tokens)
        if seen is None:
            return cls(*known, None)
        for block_tokens in _BLOCKS_TOKENS:
            columns = (seen.counts + block_tokens - 1) // block_tokens
            if bool((seen.first + columns * block_tokens <= tokens).all()):
                break
        else:
            return cls(*known, None)
        count = partial(torch.arange, device="cpu")
        column = torch.minimum(count(int(columns.max())), columns[:, None] - 1)
        rows = count(batch) * (key.stride(0) // head_dim) + seen.first
        table = (rows[:, None] + column * block_tokens).int()
        step = BlockBatch()
        starts = count(batch + 1, dtype=torch.int32)
        step.begin_step(starts, seen.counts.int(), table, block_tokens=block_tokens, max_queries=1)
        return cls(*known, step, int(table.max()) + 1, block_tokens)

    def is_of(self, mask: torch.Tensor | None, key: torch.Tensor) -> bool:
        """Whether it is that of this mask, and of a layer of the same shape."""
        return self.mask is mask and self.layout == _layout(mask, key)

    def cache(self, key: torch.Tensor, value: torch.Tensor) -> BlockCache:
        """A layer's K and V as blocks."""
        head_dim = key.shape[3]
        shape = self.blocks, key.shape[1], self.block_tokens, head_dim
        strides = head_dim, key.stride(1), head_dim, 1
        blocks = (part.as_strided(shape, strides) for part in (key, value))
        return BlockCache(*blocks, BlockLayout.ROWS)


def _layout(mask: torch.Tensor | None, key: torch.Tensor) -> tuple[Any, ...]:
    # What was written to a tensor since; those of inference do not tell.
    version = None if mask is None or mask.is_inference() else mask._version
    return version, key.shape, key.stride()


class _Recent(threading.local):
    """What layers of the forward pass that a thread is in have in common."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._layer = -1

    def step(self, layer: int | None, mask: torch.Tensor | None, key: torch.Tensor) -> _Step:
        """Of a layer, by its index. A mask may be written anew between passes."""
        if layer is None:
            return _Step.of(mask, key)
        if layer <= self._layer:
            self._steps = []
        self._layer = layer
        for step in self._steps:
            if step.is_of(mask, key):
                return step
        self._steps.append(_Step.of(mask, key))
        return self._steps[-1]


_recent = _Recent()


def attend_in_place(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scaling: float | None,
    softcap: float | None,
) -> torch.Tensor | None:
    """Output [batch, 1, heads, head_dim] of queries [batch, heads, 1, head_dim]; None if not taken.

    key and value [batch, kv_heads, tokens, head_dim] are a cache's; `mask` is bool [batch, 1, 1,
    tokens], True where seen, or None: all. Exact, summed in float32. Thread-safe.
    """
    if query.ndim != 4 or query.shape[2] != 1 or not _has_rows(query, key, value):
        return None
    batch, heads, _, head_dim = query.shape
    step = _recent.step(getattr(module, "layer_idx", None), mask, key)
    if step.batch is None:
        return None
    output = torch.empty(batch, heads, head_dim, dtype=query.dtype, device="cpu")
    step.batch.attend(
        step.cache(key, value),
        query.reshape(batch, heads, head_dim).contiguous(),
        output,
        scale=head_dim**-0.5 if scaling is None else scaling,
        soft_cap=softcap or 0.0,
    )
    return output.unsqueeze(1)


def _has_rows(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether K and V lie as the kernels read them, and nobody asks for gradients."""
    rows = query, key, value
    if torch.is_grad_enabled() and any(part.requires_grad for part in rows):
        return False
    head_dim = key.shape[3]
    return (
        all(part.device.type == "cpu" and part.numel() for part in rows)
        and query.dtype == key.dtype == value.dtype
        and key.dtype in _DTYPES
        and key.shape == value.shape
        and (query.shape[0], query.shape[3]) == (key.shape[0], head_dim)
        and query.shape[1] % key.shape[1] == 0
        and head_dim % 16 == 0
        and head_dim <= MAX_HEAD_DIM
        and key.stride() == value.stride()
        and key.stride()[2:] == (head_dim, 1)
        and key.stride(0) % head_dim == 0
        and key.shape[0] * key.stride(0) // head_dim < 2**31
    )
