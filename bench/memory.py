"""Measures how fast the memory streams reads and copies, on one and on two threads.

A copy of n bytes counts 2 n: n read and n written. The peer of two threads is one thread,
timed in turns with it. numpy does the work.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bench import Context
from bench.timing import interleave
from nearkv.results import Result, Samples

_BUFFER_BYTES = 1 << 29  # well past any last-level cache


def run(context: Context) -> Iterator[Result]:
    """Yields read and copy bandwidth in GB/s."""
    repeat = 51 if context.long else 9
    source = np.ones(_BUFFER_BYTES // 8, dtype=np.float64)
    target = np.zeros_like(source)
    halves = [slice(0, source.size // 2), slice(source.size // 2, source.size)]
    everything = [slice(0, source.size)]

    def read(part: slice) -> None:
        source[part].sum()

    def copy(part: slice) -> None:
        np.copyto(target[part], source[part])

    with ThreadPoolExecutor(2) as pool:
        for name, work, bytes_moved in (
            ("read", read, source.nbytes),
            ("copy", copy, 2 * source.nbytes),
        ):
            context.progress(f"{name}, 1 and 2 threads, {repeat} times")
            calls = [_on_threads(pool, work, parts) for parts in (everything, halves)]
            one, two = (
                samples.per_second(bytes_moved / 1e9)
                for samples in interleave(calls, repeat=repeat)
            )
            yield _result(f"memory/{name}_1_thread", one)
            yield _result(f"memory/{name}_2_threads", two, peer="1 thread", beside=one)


def _on_threads(
    pool: ThreadPoolExecutor, work: Callable[[slice], None], parts: list[slice]
) -> Callable[[], None]:
    def call() -> None:
        for done in [pool.submit(work, part) for part in parts]:
            done.result()

    return call


def _result(name: str, samples: Samples, **peer: object) -> Result:
    extra = {"buffer_bytes": _BUFFER_BYTES, "processors": os.cpu_count()}
    return Result.of_samples(name, samples, "GB/s", device="host", extra=extra, **peer)
