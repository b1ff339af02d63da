"""The objects of one namespace: set, get, erase and what else is asked by key."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Required, TypeAlias, TypedDict, Unpack

import _nearkv
from _nearkv import JobKind, ObjectInfo, PageList
from nkv_abi import Status

from nearkv.store.jobs import Job, JobResult, Jobs, bitmap_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Lease", "Namespace"]


class _Tensor(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...


Piece: TypeAlias = "Buffer | _Tensor"
Memory: TypeAlias = "Piece | list[Piece] | tuple[Piece, ...]"
MemoryList: TypeAlias = "Memory | Iterable[Memory] | PageList"
KeyList: TypeAlias = "bytes | Iterable[bytes] | _Tensor"
_Names: TypeAlias = "list[bytes] | _Tensor"


class SetOptions(TypedDict, total=False):
    """How objects are stored.

    `chain`: each key is the block after the one before it in one prefix, and the first is the one
    after `parent`; no block makes those before it go: then it is POOL_FULL. `overwrite`: replace
    what is there; else an existing object counts as set.
    `evict`: others may have to make room; else POOL_FULL.
    `parts`: equal parts (layers) that can be read alone. `age_s`: they may go when older.
    """

    chain: bool
    parent: bytes
    overwrite: bool
    evict: bool
    parts: int
    age_s: int


class PartOptions(SetOptions):
    """How parts of objects are stored, beside `parts`, of which there are at least two.

    `object_bytes`: of a whole object. `part_count` parts from `first_part` on come now; 0: all.
    """

    object_bytes: Required[int]
    first_part: int
    part_count: int


class PartRange(TypedDict, total=False):
    """Which parts of each object to get; `part_count` 0: all of it.

    `quiet`: eviction and statistics do not see it.
    """

    first_part: int
    part_count: int
    quiet: bool


class Lease(AbstractContextManager):
    """Objects that are not evicted, erased or moved until it ends. A context manager."""

    def __init__(self, core: _nearkv.ObjectStore, number: int, statuses: bytes) -> None:
        self.id = number
        self._statuses = statuses
        self._core = core

    @property
    def statuses(self) -> list[Status]:
        """Of each key: OK if it is leased."""
        return [Status(status) for status in self._statuses]

    @property
    def bitmap(self) -> list[bool]:
        """Whether each key is leased."""
        return bitmap_of(self._statuses)

    def unpin(self) -> bool:
        """Ends it; False if it had ended."""
        return self._core.unpin(self.id)

    def __exit__(self, *exception: object) -> None:
        self.unpin()


class Namespace:
    """Objects of one tenant, model, dtype, layout, rank, group and salt.

    It is open as long as this object lives. A namespace that nobody has open and that holds no
    objects makes room for others where `max_namespaces` of them are there.

    set, get, erase run on the calling thread; submit_* hand a Job to the store's workers; *_async
    are awaited, and wait while the queue is full.
    """

    def __init__(self, core: _nearkv.ObjectStore, jobs: Jobs, number: int) -> None:
        self.number = number
        self._core = core
        self._jobs = jobs
        weakref.finalize(self, _close, core, number).atexit = False

    def set(self, keys: KeyList, sources: MemoryList, **options: Unpack[SetOptions]) -> JobResult:
        """Stores objects; each is there, whole, and survives what memory does, once it is OK."""
        return self._run(JobKind.SET, keys, sources, options)

    def submit_set(self, keys: KeyList, sources: MemoryList, **options: Unpack[SetOptions]) -> Job:
        """As set(), as a job."""
        return self._jobs.submit(*self._job(JobKind.SET, keys, sources, options))

    async def set_async(
        self, keys: KeyList, sources: MemoryList, **options: Unpack[SetOptions]
    ) -> JobResult:
        """As set(), awaited."""
        return await self._await(JobKind.SET, keys, sources, options)

    def set_parts(
        self, keys: KeyList, sources: MemoryList, **options: Unpack[PartOptions]
    ) -> JobResult:
        """Stores parts (layers) of objects, in any order, by any number of calls.

        Each object is there, whole, once its last part is OK, and not before.
        """
        return self._run(JobKind.SET_PARTS, keys, sources, options)

    def submit_set_parts(
        self, keys: KeyList, sources: MemoryList, **options: Unpack[PartOptions]
    ) -> Job:
        """As set_parts(), as a job."""
        return self._jobs.submit(*self._job(JobKind.SET_PARTS, keys, sources, options))

    async def set_parts_async(
        self, keys: KeyList, sources: MemoryList, **options: Unpack[PartOptions]
    ) -> JobResult:
        """As set_parts(), awaited."""
        return await self._await(JobKind.SET_PARTS, keys, sources, options)

    def get(
        self, keys: KeyList, targets: MemoryList | None = None, **parts: Unpack[PartRange]
    ) -> JobResult:
        """Copies objects out, each verified, into `targets` or into JobResult.buffers.

        A target may be larger than the object. Without targets the store is asked for sizes first;
        an object that a larger one replaces meanwhile ends with BAD_ARGUMENT.
        """
        return self._run(JobKind.GET, keys, targets, parts)

    def submit_get(
        self, keys: KeyList, targets: MemoryList | None = None, **parts: Unpack[PartRange]
    ) -> Job:
        """As get(), as a job."""
        return self._jobs.submit(*self._job(JobKind.GET, keys, targets, parts))

    async def get_async(
        self, keys: KeyList, targets: MemoryList | None = None, **parts: Unpack[PartRange]
    ) -> JobResult:
        """As get(), awaited. Targets are in use until the awaitable ends, cancelled or not."""
        return await self._await(JobKind.GET, keys, targets, parts)

    def layers(
        self,
        keys: KeyList,
        count: int,
        targets: Sequence[MemoryList] | None = None,
        *,
        ahead: int = 1,
    ) -> Iterator[JobResult]:
        """The first `count` parts of objects, one after the other.

        While the caller uses part i, the next `ahead` are being read. `targets`: for each part,
        what get() takes. Closing the iterator cancels what is under way and waits for it.
        """
        jobs: deque[Job] = deque()
        names = _names(keys)
        try:
            for part in range(count):
                self._read_ahead(jobs, names, targets, part, min(part + 1 + ahead, count))
                result = jobs[0].wait_or_cancel()
                jobs.popleft()
                yield result
        finally:
            for job in jobs:
                job.cancel()
            for job in jobs:
                job.wait_or_cancel()

    async def layers_async(
        self,
        keys: KeyList,
        count: int,
        targets: Sequence[MemoryList] | None = None,
        *,
        ahead: int = 1,
    ) -> AsyncIterator[JobResult]:
        """As layers(), for `async for`. Close it (contextlib.aclosing) if it is left early."""
        jobs: deque[Job] = deque()
        names = _names(keys)
        try:
            for part in range(count):
                self._read_ahead(jobs, names, targets, part, min(part + 1 + ahead, count))
                result = await jobs[0]
                jobs.popleft()
                yield result
        finally:
            for job in jobs:
                job.cancel()
            for job in jobs:
                await job

    def erase(self, keys: KeyList) -> JobResult:
        """Deletes objects; BUSY for leased ones."""
        return self._run(JobKind.ERASE, keys, None, {})

    def submit_erase(self, keys: KeyList) -> Job:
        """As erase(), as a job."""
        return self._jobs.submit(*self._job(JobKind.ERASE, keys, None, {}))

    async def erase_async(self, keys: KeyList) -> JobResult:
        """As erase(), awaited."""
        return await self._await(JobKind.ERASE, keys, None, {})

    def exists(self, keys: KeyList) -> int:
        """How many keys from the first on are there."""
        return self._core.exists(self.number, _names(keys))

    def present(self, keys: KeyList) -> list[bool]:
        """Whether each key is there."""
        return self._core.present(self.number, _names(keys))

    def submit_exists(self, keys: KeyList) -> Job:
        """As a job: OK or NOT_FOUND for each key."""
        return self._jobs.submit(*self._job(JobKind.EXISTS, keys, None, {}))

    async def exists_async(self, keys: KeyList) -> JobResult:
        """As submit_exists(), awaited; JobResult.leading is what exists() gives."""
        return await self._await(JobKind.EXISTS, keys, None, {})

    def match_prefix(self, chain: KeyList) -> int:
        """Length of the longest stored prefix of a chain of blocks (set() with `chain`)."""
        return self._core.match_prefix(self.number, _names(chain))

    def describe(self, key: bytes) -> ObjectInfo | None:
        """What an object's record says; None if there is none."""
        return self._core.describe(self.number, key)

    def touch(self, keys: KeyList) -> None:
        """Marks objects as used now."""
        self._core.touch(self.number, _names(keys))

    def pin(self, keys: KeyList, duration_s: float = 60.0) -> Lease:
        """Leases those of the keys that are there; Lease.statuses says which they are."""
        return Lease(self._core, *self._core.pin(self.number, _names(keys), duration_s))

    def __contains__(self, key: bytes) -> bool:
        return self.exists(key) == 1

    def __getitem__(self, key: bytes) -> bytearray:
        result = self.get(key)
        if result.statuses[0] == Status.NOT_FOUND:
            raise KeyError(key)
        [buffer] = result.check().buffers or []
        assert buffer is not None
        return buffer

    def __setitem__(self, key: bytes, source: Memory) -> None:
        self.set(key, source, overwrite=True).check()

    def __delitem__(self, key: bytes) -> None:
        result = self.erase(key)
        if result.statuses[0] == Status.NOT_FOUND:
            raise KeyError(key)
        result.check()

    def _job(self, kind: JobKind, keys: KeyList, memory: Any, options: Any) -> tuple:
        if memory is not None and not isinstance(memory, PageList):
            memory = [memory] if isinstance(keys, bytes) else list(memory)
        return kind, self, _names(keys), memory, options

    def _run(self, kind: JobKind, keys: KeyList, memory: Any, options: Any) -> JobResult:
        _, _, names, memory, options = self._job(kind, keys, memory, options)
        outcome = self._core.run(kind, self.number, names, memory, **options)
        return JobResult(names, *outcome)

    async def _await(self, kind: JobKind, keys: KeyList, memory: Any, options: Any) -> JobResult:
        return await (await self._jobs.submit_async(*self._job(kind, keys, memory, options)))

    def _read_ahead(
        self, jobs: deque[Job], keys: _Names, targets: Any, part: int, end: int
    ) -> None:
        for wanted in range(part + len(jobs), end):
            into = None if targets is None else targets[wanted]
            jobs.append(self.submit_get(keys, into, first_part=wanted, part_count=1))


def _close(core: _nearkv.ObjectStore, number: int) -> None:
    with contextlib.suppress(ValueError, _nearkv.Error):  # The store, or its daemon, has gone.
        core.close_namespace(number)


def _names(keys: KeyList) -> _Names:
    if isinstance(keys, str):
        raise TypeError("keys are bytes, not str")
    if hasattr(keys, "__dlpack__"):
        return keys
    return [keys] if isinstance(keys, bytes) else list(keys)
