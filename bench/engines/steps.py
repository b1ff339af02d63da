"""What workers measure: steps, a turn at a time, and memory."""

import os
import time
from collections.abc import Callable
from pathlib import Path

_READ_BYTES = 1 << 29


def seconds_of_turn(count: int, step: Callable[[], object]) -> list[float]:
    """Takes `count` steps, and tells the seconds of each but the first.

    In the first one threads wake up, and caches hold what another way or engine has read.
    """
    step()
    return [_seconds(step) for _ in range(count - 1)]


def plain_read_gb_per_s() -> float:
    """The best of some sums by torch's threads, over more memory than any cache has."""
    import torch

    memory = torch.ones(_READ_BYTES // 8, dtype=torch.int64)
    return _READ_BYTES / min(_seconds(memory.sum) for _ in range(9)) / 1e9


def resident_bytes() -> int:
    """Of this process, in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _seconds(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s
