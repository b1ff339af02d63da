"""Times calls in turns."""

import time
from collections.abc import Callable, Sequence

from nearkv.results import Samples

# OpenMP's threads keep spinning for a while after their work, on the next call's cores.
_PAUSE_S = 0.01


def interleave(calls: Sequence[Callable[[], object]], *, repeat: int = 7) -> list[Samples]:
    """Times each call `repeat` times, in turn (A B C A B C), and gives their seconds.

    Taking turns makes a drift of the machine fall on all alike; a pause before each turn keeps
    them apart. In its turn a call is made twice and the second one timed: as in a loop that makes
    it all the time, with its threads awake.
    """
    if repeat < 1:
        raise ValueError("interleave: repeat must be at least 1")
    readings: list[list[float]] = [[] for _ in calls]
    for _ in range(repeat):
        for call, seconds in zip(calls, readings, strict=True):
            time.sleep(_PAUSE_S)
            call()
            start_ns = time.perf_counter_ns()
            call()
            elapsed_ns = time.perf_counter_ns() - start_ns
            seconds.append(max(elapsed_ns, 1) * 1e-9)
    return [Samples(tuple(seconds)) for seconds in readings]
