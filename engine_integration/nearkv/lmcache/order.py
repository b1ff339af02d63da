"""Which chunk follows which: LMCache's stores do not say, but its lookups name whole prompts."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

_MOST_CHUNKS = 65536


class ChunkOrder:
    """The chunk before each of the last ones that were named in their order.

    Thread safety: all calls.
    """

    def __init__(self) -> None:
        """Knows of none yet."""
        self._lock = threading.Lock()
        self._before: OrderedDict[bytes, bytes] = OrderedDict()

    def learn(self, names: Sequence[bytes]) -> None:
        """Chunks of one prompt, in their order. What was known before counts."""
        with self._lock:
            if names:
                self._before.setdefault(names[0], b"")
            for before, name in pairwise(names):
                self._before.setdefault(name, before)
            while len(self._before) > _MOST_CHUNKS:
                self._before.popitem(last=False)

    def runs(self, names: Sequence[bytes]) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """Places of names that are stored by one job, each with what its set is to be told."""
        with self._lock:
            known = [self._before.get(name) for name in names]
        options: dict[str, Any] | None = None
        places: list[int] = []
        for place, before in enumerate(known):
            follows = place > 0 and before == (names[place - 1] if options else None)
            if places and not follows:
                yield options or {}, places
                places = []
            if not places:
                options = {} if before is None else {"chain": True, "parent": before}
            places.append(place)
        if places:
            yield options or {}, places
