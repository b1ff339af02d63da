"""How often the pages that the next step will select are known before it: speculative prefetch.

Fetched before a step: the pages worth most by heavy_hitters with a decay of 0.5, which is what the
last queries selected. Needed: the pages to which the step's query then attends most.
"""

import numpy as np

from bench.kept.attention import Seen
from bench.kept.measure import Dense
from nearkv.core import PAGE_TOKENS
from nearkv.retention import PrefetchRecord, RetentionPolicy, next_pages

_DECAY = 0.5


def prefetch(dense: Dense, fetched_pages: int, used_pages: int) -> PrefetchRecord:
    """Of all heads, along the long output that dense attention wrote."""
    record = PrefetchRecord()
    for steps in dense.generated_seen:
        heads = len(steps[0][0])
        for head in range(heads):
            policy = RetentionPolicy("heavy_hitters", {"decay": _DECAY})
            policy.append(len(dense.task.prompt))
            for number, (_, seen) in enumerate(steps):
                policy.append(1)
                if number > 0:
                    fetched = next_pages(policy.worth(), PAGE_TOKENS, fetched_pages)
                    record.add(fetched, _used(seen, head, used_pages))
                policy.observe(None, int(seen.positions[0]), seen.ids[head, 0], seen.mass[head, 0])
    return record


def _used(seen: Seen, head: int, pages: int) -> list[int]:
    mass = np.zeros(int(seen.positions[0]) // PAGE_TOKENS + 1)
    np.add.at(mass, seen.ids[head, 0] // PAGE_TOKENS, seen.mass[head, 0])
    return np.argsort(-mass, kind="stable")[:pages].tolist()
