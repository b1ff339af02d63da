"""One ATTEND or TOPK to the first queries of a set, to be timed, counted and compared."""

from collections.abc import Callable
from typing import Any

import numpy

from bench.data import KvSet
from nearkv.core import Pool


class AttendCall:
    """One ATTEND; `options` are those of `Pool.attend`. Its last result is kept."""

    def __init__(self, pool: Pool, kv: KvSet, **options: Any) -> None:
        self._pool, self._kv, self._options = pool, kv, options

    def __call__(self) -> "AttendCall":
        self.output, self.lse = self._pool.attend(
            1, 0, self._kv.queries[:1], scale=self._kv.scale, **self._options
        )
        return self

    def near_bytes(self) -> int:
        """Bytes that one call reads near the data."""
        return _near_bytes(self._pool, self)


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
