"""Pages between a device and a store, through host memory of a bounded size.

A piece of work takes a lane: a buffer, a stream, and a thread that sees it through. It waits where
it has to, so the order of things is the order of the lines here; what is too much waits its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from nearkv.vllm.copier import Copier, Copies, Event

if TYPE_CHECKING:
    from nearkv.store import Job, JobResult

LANES = 4
"""Of loads, and as many of stores, which loads never wait behind."""

_T = TypeVar("_T")
Memory = list[list[np.ndarray]]
"""For each block its pages."""


class DevicePages(NamedTuple):
    """The pages of some blocks in a device's memory."""

    addresses: np.ndarray
    """[layers, blocks], int64."""
    sizes: np.ndarray
    """[layers]: bytes of a page."""

    @property
    def bytes_per_block(self) -> int:
        """Of all layers."""
        return int(self.sizes.sum())


class _Staged:
    """A place in a buffer for each page of some blocks.

    Layer by layer, and blocks by their addresses: what lies side by side on the device does so
    here, and is one copy.
    """

    def __init__(self, pages: DevicePages, buffer: np.ndarray) -> None:
        self._pages = pages
        self._order = np.argsort(pages.addresses[0])
        count = len(self._order)
        rank = np.empty(count, np.int64)
        rank[self._order] = np.arange(count)
        of_layers = pages.sizes * count
        begins = np.cumsum(of_layers) - of_layers
        self._offsets = begins[:, None] + rank * pages.sizes[:, None]
        self._buffer = buffer

    def memory(self) -> Memory:
        """What a store reads or fills."""
        sizes = self._pages.sizes.tolist()
        return [
            [self._buffer[at : at + size] for at, size in zip(column, sizes, strict=True)]
            for column in self._offsets.T.tolist()
        ]

    def copies(self, is_wanted: np.ndarray, *, to_device: bool) -> Copies:
        """Of the blocks that are wanted."""
        order = self._order[is_wanted[self._order]]
        there = self._pages.addresses[:, order].ravel()
        here = self._buffer.ctypes.data + self._offsets[:, order].ravel()
        sizes = np.repeat(self._pages.sizes, len(order))
        return Copies(here, there, sizes) if to_device else Copies(there, here, sizes)


class _Lane:
    """A buffer and a stream; `last` is the end of what still reads the buffer."""

    def __init__(self, copier: Copier, size: int) -> None:
        self.buffer = copier.host_memory(size)
        self.stream = copier.stream()
        self.last: Event | None = None

    def settle(self) -> None:
        """Waits until the buffer may be written."""
        if self.last is not None:
            self.last.synchronize()


class _Lanes:
    """Lanes with a thread each; works go first come, first served."""

    def __init__(self, copier: Copier, lane_bytes: int) -> None:
        self._all = [_Lane(copier, lane_bytes) for _ in range(LANES)]
        self._free: SimpleQueue[_Lane] = SimpleQueue()
        for lane in self._all:
            self._free.put(lane)
        self._threads = ThreadPoolExecutor(LANES, thread_name_prefix="nearkv-staging")

    def submit(self, work: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """Calls work(lane, ...) on a lane of its own, later."""

        def on_a_lane() -> _T:
            lane = self._free.get()  # There is one: as many threads as lanes.
            try:
                return work(lane, *arguments)
            finally:
                self._free.put(lane)

        return self._threads.submit(on_a_lane)

    def close(self) -> None:
        """Ends all work."""
        self._threads.shutdown(wait=True)
        for lane in self._all:
            lane.settle()


class StagedJob:
    """A load or store on its way; as a job of the store. For the thread that computes alone."""

    def __init__(self, copier: Copier, future: Future[tuple[JobResult, Event | None]]) -> None:
        self._copier = copier
        self._future = future

    def done(self, within: float = 0) -> bool:
        """Whether it is over, on the device too; its host's part may take so many seconds yet."""
        try:
            if self._future.exception(within) is not None:
                return True
        except TimeoutError:
            return False
        _, end = self._future.result()
        return end is None or end.query()

    def is_over(self) -> bool:
        """As done(): the thread that sees it through gives it up by itself."""
        return self.done()

    def wait_or_cancel(self) -> JobResult:
        """As wait(), for the same reason."""
        return self.wait()

    def wait(self) -> JobResult:
        """Until it is over for all that is given to the computing stream from now on.

        Raises what the store raised.
        """
        result, end = self._future.result()
        if end is not None and not end.query():
            self._copier.follow(end)
        return result


class Staging:
    """Loads and stores in flight, in host memory of `size_bytes` at most.

    Each load and store is at most as large as a lane: whoever has more splits it.
    """

    def __init__(self, copier: Copier, size_bytes: int) -> None:
        self.lane_bytes = size_bytes // (2 * LANES)
        self._copier = copier
        self._loads = _Lanes(copier, self.lane_bytes)
        self._stores = _Lanes(copier, self.lane_bytes)

    def load(self, pages: DevicePages, start: Callable[[Memory], Job]) -> StagedJob:
        """What `start` fetches goes to pages, if it is whole, after all that computes by now."""
        ready = self._copier.mark()
        return StagedJob(self._copier, self._loads.submit(self._load, pages, ready, start))

    def store(self, pages: DevicePages, start: Callable[[Memory], Job]) -> StagedJob:
        """`start` stores pages as they are after all that computes by now."""
        ready = self._copier.mark()
        return StagedJob(self._copier, self._stores.submit(self._store, pages, ready, start))

    def close(self) -> None:
        """Ends all loads and stores."""
        self._loads.close()
        self._stores.close()

    def _load(
        self, lane: _Lane, pages: DevicePages, ready: Event, start: Callable[[Memory], Job]
    ) -> tuple[JobResult, Event | None]:
        lane.settle()
        staged = _Staged(pages, lane.buffer)
        result = start(staged.memory()).wait_or_cancel()
        # Else a page would get what a lane held before, of whomever.
        is_whole = np.array(result.whole(pages.bytes_per_block))
        copies = staged.copies(is_whole, to_device=True)
        lane.last = self._copier.copy(lane.stream, copies, ready, to_device=True)
        return result, lane.last

    def _store(
        self, lane: _Lane, pages: DevicePages, ready: Event, start: Callable[[Memory], Job]
    ) -> tuple[JobResult, Event | None]:
        staged = _Staged(pages, lane.buffer)
        everything = np.ones(pages.addresses.shape[1], bool)
        copies = staged.copies(everything, to_device=False)
        self._copier.copy(lane.stream, copies, ready, to_device=False).synchronize()
        return start(staged.memory()).wait_or_cancel(), None
