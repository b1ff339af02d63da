"""Leases by the keys that they were promised for."""

from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from nearkv.core import Error
from nearkv.store import Lease


@dataclass
class _Shared:
    lease: Lease
    keys_left: int


class Leases:
    """A lease ends when each of its keys was unlocked as often as it was promised.

    Not safe for threads.
    """

    def __init__(self) -> None:
        """None yet."""
        self._by_key: dict[Hashable, list[_Shared]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._by_key

    def add(self, lease: Lease, keys: Iterable[Hashable]) -> None:
        """Promises keys; a lease without any ends here."""
        promised = list(keys)
        shared = _Shared(lease, len(promised))
        for key in promised:
            self._by_key.setdefault(key, []).append(shared)
        if not promised:
            lease.unpin()

    def unlock(self, keys: Iterable[Hashable]) -> None:
        """Takes one promise of each key back; keys without one are left alone."""
        for key in keys:
            if not (promises := self._by_key.get(key)):
                continue
            shared = promises.pop()
            if not promises:
                del self._by_key[key]
            shared.keys_left -= 1
            if shared.keys_left == 0:
                # With its daemon a lease has gone too.
                with suppress(Error):
                    shared.lease.unpin()
