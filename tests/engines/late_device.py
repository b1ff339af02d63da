"""A device in host memory, whose work happens as late as it may.

It has what nearkv.vllm.copier calls of vLLM's platform. Streams take work and do none of it until
somebody waits for it; then nothing is done but what that depends on. So whatever is read without a
wait is read too early, and what is written without one is overwritten.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_QUERIES = 2  # That an event takes to come, if nobody waits for it.


class LateDevice:
    """Stands for vLLM's current_platform. `copies`: how many were asked for so far."""

    def __init__(self) -> None:
        self.compute = Stream(self)
        self.copies = 0
        self.lock = threading.RLock()
        self._of_thread = threading.local()

    def is_pin_memory_available(self) -> bool:
        return False

    def Stream(self) -> "Stream":
        return Stream(self)

    def Event(self, *, blocking: bool) -> "Event":
        assert blocking  # A thread that spins would take a processor from the engine.
        return Event()

    def current_stream(self) -> "Stream":
        return getattr(self._of_thread, "stream", self.compute)

    @contextmanager
    def stream(self, stream: "Stream") -> Iterator[None]:
        self._of_thread.stream = stream
        try:
            yield
        finally:
            del self._of_thread.stream

    def swap_blocks_batch(
        self, sources: Any, targets: Any, sizes: Any, is_src_access_order_any: bool = False
    ) -> None:
        """As vLLM's operator."""
        self.copies += len(sizes)
        for source, target, size in zip(sources, targets, sizes, strict=True):
            copy = int(target), int(source), int(size)
            self.current_stream().give(lambda copy=copy: ctypes.memmove(*copy))

    def computes(self, work: Callable[[], Any]) -> None:
        """Gives a kernel to the stream that computes."""
        self.compute.give(work)

    def synchronize(self) -> None:
        """What is given to the computing stream by now is done; other streams are not."""
        event = Event()
        event.record(self.compute)
        event.synchronize()


class HostThatComputes(LateDevice):
    """One whose computing is the process's own: what it waits for is done at once."""

    def __init__(self) -> None:
        super().__init__()
        self.compute = _Prompt(self)


class Stream:
    def __init__(self, device: LateDevice) -> None:
        self.device = device
        self._work: list[Callable[[], Any]] = []
        self._done = 0

    def give(self, work: Callable[[], Any]) -> None:
        with self.device.lock:
            self._work.append(work)

    def wait_event(self, event: "Event") -> None:
        self.give(event.synchronize)

    def position(self) -> int:
        return len(self._work)

    def run_until(self, position: int) -> None:
        with self.device.lock:
            while self._done < position:
                self._done += 1
                self._work[self._done - 1]()

    def has_done(self, position: int) -> bool:
        return self._done >= position


class _Prompt(Stream):
    def give(self, work: Callable[[], Any]) -> None:
        super().give(work)
        self.run_until(self.position())


class Event:
    def __init__(self) -> None:
        self._queries = 0

    def record(self, stream: Stream) -> None:
        with stream.device.lock:
            self._stream, self._position = stream, stream.position()

    def synchronize(self) -> None:
        self._stream.run_until(self._position)

    def query(self) -> bool:
        with self._stream.device.lock:
            self._queries += 1
            if self._queries >= _QUERIES:
                self.synchronize()
            return self._stream.has_done(self._position)
