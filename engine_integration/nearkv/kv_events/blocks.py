"""Which KV blocks a store holds, and what changes about that."""

import dataclasses
from collections.abc import Callable

from nearkv.core import Error
from nearkv.kv_events.wire import BlockHash
from nearkv.store import NamespaceInfo, ObjectStore, StoreEventKind

_KEPT_EVENTS = 65536


@dataclasses.dataclass
class BlockChanges:
    """What happened since the last look: first `cleared`, then `removed`, then `stored`."""

    cleared: bool = False
    removed: list[BlockHash] = dataclasses.field(default_factory=list)
    stored: list[BlockHash] = dataclasses.field(default_factory=list)


class StoredBlocks:
    """Blocks of chosen namespaces of a store, by the hashes that routers know them by.

    A block is held while any of the namespaces has it. When changes were missed, or the store's
    daemon was away, all is cleared and what is there is told again. Objects with keys of more than
    32 bytes are left out: a store keeps no more of them than a digest.
    """

    def __init__(
        self,
        store: ObjectStore,
        chosen: Callable[[NamespaceInfo], bool],
        hash_of: Callable[[bytes], BlockHash],
    ) -> None:
        """nearkv.core.Error DENIED if a daemon does not let this user see what it holds."""
        self._store = store
        self._chosen = chosen
        self._hash_of = hash_of
        self._namespaces: dict[int, bool] = {}
        self._holders: dict[BlockHash, set[int]] = {}
        self._is_listed = False
        self.others: list[str] = []
        """Tenants and names of what the store has, while none of it is chosen."""
        store.verify(0, 1)  # An administrator's call, which says so where the others are silent.
        store.watch(_KEPT_EVENTS)

    @property
    def held(self) -> list[BlockHash]:
        """All that was told as stored, and not as removed since."""
        return list(self._holders)

    def poll(self) -> BlockChanges:
        """What changed since the last call; at the first, all that is there."""
        events, missed = self._store.take_events()
        if not self._answers():
            changes = BlockChanges(cleared=bool(self._holders))
            self._holders.clear()
            self._is_listed = False
            return changes
        if missed or not self._is_listed:
            return self._list()
        # A block may come and go and come again.
        before: dict[BlockHash, bool] = {}
        for event in events:
            if event.key_is_digest or not self._is_chosen(event.namespace_number):
                continue
            block = self._hash_of(event.key)
            before.setdefault(block, block in self._holders)
            if event.kind == StoreEventKind.STORED:
                self._holders.setdefault(block, set()).add(event.namespace_number)
            else:
                self._drop(block, event.namespace_number)
        return BlockChanges(
            removed=[block for block, was in before.items() if was and block not in self._holders],
            stored=[block for block, was in before.items() if not was and block in self._holders],
        )

    def _answers(self) -> bool:
        try:
            self._store.verify(0, 1)
        except Error:
            return False
        return True

    def _list(self) -> BlockChanges:
        self._namespaces.clear()
        self._holders.clear()
        for info in self._store.objects():
            if not info.key_is_digest and self._is_chosen(info.namespace_number):
                block = self._hash_of(info.key)
                self._holders.setdefault(block, set()).add(info.namespace_number)
        self._is_listed = True
        return BlockChanges(cleared=True, stored=self.held)

    def _is_chosen(self, number: int) -> bool:
        if number not in self._namespaces:
            infos = self._store.namespaces()
            self._namespaces = {info.number: self._chosen(info) for info in infos}
            fits = any(self._namespaces.values())
            others = {f"tenant {each.tenant}: {each.text}" for each in infos}
            self.others = [] if fits else sorted(others)
        return self._namespaces.get(number, False)

    def _drop(self, block: BlockHash, number: int) -> None:
        holders = self._holders.get(block, set())
        holders.discard(number)
        if not holders:
            self._holders.pop(block, None)
