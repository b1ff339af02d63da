"""What was told last, and no more than fits."""

import threading
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
MOST_BLOCKS = 1 << 20


class Latest(Generic[_K, _V]):
    """A dictionary that forgets what was put in longest ago. Thread safety: from any thread."""

    def __init__(self, most: int = MOST_BLOCKS) -> None:
        """Keeps at most so many."""
        self._kept: dict[_K, _V] = {}
        self._most = most
        self._putting = threading.Lock()

    def get(self, key: _K) -> _V | None:
        """None if it is not there, or not any more."""
        return self._kept.get(key)

    def put(self, key: _K, value: _V) -> None:
        """Also if the key is there."""
        with self._putting:
            self._kept.pop(key, None)
            self._kept[key] = value
            if len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
