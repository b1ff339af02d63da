"""One step of vLLM's batch: which requests attend to the pool, and what is prepared for all layers.

No line here knows a platform: vLLM's metadata and caches come as tensors.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nearkv.core import Error, Pool
from nearkv.far import FarAttention
from nearkv.near import attend_here, merge
from nearkv.vllm.far_pages import FarPages, Row, StoredSequence
from nearkv.vllm.kv_rows import KVRows


@dataclass(frozen=True)
class LayerShape:
    """How a layer attends."""

    number: int
    """Of the pool's layers."""
    scale: float
    soft_cap: float
    """0: none."""
    sliding_window: int
    """0: none."""


@dataclass
class _Batch:
    """Rows with as many queries each, which attend together."""

    rows: list[Row]
    seen: list[int]
    """By row: the first token of the pool that is visible, to all of its queries."""
    tokens: torch.Tensor
    """Of the step's tokens: which are theirs, row by row."""
    slots: torch.Tensor
    """[rows, keys]: what is attended to here, padded."""
    mask: torch.Tensor
    """[rows, 1, queries, keys]: True where a query sees a key."""


@dataclass
class Part:
    """Requests of a step that see nothing of the pool."""

    metadata: Any
    """The engine's own, for these alone."""
    tokens: torch.Tensor
    """Of the step's tokens: which are theirs."""


@dataclass
class _Plan:
    """What layers with one sliding window do."""

    batches: list[_Batch]
    part: Part | None


@dataclass
class FarStep:
    """The rows of a step, and the pool that some of their tokens are in."""

    pages: FarPages
    far: FarAttention
    rows: list[Row]
    starts: list[int]
    """By request of the batch, and one more: where its queries begin."""
    device: torch.device
    is_verified: bool
    """Whether something else than vLLM's model writes blocks too: contents are then compared."""
    metadata_of: Callable[[list[int], torch.Tensor], Any]
    """Makes the engine's own metadata of some of the requests, whose tokens these are."""
    _plans: dict[int, _Plan] = field(default_factory=dict)

    @property
    def pool(self) -> Pool:
        """Where the pages are."""
        return self.pages.pool

    def part(self, window: int) -> Part | None:
        """Requests that attend to nothing in the pool, beside others that do."""
        return self._plan(window).part

    def is_far(self, window: int) -> bool:
        """Whether any request attends to the pool in layers of this sliding window."""
        return bool(self._plan(window).batches)

    def verify(self, layer: LayerShape, cache: torch.Tensor, reader: KVRows) -> None:
        """Forgets sequences whose tokens are not those that vLLM's blocks hold now."""
        for row in list(self.rows) if self.is_verified else ():
            sequence = row.sequence
            if sequence is None:
                continue
            positions = np.arange(max(row.begin, sequence.base), row.far)
            now = reader.sample(cache, self._slots(row, positions).to(self.device))
            if not np.array_equal(now, sequence.samples[layer.number][positions]):
                self._forget([sequence], "vLLM's blocks hold other tokens now")

    def attend(
        self,
        layer: LayerShape,
        query: torch.Tensor,
        output: torch.Tensor,
        cache: torch.Tensor,
        reader: KVRows,
    ) -> None:
        """Attention of the rows that see something of the pool; query, output [tokens, heads, dim].

        Where the pool has no good answer, its rows see nothing of it from then on.
        """
        batches = list(self._plan(layer.sliding_window).batches)
        for batch in batches:
            try:
                self._attend_batch(layer, batch, query, output, cache, reader)
            except Error as error:
                self._forget([row.sequence for row in batch.rows], error)

    def _attend_batch(
        self,
        layer: LayerShape,
        batch: _Batch,
        query: torch.Tensor,
        output: torch.Tensor,
        cache: torch.Tensor,
        reader: KVRows,
    ) -> None:
        keys, values = reader.read(cache, batch.slots)
        count, kv_heads, dim = len(batch.rows), keys.shape[2], keys.shape[3]
        grouped = query[batch.tokens].view(count, -1, kv_heads, query.shape[1] // kv_heads, dim)
        grouped = grouped.permute(0, 2, 3, 1, 4)
        near = attend_here(
            grouped,
            keys.transpose(1, 2),
            values.transpose(1, 2),
            batch.mask,
            layer.scale,
            layer.soft_cap,
        )
        merged = merge(near, self._attend_far(layer, batch, grouped))
        merged = merged.permute(0, 3, 1, 2, 4).flatten(2, 3).flatten(0, 1)
        output[batch.tokens] = merged.to(output.dtype)

    def store(self, layer: LayerShape, cache: torch.Tensor, reader: KVRows) -> None:
        """Moves the pages that closed in a layer to the pool."""
        dtype = {0: torch.bfloat16, 1: torch.float16}[self.pool.dtype]

        def read(slots: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
            where = torch.from_numpy(slots).to(self.device)
            rows = [part.transpose(0, 1).to("cpu", dtype) for part in reader.read(cache, where)]
            kept = reader.sample(cache, where) if self.is_verified else np.zeros(0, np.int32)
            return rows[0], rows[1], kept

        for row in self.rows:
            stored = row.sequence
            self.pages.store(row, layer.number, read)
            if row.sequence is not stored:  # The pool is full: later layers attend here.
                self._plans.clear()

    def _attend_far(
        self, layer: LayerShape, batch: _Batch, query: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) in fp32 of query [rows, kv_heads, group, queries, dim] over the pool."""
        calls: dict[tuple[int, int], list[int]] = {}
        for index, (row, seen) in enumerate(zip(batch.rows, batch.seen, strict=True)):
            sequence = row.sequence
            whole = sequence.stored[layer.number] == row.far
            tokens = 0 if whole else row.far - sequence.base
            window = 0 if seen == sequence.base else row.far - seen
            calls.setdefault((tokens, window), []).append(index)
        rows = query.flatten(2, 3).contiguous().cpu()
        output = rows.new_empty(*rows.shape[:3], self.pool.value_dim, dtype=torch.float32)
        lse = rows.new_empty(rows.shape[:3], dtype=torch.float32)
        for (tokens, window), which in calls.items():
            part = self.pool.attend(
                [batch.rows[index].sequence.number for index in which],
                layer.number,
                rows[which],
                scale=layer.scale,
                soft_cap=layer.soft_cap,
                tokens=tokens,
                window=window,
                **self.far.options(),
            )
            output[which], lse[which] = map(torch.from_numpy, part)
            self.pages.counts.attended_rows += len(which)
        shape = query.shape[:-1]
        return output.view(*shape, -1).to(query.device), lse.view(shape).to(query.device)

    def _forget(self, sequences: list[StoredSequence], why: Error | str) -> None:
        """Goes on as if these had never been stored."""
        for sequence in sequences:
            self.pages.discard(sequence, why)
        for row in self.rows:
            if row.sequence in sequences:
                row.sequence = None
        self._plans.clear()

    def _plan(self, window: int) -> _Plan:
        if window not in self._plans:
            self._plans[window] = self._make_plan(window)
        return self._plans[window]

    def _make_plan(self, window: int) -> _Plan:
        by_count: dict[tuple[int, int], list[tuple[Row, int]]] = {}
        for row in self.rows:
            if row.sequence is None:
                continue
            seen = max(row.length - window if window else 0, row.sequence.base)
            if row.far > seen:
                # Prompts attend one by one: their queries are many.
                alone = row.number if row.queries > 1 else -1
                by_count.setdefault((row.queries, alone), []).append((row, seen))
        batches = [self._batch(group, window) for group in by_count.values()]
        far = {row.number for batch in batches for row in batch.rows}
        others = [
            number
            for number in range(len(self.starts) - 1)
            if number not in far and self.starts[number + 1] > self.starts[number]
        ]
        part = None
        if batches and others:
            tokens = self._tokens_of(others)
            part = Part(self.metadata_of(others, tokens), tokens)
        return _Plan(batches, part)

    def _batch(self, group: list[tuple[Row, int]], window: int) -> _Batch:
        positions = [_positions_here(row, seen, window) for row, seen in group]
        longest = max(map(len, positions))
        rows = [row for row, _ in group]
        slots = torch.zeros(len(rows), longest, dtype=torch.int64)
        mask = torch.zeros(len(rows), 1, rows[0].queries, longest, dtype=torch.bool)
        for index, (row, keys) in enumerate(zip(rows, positions, strict=True)):
            slots[index, : len(keys)] = self._slots(row, keys)
            queries = np.arange(row.length - row.queries, row.length)[:, None]
            visible = keys <= queries
            if window:
                visible &= keys > queries - window
            mask[index, 0, :, : len(keys)] = torch.from_numpy(visible)
        return _Batch(
            rows,
            [seen for _, seen in group],
            self._tokens_of([row.number for row in rows]),
            slots.to(self.device),
            mask.to(self.device),
        )

    def _tokens_of(self, rows: list[int]) -> torch.Tensor:
        ranges = [torch.arange(self.starts[row], self.starts[row + 1]) for row in rows]
        return torch.cat(ranges).to(self.device)

    def _slots(self, row: Row, positions: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(self.pages.slots(row, positions))


def _positions_here(row: Row, seen: int, window: int) -> np.ndarray:
    """What a row attends to here: what follows the pool's part, and what not all queries see."""
    newest = np.arange(row.far, row.length)
    if not window:
        return newest
    first = max(0, row.length - row.queries - window + 1)
    return np.concatenate([np.arange(first, seen), newest]) if first < seen else newest
