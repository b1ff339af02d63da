"""What a decoding step of each method costs near the data, over the link, and in time.

Commands of a step are run on a pool that holds a task's tokens, with as many tokens to read as the
method keeps; which ones they are makes no difference to dense reads, and little to others.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from bench.kept.attention import NAMED
from bench.kept.measure import Dense
from bench.kept.methods import Method
from nearkv.core import MAX_TOP_K, PAGE_TOKENS, AttendMode, Device, Pool
from nearkv.demo.runs import with_memory

_REPEATS = 3


@dataclass(frozen=True)
class Cost:
    """Of one decoding step, over all layers and heads."""

    near_bytes: int
    """Read near the data."""
    link_bytes: int
    """Commands, queries and results."""
    moved_bytes: int
    """What would cross the link if the host attended: K and V of the tokens read, in bf16."""
    seconds: float
    """Of the commands on this device, one after the other."""


class CostMeter:
    """A pool with a task's tokens, and the last query of its prompt in each layer."""

    def __init__(self, dense: Dense, device: str) -> None:
        cached = [dense.cache.layers[number] for number in dense.budgeted.layers]
        layers = [dense.budgeted.layout.to_pool(one.keys[0], one.values[0]) for one in cached]
        tokens = layers[0][0].shape[1]
        self._tokens = tokens // PAGE_TOKENS * PAGE_TOKENS
        self._row_bytes = 2 * sum(
            part.shape[0] * part.shape[2] for rows in layers for part in rows if part is not None
        )
        self._queries = [query.bfloat16().contiguous() for query in dense.watcher.queries]
        self._group = self._queries[0].shape[1]
        self._scale = self._queries[0].shape[2] ** -0.5
        self._pool = Pool.create(
            Device(with_memory(dense.model.config, device, tokens)),
            layers=len(layers),
            **dense.budgeted.rows,
        )
        self._pool.create_sequence(1)
        for index, rows in enumerate(layers):
            whole = [None if part is None else self._whole_pages(part) for part in rows]
            self._pool.append(1, index, *whole)

    def of(self, method: Method | None, budget: float) -> Cost:
        """Without a method: dense attention to all. Of a method that has commands."""
        kept = max(1, round(budget * self._tokens))
        most = min(MAX_TOP_K, max(1, round(budget * self._tokens / self._group)))

        def step() -> None:
            for layer in range(len(self._queries)):
                if method is None:
                    self._attend(layer)
                elif method.select is None:
                    self._attend(layer, tokens=kept)
                    if method.undo:
                        self._attend(layer, mode=AttendMode.TAIL, top_k=1)
                    if method.learns:
                        self._top_k(layer, NAMED, tokens=0 if method.undo else kept)
                elif method.undo:
                    self._attend(layer, mode=AttendMode.TAIL, top_k=most)
                else:
                    self._top_k(layer, most)
                    self._attend(layer, tokens=kept)

        return self._measure(step, self._tokens if method is None else kept)

    def _attend(self, layer: int, **options: int) -> None:
        self._pool.attend(1, layer, self._queries[layer], scale=self._scale, **options)

    def _top_k(self, layer: int, k: int, **options: int) -> None:
        for head, rows in enumerate(self._queries[layer]):
            self._pool.top_k(1, layer, head, rows, k, scale=self._scale, **options)

    def _measure(self, step: Callable[[], None], tokens: int) -> Cost:
        step()
        self._pool.reset_stats()
        seconds = []
        for _ in range(_REPEATS):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        stats = self._pool.stats()
        link_bytes = stats.link_to_device_bytes + stats.link_from_device_bytes
        return Cost(
            stats.near_bytes // _REPEATS,
            link_bytes // _REPEATS,
            tokens * self._row_bytes,
            median(seconds),
        )

    def _whole_pages(self, rows: torch.Tensor) -> torch.Tensor:
        return rows[:, : self._tokens].bfloat16().contiguous()
