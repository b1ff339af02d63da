"""Jobs of an object store: how they end, how threads and event loops wait for them."""

import asyncio
import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any

import _nearkv
from nkv_abi import STATUS, Status

__all__ = ["PATIENCE_S", "Job", "JobResult", "Jobs"]

PATIENCE_S = 11.0
"""What ends a job of a silent daemon by cancel(): its client waits 10 s for an answer."""


def bitmap_of(statuses: bytes) -> list[bool]:
    """Whether each status is OK."""
    if statuses == bytes(len(statuses)):
        return [True] * len(statuses)
    return [not status for status in statuses]


class JobResult:
    """How a job ended, item by item, in the order of its keys.

    `buffers`: of a get into fresh memory, a bytearray for each object or None; else None.
    """

    __slots__ = ("_sizes", "_statuses", "buffers", "keys")

    def __init__(
        self,
        keys: Any,
        statuses: bytes,
        sizes: bytes,
        memory: list[bytearray | None] | None,
    ) -> None:
        self.keys = keys
        self.buffers = memory
        self._statuses = statuses
        self._sizes = memoryview(sizes).cast("I")
        if memory is not None:
            for i, buffer in enumerate(memory):
                if buffer is not None and statuses[i]:
                    memory[i] = None
                elif buffer is not None:
                    del buffer[self._sizes[i] :]  # A smaller object may have come meanwhile.

    @property
    def statuses(self) -> list[Status]:
        """One for each item."""
        return [Status(status) for status in self._statuses]

    @property
    def object_bytes(self) -> list[int]:
        """Of a get, what was copied or what too small a target has to hold; else 0.

        Of what is too large, how large it is.
        """
        return self._sizes.tolist()

    @property
    def bitmap(self) -> list[bool]:
        """Whether each item is OK."""
        return bitmap_of(self._statuses)

    @property
    def all_ok(self) -> bool:
        """Whether every item is OK."""
        return self._statuses == bytes(len(self._statuses))

    def whole(self, object_bytes: int) -> list[bool]:
        """Of a get, whether each item is OK and of this size."""
        wanted = object_bytes.to_bytes(self._sizes.itemsize, sys.byteorder)
        if self.all_ok and self._sizes.tobytes() == wanted * len(self):
            return [True] * len(self)
        sizes = zip(self._statuses, self._sizes, strict=True)
        return [not status and size == object_bytes for status, size in sizes]

    @property
    def leading(self) -> int:
        """How many items from the first on are OK."""
        return next((i for i, status in enumerate(self._statuses) if status), len(self._statuses))

    def check(self) -> "JobResult":
        """This result, if every item is OK. Else raises Error for the first that is not."""
        first = self.leading
        if first < len(self._statuses):
            status = self._statuses[first]
            text = f"key {bytes(self.keys[first]).hex()[:64]}: {STATUS[Status(status)].message}"
            if status in (Status.OBJECT_TOO_LARGE, Status.WINDOW_TOO_SMALL):
                text += f"; it has {self._sizes[first]} bytes"
            if status == Status.BAD_ARGUMENT and self._sizes[first]:
                text += f": the memory for it must hold {self._sizes[first]} bytes"
            _nearkv.check(status, text)
        return self

    def __len__(self) -> int:
        return len(self._statuses)

    def __repr__(self) -> str:
        return f"<JobResult: {self.bitmap.count(True)} of {len(self)} OK>"


class Job:
    """A batch on its way. Buffers that it names are held until it was reported.

    It is reported by whatever tells first that it is over: wait(), done(), awaiting it, or
    ObjectStore.drain(). Thread safety: all calls.
    """

    def __init__(
        self,
        jobs: "Jobs",
        number: int,
        space: Any,
        keys: Any,
        memory: list[bytearray | None] | None,
    ) -> None:
        self.id = number
        self._space = space  # Open until the job is over.
        self._jobs = jobs
        self._keys = keys
        self._memory = memory
        self._over = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._result: JobResult | None = None
        self._due_s: float | None = None

    def wait(self, timeout: float | None = None) -> JobResult:
        """Waits, and works on the job meanwhile. Error TIMEOUT after `timeout` seconds."""
        if not self._over.is_set() and not self._jobs.wait(self, timeout):
            _nearkv.check(Status.TIMEOUT, f"job {self.id} is not over after {timeout} s")
        return self._report()

    def wait_or_cancel(self, patience: float = PATIENCE_S) -> JobResult:
        """Waits; every so many seconds it cancels what is left, as cancel() does."""
        while not self.done(patience) and self.cancel():
            pass
        return self.wait()

    def done(self, within: float = 0) -> bool:
        """Whether it is over, or is within so many seconds, in which this works on it."""
        return self._over.is_set() or self._jobs.wait(self, within)

    def is_over(self, patience: float = PATIENCE_S) -> bool:
        """For who asks again and again: as done(), but at some time it is over.

        So many seconds after it was first asked, and then as often, it cancels what is left.
        """
        if self.done():
            return True
        now_s = time.monotonic()
        if self._due_s is None or now_s < self._due_s:
            self._due_s = self._due_s or now_s + patience
            return False
        self._due_s = now_s + patience
        self.cancel()
        return self.done()

    def cancel(self) -> bool:
        """Ends items that have not begun, as CANCELLED; False if the job is over.

        Those being copied are finished: buffers are in use until the job is over. Where a daemon
        has been silent for 10 s, they are given up, as TIMEOUT.
        """
        return not self._over.is_set() and self._jobs.cancel(self)

    def __await__(self) -> Generator[Any, None, JobResult]:
        """The result. To cancel whoever awaits it cancels the job, and waits until it is over."""
        return self._finish().__await__()

    async def _finish(self) -> JobResult:
        await self._jobs.until_over(self, cancel=True)
        return self._report()

    def _report(self) -> JobResult:
        assert self._result is not None
        self._jobs.forget(self)
        return self._result

    def _end(self, statuses: bytes, sizes: bytes) -> None:
        self._result = JobResult(self._keys, statuses, sizes, self._memory)
        self._over.set()


class Jobs:
    """The jobs of one store, by their numbers, until they are over.

    Results reach their jobs through whichever thread asks the store first. Event loops listen to
    the store's event fd while something in them awaits a job, so any number of loops and threads
    may share a store.
    """

    def __init__(self, core: _nearkv.ObjectStore) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._in_flight: dict[int, Job] = {}
        # Over, but nobody was told; whoever dropped the job does not want to be.
        self._unreported: weakref.WeakValueDictionary[int, Job] = weakref.WeakValueDictionary()
        # Of each loop that listens: its descriptor, and how many in it await something.
        self._listeners: dict[asyncio.AbstractEventLoop, tuple[int, int]] = {}
        self._closed = False
        weakref.finalize(self, core.close)

    def submit(
        self,
        kind: _nearkv.JobKind,
        space: Any,
        keys: Any,
        memory: Any,
        options: dict[str, Any],
    ) -> Job:
        """Hands a job to the store's workers."""
        with self._lock:  # collect() finds the job even if it is over at once.
            if self._closed:
                raise ValueError("the store is closed")
            number, fresh = self._core.submit(kind, space.number, keys, memory, **options)
            job = self._in_flight[number] = Job(self, number, space, keys, fresh)
        return job

    async def submit_async(self, *arguments: Any) -> Job:
        """As submit(), but waits while the queue is full."""
        while True:
            try:
                return self.submit(*arguments)
            except _nearkv.Error as error:
                if error.status != Status.QUEUE_FULL:
                    raise
            with self._lock:
                oldest = next(iter(self._in_flight.values()), None)
            if oldest is not None:
                await self.until_over(oldest, cancel=False)

    def collect(self) -> None:
        """Tells jobs that they are over."""
        for number, outcome in self._core.drain():
            self._end(number, outcome, reported=False)

    def drain(self) -> list[Job]:
        """Jobs that are over and were not reported, in the order in which they ended."""
        self.collect()
        with self._lock:
            jobs = list(self._unreported.values())
            self._unreported.clear()
        return jobs

    def wait(self, job: Job, timeout: float | None) -> bool:
        """Whether a job was over within `timeout` seconds."""
        try:
            outcome = self._core.wait(job.id, timeout)
        except (_nearkv.Error, ValueError):
            if job._over.is_set():  # Another thread was faster.
                return True
            raise
        if outcome is None:
            return False
        self._end(job.id, outcome, reported=True)
        return True

    def cancel(self, job: Job) -> bool:
        """As Job.cancel()."""
        return self._core.cancel(job.id)

    def forget(self, job: Job) -> None:
        """Keeps drain() from giving a job."""
        with self._lock:
            self._unreported.pop(job.id, None)

    async def until_over(self, job: Job, *, cancel: bool) -> None:
        """Waits for a job in the running loop; with `cancel`, cancels it rather than leave it."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # The loop was closed meanwhile.
                loop.call_soon_threadsafe(over.set_result, None)

        with self._lock:
            if job._over.is_set():
                return
            job._callbacks.append(tell)
        cancelled: asyncio.CancelledError | None = None
        with self._listening(loop):
            while not over.done():
                try:
                    await asyncio.wait([over])
                except asyncio.CancelledError as error:
                    if not cancel:
                        raise
                    cancelled = error
                    job.cancel()
        if cancelled is not None:
            raise cancelled

    def close(self) -> None:
        """Cancels what has not begun, ends all jobs, closes the store."""
        with self._lock:
            self._closed = True
            jobs = list(self._in_flight.values())
        try:
            for job in jobs:
                job.cancel()
            for job in jobs:
                job.wait_or_cancel()
        finally:
            self._core.close()

    def _end(self, number: int, outcome: tuple[bytes, bytes], *, reported: bool) -> None:
        with self._lock:
            if (job := self._in_flight.get(number)) is None:  # Another thread was faster.
                return
            job._end(*outcome)
            callbacks, job._callbacks = job._callbacks, []
            if not reported:
                self._unreported[number] = job
            del self._in_flight[number]
            self._core.acknowledge(number)
        for tell in callbacks:
            tell()

    def _heard(self) -> None:
        with contextlib.suppress(ValueError):  # The store was closed meanwhile.
            self.collect()

    @contextlib.contextmanager
    def _listening(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        # Only the loop's own thread touches its entry.
        if loop not in self._listeners:
            # Its own descriptor, so that none is taken away from under a loop by close().
            self._listeners[loop] = os.dup(self._core.event_fd), 0
            loop.add_reader(self._listeners[loop][0], self._heard)
        descriptor, waiting = self._listeners[loop]
        self._listeners[loop] = descriptor, waiting + 1
        try:
            yield
        finally:
            descriptor, waiting = self._listeners.pop(loop)
            if waiting > 1:
                self._listeners[loop] = descriptor, waiting - 1
            else:
                loop.remove_reader(descriptor)
                os.close(descriptor)
