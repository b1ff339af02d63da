"""What requests with tokens in a pool attend to in vLLM's own blocks: their newest tokens.

Where NearKV's kernels know how blocks are packed, one call attends to all of them where they lie.
Elsewhere (on a GPU, in prompts, where a page ends amid a block) rows are read and attended to by
torch. No line here knows a platform.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from nearkv.core import BlockBatch, BlockCache
from nearkv.near import UNSEEN, attend_here
from nearkv.vllm.far_pages import FarPages, Row
from nearkv.vllm.kv_rows import MAX_QUERIES, KVRows, Places, block_layout, halves

if TYPE_CHECKING:
    from nearkv.vllm.far_step import LayerAttention


class NearTokens:
    """Of rows with as many queries each: what follows the pool's tokens.

    Also older tokens that only some queries' windows still have.
    """

    def __init__(
        self,
        pages: FarPages,
        rows: list[Row],
        seen: list[int],
        window: int,
        device: torch.device,
    ) -> None:
        """seen: by row, the first token of the pool that is visible to all of its queries."""
        self._pages, self._rows, self._seen = pages, rows, seen
        self._window, self._device = window, device
        self._gathered: _Gathered | None = None
        self._batch = self._begin_batch()

    def attend(
        self, layer: "LayerAttention", query: torch.Tensor, cache: torch.Tensor, reader: KVRows
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) in fp32 of query [rows * queries, heads, dim].

        They are [rows, kv_heads, group, queries, dim], and without the last axis.
        """
        shape = len(self._rows), -1, cache.shape[1], query.shape[1] // cache.shape[1]
        layout = block_layout(reader, self._pages.block_tokens) if self._batch else None
        if layout is None:
            if self._gathered is None:
                self._gathered = _gathered(
                    self._pages, self._rows, self._seen, self._window, self._device
                )
            grouped = query.view(*shape, query.shape[2]).permute(0, 2, 3, 1, 4)
            return self._gathered.attend(layer, grouped, cache, reader)
        output = torch.empty_like(query)
        lse = torch.empty(query.shape[:2], dtype=torch.float32)
        self._batch.attend(
            BlockCache(*halves(cache), layout),
            query,
            output,
            scale=layer.scale,
            soft_cap=layer.soft_cap,
            lse=lse,
        )
        return (
            output.float().view(*shape, query.shape[2]).permute(0, 2, 3, 1, 4),
            lse.view(shape).permute(0, 2, 3, 1),
        )

    def _begin_batch(self) -> BlockBatch | None:
        """The rows' newest tokens as requests of their own; None where kernels cannot see them."""
        queries, block_tokens = self._rows[0].queries, self._pages.block_tokens
        if self._device.type != "cpu" or queries > MAX_QUERIES:
            return None
        firsts = [row.far for row in self._rows]
        if any(first % block_tokens for first in firsts) or self._has_older():
            return None
        lengths = [row.length - row.far for row in self._rows]
        table = np.zeros((len(firsts), -(-max(lengths) // block_tokens)), np.int32)
        for blocks, row, length in zip(table, self._rows, lengths, strict=True):
            count = -(-length // block_tokens)
            first = row.far // block_tokens
            blocks[:count] = row.table[first : first + count]
        batch = BlockBatch()
        batch.begin_step(
            np.arange(len(firsts) + 1, dtype=np.int32) * queries,
            np.array(lengths, np.int32),
            table,
            block_tokens=block_tokens,
            max_queries=queries,
        )
        return batch

    def _has_older(self) -> bool:
        """Whether a query's window begins before what all queries see of the pool, or after it."""
        return bool(self._window) and any(
            max(0, row.length - row.queries - self._window + 1) < seen
            or row.far < row.length - self._window
            for row, seen in zip(self._rows, self._seen, strict=True)
        )


@dataclass
class _Gathered:
    """Rows that are read, padded, and attended to by torch."""

    slots: torch.Tensor
    """[rows, keys]."""
    mask: torch.Tensor
    """[rows, 1, queries, keys]: True where a query sees a key, or what is added to its logit."""
    _places: tuple[Places, Places] | None = None
    _places_of: object = None

    def attend(
        self, layer: "LayerAttention", query: torch.Tensor, cache: torch.Tensor, reader: KVRows
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) of query [rows, kv_heads, group, queries, dim]."""
        keys, values = reader.read(cache, self._places_in(cache, reader))
        return attend_here(
            query,
            keys.transpose(1, 2),
            values.transpose(1, 2),
            self.mask,
            layer.scale,
            layer.soft_cap,
        )

    def _places_in(self, cache: torch.Tensor, reader: KVRows) -> tuple[Places, Places]:
        """Of the slots: found once for all layers whose caches have one shape."""
        shape = reader, cache.stride()
        if self._places is None or self._places_of != shape:
            self._places, self._places_of = reader.places(cache, self.slots), shape
        return self._places


def _gathered(
    pages: FarPages, rows: list[Row], seen: list[int], window: int, device: torch.device
) -> _Gathered:
    queries = rows[0].queries
    # By row: tokens that only some queries' windows still have, and what follows the pool's.
    far, length = np.array([(row.far, row.length) for row in rows]).T[:, :, None]
    first = np.maximum(0, length - queries - window + 1) if window else np.array(seen)[:, None]
    older = np.maximum(0, np.array(seen)[:, None] - first)
    count = older + length - far
    keys = np.arange(count.max())
    keys = np.where(keys < older, first + keys, far - older + keys)
    each = zip(rows, np.minimum(keys, length - 1), strict=True)
    slots = np.stack([pages.slots(row, positions) for row, positions in each])
    newest = length - queries + np.arange(queries)
    visible = keys[:, None, :] <= newest[:, :, None]
    if window:
        visible &= keys[:, None, :] > newest[:, :, None] - window
    mask = torch.from_numpy(visible[:, None]).to(device)
    if queries == 1:  # Small enough to be made a sum once for all layers.
        mask = torch.zeros(mask.shape, device=device).masked_fill(~mask, UNSEEN)
    return _Gathered(torch.from_numpy(slots).to(device), mask)
