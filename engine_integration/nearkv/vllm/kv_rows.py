"""Reads tokens out of vLLM's KV cache, whose kernels pack the rows of a block each in its way."""

import functools
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from nearkv.core import BlockLayout

# How many tokens, and how many channels, kernels keep together.
_TOKEN_GROUPS = (1, 2, 16, 32, 64)
_CHANNEL_GROUPS = (1, 2, 4, 8, 16, 32)
MAX_QUERIES = 8
"""Of a request in a step that NearKV's kernels take: its last token, and those that are guessed
ahead of it. More are a prompt's, or many guesses."""
Places = torch.Tensor | tuple[torch.Tensor, ...]
_DIGIT_BITS = 7  # A bfloat16 holds integers of 7 bits, and one more, exactly.


@dataclass(frozen=True)
class RowLayout:
    """Where channel c of token t lies in one head's part of a block: a sum of strides."""

    first: int
    tokens: int
    """That lie together; c and t are each split in two."""
    channels: int
    strides: tuple[int, int, int, int]
    """Of t // tokens, t % tokens, c // channels, c % channels."""

    def places(self, cache: torch.Tensor, head_dim: int, slots: torch.Tensor) -> Places:
        """Where slots' rows are in a cache [blocks, kv_heads, block, ..] of these strides."""
        if not self._is_whole(cache, head_dim):
            return self._indices(cache, slots)
        # Copying rows that lie in one piece takes a fifth of the time.
        heads = torch.arange(cache.shape[1], device=slots.device) * cache.stride(1)
        block, token = slots // cache.shape[2], slots % cache.shape[2]
        first = block * cache.stride(0) + token * head_dim
        return (first.unsqueeze(-1) + heads) // head_dim

    def rows(self, cache: torch.Tensor, head_dim: int, places: Places) -> torch.Tensor:
        """The rows [*slots.shape, kv_heads, head_dim]."""
        if isinstance(places, tuple):
            return self._view(cache, head_dim)[places].flatten(-2)
        heads = cache[:, :, 0, 0]
        last = sum(
            (size - 1) * step for size, step in zip(heads.shape, heads.stride(), strict=True)
        )
        count = last // head_dim + cache.shape[2]
        whole = cache.as_strided((count, head_dim), (head_dim, 1), self._first(cache))
        return whole.index_select(0, places.flatten()).view(*places.shape, head_dim)

    def elements(
        self, cache: torch.Tensor, slots: torch.Tensor, channels: torch.Tensor
    ) -> torch.Tensor:
        """Where one channel is of each of the slots' rows of the first head."""
        block, *token = self._indices(cache, slots)
        parts = *token, channels // self.channels, channels % self.channels
        inside = sum(part * step for part, step in zip(parts, self.strides, strict=True))
        return self.first + block * cache.stride(0) + inside

    def _is_whole(self, cache: torch.Tensor, head_dim: int) -> bool:
        """Whether a row lies in one piece, and all of them at multiples of its length."""
        is_whole = (self.tokens, self.channels, *self.strides) == (1, 1, head_dim, head_dim, 1, 1)
        return is_whole and not any(step % head_dim for step in cache.stride()[:2])

    def _first(self, cache: torch.Tensor) -> int:
        return cache.storage_offset() + self.first

    def _view(self, cache: torch.Tensor, head_dim: int) -> torch.Tensor:
        blocks, kv_heads, block_tokens = cache.shape[:3]
        outer, inner, outer_channel, inner_channel = self.strides
        in_block = block_tokens // self.tokens, self.tokens
        in_row = head_dim // self.channels, self.channels
        return cache.as_strided(
            (blocks, *in_block, kv_heads, *in_row),
            (cache.stride(0), outer, inner, cache.stride(1), outer_channel, inner_channel),
            self._first(cache),
        )

    def _indices(self, cache: torch.Tensor, slots: torch.Tensor) -> tuple[torch.Tensor, ...]:
        token = slots % cache.shape[2]
        return slots // cache.shape[2], token // self.tokens, token % self.tokens


@dataclass(frozen=True)
class KVRows:
    """Reads keys and values."""

    head_dim: int
    keys: RowLayout
    values: RowLayout

    def places(self, cache: torch.Tensor, slots: torch.Tensor) -> tuple[Places, Places]:
        """Where K and V of slots are, which count tokens over blocks, in a cache of this shape."""
        return tuple(part.places(cache, self.head_dim, slots) for part in (self.keys, self.values))

    def read(
        self, cache: torch.Tensor, places: tuple[Places, Places]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [*slots.shape, kv_heads, head_dim]."""
        keys, values = places
        return (
            self.keys.rows(cache, self.head_dim, keys),
            self.values.rows(cache, self.head_dim, values),
        )

    def sampled(self, cache: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        """Where the elements of slots are that sample() reads, in any cache of this shape."""
        channels = slots * 7 % self.head_dim  # Not always the same: a channel may be dead.
        return self.keys.elements(cache, slots, channels)

    def sample(self, cache: torch.Tensor, elements: torch.Tensor) -> np.ndarray:
        """The bits of one channel of each token's first key, to know tokens by."""
        count = sum(
            (size - 1) * step for size, step in zip(cache.shape, cache.stride(), strict=True)
        )
        every = cache.as_strided((count + 1,), (1,))
        picked = every.index_select(0, elements).cpu()
        return picked.view(torch.int16 if picked.element_size() == 2 else torch.int32).numpy()


def block_layout(rows: KVRows, block_tokens: int) -> BlockLayout | None:
    """What the kernels that attend in place call this way of packing, if they know it."""
    dim = rows.head_dim
    in_rows = RowLayout(block_tokens * dim, 1, 1, (dim, dim, 1, 1))
    tiles = (
        RowLayout(0, 16, 2, (16 * dim, 2, 32, 1)),
        RowLayout(block_tokens * dim, 2, 16, (32, 1, 16 * block_tokens, 2)),
    )
    known = {
        BlockLayout.ROWS: (RowLayout(0, 1, 1, (dim, dim, 1, 1)), in_rows),
        BlockLayout.CHANNEL_MAJOR: (
            RowLayout(0, 1, 1, (1, 1, block_tokens, block_tokens)),
            in_rows,
        ),
        BlockLayout.TILES: tiles,
    }
    return next(
        (layout for layout, packed in known.items() if packed == (rows.keys, rows.values)), None
    )


def halves(kv_cache: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """K and V [blocks, kv_heads, block_tokens, head_size], in whatever order inside of a block."""
    blocks, kv_heads, block_tokens, _ = kv_cache.shape
    return kv_cache.view(blocks, kv_heads, 2 * block_tokens, -1).chunk(2, dim=2)


@functools.cache
def packed_rows(dtype: torch.dtype, block_tokens: int, head_dim: int, isa: str) -> KVRows:
    """Of vLLM's CPU cache: found out by having its own kernel write rows of known numbers.

    Raises ValueError if that kernel packs them in a way that is not understood.
    """
    from vllm import _custom_ops as ops

    numbers = torch.arange(block_tokens * head_dim)
    cache = torch.zeros(1, 1, 2 * block_tokens, head_dim, dtype=dtype)
    key_cache, value_cache = cache.chunk(2, dim=2)
    where = torch.zeros(2 * len(numbers), dtype=torch.int64)
    for shift in range(0, int(numbers[-1]).bit_length(), _DIGIT_BITS):
        digits = numbers >> shift & (1 << _DIGIT_BITS) - 1
        rows = digits.to(dtype).view(block_tokens, 1, head_dim)
        slots = torch.arange(block_tokens)
        ops.cpu_attn_reshape_and_cache(
            rows, rows, key_cache, value_cache, slots, isa, 1.0, 1.0, "auto"
        )
        where |= cache.flatten().long() << shift
    layouts = []
    for first, packed in zip((0, len(numbers)), where.chunk(2), strict=True):
        places = torch.empty_like(numbers)
        places[packed] = numbers
        layouts.append(_layout_of(places.view(block_tokens, head_dim), first))
    return KVRows(head_dim, *layouts)


def _layout_of(places: torch.Tensor, first: int) -> RowLayout:
    tokens, channels = (torch.arange(count) for count in places.shape)
    for many, few in product(_TOKEN_GROUPS, _CHANNEL_GROUPS):
        if len(tokens) % many or len(channels) % few:
            continue
        steps = (many, 0), (1, 0), (0, few), (0, 1)
        strides = tuple(
            int(places[t, c] - places[0, 0]) if t < len(tokens) and c < len(channels) else 0
            for t, c in steps
        )
        outer, inner, outer_channel, inner_channel = strides
        of_token = tokens // many * outer + tokens % many * (inner if many > 1 else 0)
        of_channel = channels // few * outer_channel
        of_channel += channels % few * (inner_channel if few > 1 else 0)
        if torch.equal(places, places[0, 0] + of_token[:, None] + of_channel):
            return RowLayout(first + int(places[0, 0]), many, few, strides)
    raise ValueError(
        "vLLM packs the rows of its KV cache in a way that NearKV's attention does not know: "
        "leave nearkv_attention out of --additional-config"
    )
