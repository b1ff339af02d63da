"""What LMCache has in a store, as far as the store tells."""

import hashlib
import threading
from collections.abc import Iterable

from lmcache.v1.distributed.api import ObjectKey
from nkv_abi import OBJECT_KEY_BYTES

from nearkv.store import Namespace, ObjectStore, StoreEventKind

_KEPT_EVENTS = 65536
_GONE = (StoreEventKind.EVICTED, StoreEventKind.ERASED, StoreEventKind.DAMAGED)


class Residents:
    """Chunks that were stored or loaded, until the store tells that they are gone.

    Thread safety: all calls.
    """

    def __init__(self, store: ObjectStore) -> None:
        """Listens to the store's events."""
        self._store = store
        self._lock = threading.Lock()
        self._sizes: dict[ObjectKey, int] = {}
        # By namespace and name in events. A namespace is open as long as something is known of it.
        self._keys: dict[tuple[int, bytes], tuple[Namespace, ObjectKey]] = {}
        store.watch(_KEPT_EVENTS)

    def add(self, space: Namespace, key: ObjectKey, size_bytes: int) -> bool:
        """Whether the chunk was not known to be there."""
        with self._lock:
            is_new = key not in self._sizes
            self._sizes[key] = size_bytes
            self._keys[space.number, _name_of(key)] = space, key
        return is_new

    def remove(self, space: Namespace, keys: Iterable[ObjectKey]) -> dict[ObjectKey, int]:
        """Those that were known, with their bytes."""
        with self._lock:
            return {
                key: self._forget(space.number, key)
                for key in dict.fromkeys(keys)
                if key in self._sizes
            }

    def take_gone(self) -> dict[ObjectKey, int]:
        """Those that went since the last call, with their bytes."""
        changes, missed = self._store.take_events()
        names = {
            (change.namespace_number, change.key) for change in changes if change.kind in _GONE
        }
        with self._lock:
            # An object may have come again, and what left one tier of a stack may be in the next.
            suspects: dict[Namespace, list[ObjectKey]] = {}
            for place in list(self._keys) if missed else names:
                if place in self._keys:
                    space, key = self._keys[place]
                    suspects.setdefault(space, []).append(key)
            gone = {}
            for space, keys in suspects.items():
                present = space.present([key.chunk_hash for key in keys])
                for key, is_there in zip(keys, present, strict=True):
                    if not is_there:
                        gone[key] = self._forget(space.number, key)
        return gone

    def _forget(self, number: int, key: ObjectKey) -> int:
        del self._keys[number, _name_of(key)]
        return self._sizes.pop(key)


def _name_of(key: ObjectKey) -> bytes:
    """What the store calls it in events: of long keys it knows no more than a digest."""
    name = key.chunk_hash
    return name if len(name) <= OBJECT_KEY_BYTES else hashlib.sha256(name).digest()
