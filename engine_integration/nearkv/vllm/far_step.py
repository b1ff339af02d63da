"""One step of vLLM's batch: which requests attend to the pool, and what is prepared for all layers.

No line here knows a platform: vLLM's metadata and caches come as tensors.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from nearkv.core import Error, Pool
from nearkv.far import FarAttention
from nearkv.near import merge
from nearkv.vllm.far_pages import FarPages, Row, StoredSequence
from nearkv.vllm.kv_rows import KVRows
from nearkv.vllm.near_tokens import NearTokens
from nearkv.vllm.some_requests import SomeRequests


@dataclass(frozen=True)
class LayerAttention:
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
    tokens: slice | torch.Tensor
    """Of the step's tokens: which are theirs, row by row."""
    near: NearTokens


@dataclass
class _Check:
    """What is compared in each layer."""

    of: object
    """The reader and shape of the caches that it is for."""
    rows: list[Row]
    ranges: list[tuple[int, int, int]]
    """By row: its first position, and from where to where its elements are among all."""
    elements: torch.Tensor


@dataclass
class _WindowPlan:
    """What layers with one sliding window do."""

    batches: list[_Batch]
    part: SomeRequests | None


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
    requests_of: Callable[[list[int]], SomeRequests]
    """Some of the step's requests, for the engine's own attention."""
    _plans: dict[int, _WindowPlan] = field(default_factory=dict)
    _check: _Check | None = None

    @property
    def pool(self) -> Pool:
        """Where the pages are."""
        return self.pages.pool

    def part(self, window: int) -> SomeRequests | None:
        """Requests that attend to nothing in the pool, beside others that do."""
        return self._plan(window).part

    def is_far(self, window: int) -> bool:
        """Whether any request attends to the pool in layers of this sliding window."""
        return bool(self._plan(window).batches)

    def verify(self, layer: LayerAttention, cache: torch.Tensor, reader: KVRows) -> None:
        """Forgets sequences whose tokens are not those that vLLM's blocks hold now."""
        if not self.is_verified:
            return
        shape = reader, cache.stride()
        if self._check is None or self._check.of != shape:
            self._check = self._make_check(cache, reader)
        now = reader.sample(cache, self._check.elements)
        parts = zip(self._check.rows, self._check.ranges, strict=True)
        other = {
            row.sequence
            for row, (first, begin, end) in parts
            if not np.array_equal(
                now[begin:end], row.sequence.samples[layer.number][first : row.far]
            )
        }
        if other:
            self._forget(other, "vLLM's blocks hold other tokens now")

    def attend(
        self,
        layer: LayerAttention,
        query: torch.Tensor,
        output: torch.Tensor,
        cache: torch.Tensor,
        reader: KVRows,
    ) -> None:
        """Attention of the rows that see something of the pool; query, output [tokens, heads, dim].

        A row for which the pool has no good answer sees nothing of it from then on.
        """
        while True:
            for batch in self._plan(layer.sliding_window).batches:
                try:
                    self._attend_batch(layer, batch, query, output, cache, reader)
                except Error:
                    break  # What failed is forgotten: the plan is another one now.
            else:
                return

    def _attend_batch(
        self,
        layer: LayerAttention,
        batch: _Batch,
        query: torch.Tensor,
        output: torch.Tensor,
        cache: torch.Tensor,
        reader: KVRows,
    ) -> None:
        mine = query[batch.tokens]
        near = batch.near.attend(layer, mine, cache, reader)
        count, kv_heads = len(batch.rows), cache.shape[1]
        grouped = mine.view(count, -1, kv_heads, query.shape[1] // kv_heads, query.shape[2])
        grouped = grouped.permute(0, 2, 3, 1, 4)
        merged, _ = merge(near, self._attend_far(layer, batch, grouped))
        merged = merged.permute(0, 3, 1, 2, 4).flatten(2, 3).flatten(0, 1)
        output[batch.tokens] = merged.to(output.dtype)

    def store(
        self, layer: LayerAttention, query: torch.Tensor, cache: torch.Tensor, reader: KVRows
    ) -> None:
        """Moves the pages that closed in a layer to the pool, after the attention of `query`."""
        self._learn(layer.number, query)
        due = [row for row in self.rows if self.pages.is_due(row, layer.number)]
        if not due:
            return
        dtype = {0: torch.bfloat16, 1: torch.float16}[self.pool.dtype]

        def read(slots: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
            where = torch.from_numpy(slots).to(self.device)
            rows = reader.read(cache, reader.places(cache, where))
            rows = [part.transpose(0, 1).to("cpu", dtype) for part in rows]
            if not self.is_verified:
                return rows[0], rows[1], np.zeros(0, np.int32)
            kept = reader.sample(cache, reader.sampled(cache, where))
            return rows[0], rows[1], kept

        for row in due:
            stored = row.sequence
            self.pages.store(row, layer.number, read)
            if row.sequence is not stored:  # The pool is full: later layers attend here.
                self._prepare_again()

    def _learn(self, layer: int, query: torch.Tensor) -> None:
        """Tells a pool with codes of the step's queries [tokens, heads, dim]."""
        if self.pages.learner.wants(layer):
            tokens = self.starts[-1]
            rows = query[:tokens].unflatten(1, (self.pool.kv_heads, -1)).transpose(0, 1)
            self.pages.learner.note(layer, rows.flatten(1, 2), tokens)

    def _attend_far(
        self, layer: LayerAttention, batch: _Batch, query: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) in fp32 of query [rows, kv_heads, group, queries, dim] over the pool.

        Forgets the sequences that the pool cannot answer for, and raises its error.
        """
        calls: dict[tuple[int, int], list[int]] = {}
        for index, (row, seen) in enumerate(zip(batch.rows, batch.seen, strict=True)):
            sequence = row.sequence
            whole = sequence.stored[layer.number] == row.far
            tokens = 0 if whole else row.far - sequence.base
            window = 0 if seen == sequence.base else row.far - seen
            calls.setdefault((tokens, window), []).append(index)
        rows = query.flatten(2, 3).contiguous().cpu()
        parts = []
        for (tokens, window), which in calls.items():
            asking = [batch.rows[index] for index in which]
            try:
                part = self.pool.attend(
                    [row.sequence.number for row in asking],
                    layer.number,
                    rows if len(calls) == 1 else rows[which],
                    scale=layer.scale,
                    soft_cap=layer.soft_cap,
                    tokens=tokens,
                    window=window,
                    **self.far.options(),
                )
            except Error as error:
                each = zip(asking, error.statuses, strict=True)
                self._forget({row.sequence for row, status in each if status}, error)
                raise
            parts.append([torch.from_numpy(array) for array in part])
            self.pages.counts.attended_rows += len(which)
        output, lse = parts[0]
        if len(parts) > 1:
            order = torch.tensor([index for which in calls.values() for index in which]).argsort()
            output, lse = (torch.cat(part)[order] for part in zip(*parts, strict=True))
        shape = query.shape[:-1]
        return output.view(*shape, -1).to(query.device), lse.view(shape).to(query.device)

    def _forget(self, sequences: set[StoredSequence], why: Error | str) -> None:
        """Goes on as if these had never been stored."""
        for sequence in sequences:
            self.pages.discard(sequence, why)
        for row in self.rows:
            if row.sequence in sequences:
                row.sequence = None
        self._prepare_again()

    def _prepare_again(self) -> None:
        self._plans.clear()
        self._check = None

    def _make_check(self, cache: torch.Tensor, reader: KVRows) -> _Check:
        rows = [row for row in self.rows if row.sequence is not None]
        firsts = [max(row.begin, row.sequence.base) for row in rows]
        slots = [
            self.pages.slots(row, np.arange(first, row.far))
            for row, first in zip(rows, firsts, strict=True)
        ]
        ends = np.cumsum([0, *map(len, slots)]).tolist()
        ranges = list(zip(firsts, ends, ends[1:], strict=False))
        every = torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *slots])).to(self.device)
        return _Check((reader, cache.stride()), rows, ranges, reader.sampled(cache, every))

    def _plan(self, window: int) -> _WindowPlan:
        if window not in self._plans:
            self._plans[window] = self._make_plan(window)
        return self._plans[window]

    def _make_plan(self, window: int) -> _WindowPlan:
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
            part = self.requests_of(others)
        return _WindowPlan(batches, part)

    def _batch(self, group: list[tuple[Row, int]], window: int) -> _Batch:
        rows, seen = ([*part] for part in zip(*group, strict=True))
        tokens = self._tokens_of([row.number for row in rows])
        return _Batch(rows, seen, tokens, NearTokens(self.pages, rows, seen, window, self.device))

    def _tokens_of(self, rows: list[int]) -> slice | torch.Tensor:
        if rows == list(range(rows[0], rows[0] + len(rows))):
            return slice(self.starts[rows[0]], self.starts[rows[-1] + 1])
        return self._indices_of(rows)

    def _indices_of(self, rows: list[int]) -> torch.Tensor:
        ranges = [torch.arange(self.starts[row], self.starts[row + 1]) for row in rows]
        return torch.cat(ranges).to(self.device)
