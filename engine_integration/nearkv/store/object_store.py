"""An object store as a whole: how it is opened, watched and looked after."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Self, TypedDict, Unpack

import _nearkv
from _nearkv import NamespaceInfo, ObjectInfo, ObjectStoreStats, StoreEvent, VerifyProgress

from nearkv.store.jobs import Job, Jobs
from nearkv.store.namespace import Namespace

__all__ = ["ObjectStore"]


class StoreOptions(TypedDict, total=False):
    """How a store is opened.

    `workers`: threads that run jobs. `eviction`: lru or chain_lhd. `patience_s`:
    how long a set waits for leases to free room. `seal_key_file`: a file of 32 random bytes that
    only its owner may read; objects are encrypted with it. `defragment_above`: the share of begun
    slabs that may be lost before objects are moved together; 0: never. `max_objects` 0: one for
    every 64 KiB. The last two are fixed by create().
    """

    workers: int
    eviction: str
    patience_s: float
    seal_key_file: str
    defragment_above: float
    max_objects: int
    max_namespaces: int


class StackOptions(TypedDict, total=False):
    """How tiers work together.

    Above `high_watermark` of a tier's room its coldest objects go down, until `low_watermark` is
    reached. Lately found below `promote_after` times, an object is copied to the top. With
    `write_through` sets go to all tiers at once. `patience_s`: how long a set waits for others to
    go down.
    """

    high_watermark: float
    low_watermark: float
    promote_after: int
    write_through: bool
    patience_s: float
    workers: int


class ObjectStore(AbstractContextManager):
    """Objects of 1 byte to 512 MiB in the memory of a device URI. A context manager.

    Without a PATH in "cpu:PATH?memory=8GiB" nothing survives; in a file all that was acknowledged
    survives the process, on a DAX device loss of power too.
    """

    def __init__(self, core: _nearkv.ObjectStore) -> None:
        """Wraps a store of the extension, however it was opened."""
        self._core = core
        self._jobs = Jobs(core)

    @classmethod
    def create(cls, uri: str, **options: Unpack[StoreOptions]) -> Self:
        """Formats memory; whatever it held is lost."""
        return cls(_nearkv.ObjectStore.create(uri, **options))

    @classmethod
    def open(cls, uri: str, **options: Unpack[StoreOptions]) -> Self:
        """Takes up what create() and earlier work left. Error BAD_POOL if there is nothing."""
        return cls(_nearkv.ObjectStore.open(uri, **options))

    @classmethod
    def open_or_create(cls, uri: str, **options: Unpack[StoreOptions]) -> Self:
        """Takes up the pool that is there, whatever its size; makes one of memory=SIZE otherwise.

        A file that nothing was ever written to counts as none.
        """
        return cls(_nearkv.ObjectStore.open_or_create(uri, **options))

    @classmethod
    def connect(
        cls, socket_path: str, *, window_bytes: int = 1 << 30, patience_s: float = 5
    ) -> Self:
        """A store that a daemon (`nearkv serve`) owns. Error NO_DAEMON if it does not answer.

        `window_bytes` of memory are shared with it, which it takes only as far as it was ever
        filled; half of it bounds the objects whose bytes lie elsewhere. Its restart is waited for
        `patience_s`.
        """
        return cls(
            _nearkv.ObjectStore.connect(
                socket_path, window_bytes=window_bytes, patience_s=patience_s
            )
        )

    @classmethod
    def stack(cls, tiers: Sequence["ObjectStore"], **options: Unpack[StackOptions]) -> Self:
        """Puts stores on top of each other, the fastest first, and makes them one.

        They are closed as stores of their own. ValueError if one of them has jobs in flight, Error
        for options that make no sense: then all stay as they are.
        """
        return cls(_nearkv.ObjectStore.stack([tier._core for tier in tiers], **options))

    def namespace(
        self,
        model: str = "",
        dtype: str = "",
        layout: str = "",
        *,
        tenant: int = 0,
        rank: int = 0,
        group: int = 0,
        salt: bytes = b"",
    ) -> Namespace:
        """Who shares keys; made if it is new. Of the salt only a digest is kept.

        Error NAME_TOO_LONG: model, dtype and layout have 960 bytes together at most.
        NAMESPACES_FULL: each of `max_namespaces` has objects, or is open somewhere.
        """
        arguments = (tenant, model, dtype, layout, rank, group, salt)
        return Namespace(self._core, self._jobs, self._core.open_namespace(*arguments))

    def drain(self) -> list[Job]:
        """Jobs that are over and were not reported otherwise, each once; dropped ones never.

        For loops of one's own that poll event_fd; not beside code that awaits jobs of this store,
        which keeps event_fd quiet.
        """
        return self._jobs.drain()

    @property
    def event_fd(self) -> int:
        """Readable while drain() has something to give."""
        return self._core.event_fd

    def set_quota(self, tenant: int, most_bytes: int) -> None:
        """Most bytes that a tenant's objects may hold; evicts what is over it."""
        self._core.set_quota(tenant, most_bytes)

    def set_wipe(self, tenant: int, wipe: bool) -> None:
        """Whether bytes of a tenant's objects stored from now on are wiped when they go."""
        self._core.set_wipe(tenant, wipe)

    def watch(self, most: int) -> None:
        """From now on keeps the last `most` changes for take_events(); 0: none."""
        self._core.watch(most)

    def take_events(self) -> tuple[list[StoreEvent], int]:
        """Changes since the last call, in their order, and how many more there were than fit."""
        return self._core.take_events()

    def tier_stats(self) -> list[ObjectStoreStats]:
        """One for each tier, the fastest first."""
        return self._core.tier_stats()

    def stats(self) -> ObjectStoreStats:
        """What the store holds and has done since it was opened."""
        return self._core.stats()

    def namespaces(self) -> list[NamespaceInfo]:
        """All namespaces."""
        return self._core.namespaces()

    def objects(self) -> Iterator[ObjectInfo]:
        """All objects, in the order of their records."""
        first = 0
        while infos := self._core.objects(first, 1024):
            yield from infos
            first = infos[-1].number + 1

    def verify(self, first: int = 0, most: int = 2**32 - 1) -> VerifyProgress:
        """Checks every byte of the objects of `most` records; damaged ones are gone afterwards."""
        return self._core.verify(first, most)

    def defragment(self, most_bytes: int = 2**63) -> int:
        """Moves objects together; gives the bytes moved, 0 when nothing is to be gained."""
        return self._core.defragment(most_bytes)

    def close(self) -> None:
        """Cancels items that have not begun, finishes the others, closes. Again: does nothing."""
        self._jobs.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._core.closed

    def __exit__(self, *exception: object) -> None:
        self.close()
