"""Ways to do the same work that take turns, so that what disturbs a machine disturbs them alike."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.contender import Contender
from nearkv.results import Samples


@dataclass(frozen=True)
class Way:
    """A worker and the name that it knows a way by: its order is `turn {"way", "count"}`."""

    worker: Contender
    name: str


def take_turns(
    ways: Sequence[Way], turns: int, count: int, pause_s: float = 0
) -> dict[Way, Samples]:
    """Seconds of each call, of which a turn has `count`. Every other turn goes backwards.

    Between two workers it waits for `pause_s`, in which threads of the one may still spin on cores
    that the other needs.
    """
    seconds: dict[Way, list[float]] = {way: [] for way in ways}
    before = ways[0].worker
    for turn in range(turns):
        for way in ways if turn % 2 == 0 else reversed(ways):
            if way.worker is not before:
                time.sleep(pause_s)
            before = way.worker
            order = {"way": way.name, "count": count}
            seconds[way] += way.worker.order(f"turn {json.dumps(order)}")["seconds"]
    return {way: Samples(tuple(some)) for way, some in seconds.items()}
