"""One ATTEND or TOPK to the first queries of a set, to be timed, counted and compared."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from bench.data import KvSet
from bench.real.captures import LayerCapture
from nearkv.core import Pool


class AttendCall:
    """One ATTEND; `options` are those of `Pool.attend`. Its last result is kept."""

    def __init__(self, pool: Pool, kv: KvSet, **options: Any) -> None:
        self._pool, self._kv, self._options = pool, kv, options
        self.bounds = numpy.zeros(kv.queries.shape[1], numpy.float32)

    def __call__(self) -> "AttendCall":
        self.output, self.lse = self._pool.attend(
            1, 0, self._kv.queries[:1], scale=self._kv.scale, bound=self.bounds, **self._options
        )
        return self

    def near_bytes(self) -> int:
        """Bytes that one call reads near the data."""
        return _near_bytes(self._pool, self)


class LayersCall:
    """One ATTEND to each of some captured layers, of the last query, as a model's step has them."""

    def __init__(
        self, pools: Sequence[Pool], captures: Sequence[LayerCapture], **options: Any
    ) -> None:
        self._pools, self._captures, self._options = pools, captures, options
        pairs = captures[0].queries[-1].numel() // captures[0].queries.shape[-1]
        self.bounds = numpy.zeros((len(pools), pairs), numpy.float32)

    def __call__(self) -> "LayersCall":
        outputs = [
            pool.attend(1, 0, own.queries[-1], scale=own.scale, bound=bound, **self._options)[0]
            for pool, own, bound in zip(self._pools, self._captures, self.bounds, strict=True)
        ]
        self.output = numpy.stack(outputs)
        return self

    def near_bytes(self) -> int:
        """Bytes that one call reads near the data."""
        for pool in self._pools:
            pool.reset_stats()
        self()
        return sum(pool.stats().near_bytes for pool in self._pools)


class Search:
    """One TOPK; `options` are those of `Pool.top_k`. Its last result is kept."""

    def __init__(self, pool: Pool, kv: KvSet, top_k: int, **options: Any) -> None:
        self._pool, self._kv, self._top_k, self._options = pool, kv, top_k, options

    def __call__(self) -> "Search":
        self.ids, _, _ = self._pool.top_k(
            1, 0, 0, self._kv.queries[0], self._top_k, scale=self._kv.scale, **self._options
        )
        return self

    def near_bytes(self) -> int:
        """Bytes that one call reads near the data."""
        return _near_bytes(self._pool, self)


def relative_errors(output: numpy.ndarray, exact: numpy.ndarray) -> list[float]:
    """Of each query row, beside its own size."""
    apart = numpy.linalg.norm(output - exact, axis=-1)
    return (apart / numpy.linalg.norm(exact, axis=-1)).ravel().tolist()


def recall(ids: numpy.ndarray, exact: numpy.ndarray) -> float:
    """Of the exact ids, the share that was found."""
    found = [len(set(row) & set(true)) for row, true in zip(ids, exact, strict=True)]
    return sum(found) / exact.size


def _near_bytes(pool: Pool, call: Callable[[], object]) -> int:
    pool.reset_stats()
    call()
    return pool.stats().near_bytes
