"""Brings the KV events of many workers to a router, over ZeroMQ."""

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Iterable, Iterator

import msgspec
import zmq

from nearkv.core import Error
from nearkv.kv_events.wire import decode_batch
from nearkv.router.feed import Feed, Lost
from nearkv.router.media import UnknownMedium
from nearkv.router.router import HashMismatch, Router

_LOG = logging.getLogger("nearkv.router")
_POLL_MS = 50


@dataclasses.dataclass
class FeedCounters:
    """Of one worker's events, since it was added."""

    batches: int = 0
    gaps: int = 0  # times that batches had been missed and were asked for again
    dropped: int = 0  # times that all of the worker's blocks were dropped, because some were missed
    malformed: int = 0  # batches that were none
    unknown_media: int = 0
    refused: int = 0  # batches with blocks for which the index had no room
    mismatch: str = ""  # why the worker is not listened to any more


class EventSubscriber:
    """Listens to workers' publishers, as vLLM, SGLang and nearkv.kv_events run them.

    What was published before, or missed, is asked for at the replay endpoint; where that fails,
    the worker's blocks are dropped, because what it has is not known, and a warning says so.
    Events later fill them again.

    poll() does the work: call it from one thread, or start() one. add and remove: from any thread.
    """

    def __init__(self, router: Router, *, patience_s: float = 2) -> None:
        """`patience_s`: how long batches that were asked for are waited for."""
        self._router = router
        self._patience_s = patience_s
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._sources: dict[str, _Source] = {}
        self._lock = threading.Lock()
        self._unchanging = threading.Event()  # Cleared, it keeps poll from taking the lock again.
        self._unchanging.set()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def add(
        self, worker: str, endpoint: str, *, replay_endpoint: str = "", topic: str = ""
    ) -> None:
        """Listens to a worker that the router knows. zmq.ZMQError for a bad endpoint."""
        source = _Source(
            self._context, self._router, worker, endpoint, replay_endpoint, topic, self._patience_s
        )
        with self._change():
            if worker in self._sources:
                source.close()
                raise ValueError(f"{worker!r} is listened to already: remove it first")
            self._sources[worker] = source
            for socket in source.sockets:
                self._poller.register(socket, zmq.POLLIN)

    def remove(self, worker: str) -> None:
        """Listens no more; then the router may forget the worker. KeyError: it did not listen."""
        with self._change():
            source = self._sources.pop(worker)
            for socket in source.sockets:
                self._poller.unregister(socket)
            source.close()

    def counters(self, worker: str) -> FeedCounters:
        """What has come of a worker. KeyError: it is not listened to."""
        return self._sources[worker].counters

    def poll(self, timeout_ms: int = 0) -> int:
        """Takes up what is there; waits for the first if there is nothing. Returns the batches."""
        self._unchanging.wait()
        with self._lock:
            if self._sources:
                ready = dict(self._poller.poll(min(timeout_ms, _POLL_MS)))
                return sum(source.work(ready) for source in self._sources.values())
        self._stopped.wait(min(timeout_ms, _POLL_MS) / 1000)  # A poll of nothing does not wait.
        return 0

    def start(self) -> None:
        """Polls in a thread of its own until close()."""
        self._thread = threading.Thread(target=self._run, name="nearkv-kv-events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the thread and closes the sockets."""
        self._stopped.set()
        if self._thread:
            self._thread.join()
        with self._change():  # Another thread may be removing one.
            for source in self._sources.values():
                source.close()
            self._sources.clear()
        self._context.destroy(linger=0)

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        self._unchanging.clear()
        try:
            with self._lock:
                yield
        finally:
            self._unchanging.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.poll(_POLL_MS)
            except Exception:
                _LOG.exception("an event could not be taken up; going on with the next")


class _Source:
    """One worker's sockets, and the order of what they bring."""

    def __init__(
        self,
        context: zmq.Context,
        router: Router,
        worker: str,
        endpoint: str,
        replay_endpoint: str,
        topic: str,
        patience_s: float,
    ) -> None:
        self._router = router
        self._worker = worker
        self.counters = FeedCounters()
        self._events = context.socket(zmq.SUB)
        self._replay = context.socket(zmq.DEALER) if replay_endpoint else None
        self.sockets = [socket for socket in (self._events, self._replay) if socket]
        try:
            self._events.set_hwm(0)  # A gap costs more than the memory of what waits.
            self._events.subscribe(topic)
            self._events.connect(endpoint)
            if self._replay:
                self._replay.connect(replay_endpoint)
        except zmq.ZMQError:
            self.close()
            raise
        self._feed = Feed(self._ask if self._replay else None, _clears_first, patience_s=patience_s)
        self._feed.begin()
        self.counters.gaps = 0  # What was there before is none.

    def work(self, ready: dict[zmq.Socket, int]) -> int:
        before = self.counters.batches
        if self._replay in ready:
            for frames in _received(self._replay):
                number = int.from_bytes(frames[-2], "big", signed=True)
                self._take(self._feed.replayed(number, frames[-1]))
        if self._events in ready:
            for frames in _received(self._events):
                number = int.from_bytes(frames[-2], "big", signed=True)
                self._take(self._feed.published(number, frames[-1]))
        self._take(self._feed.late())
        return self.counters.batches - before

    def close(self) -> None:
        for socket in self.sockets:
            socket.close(linger=0)

    def _ask(self, number: int) -> None:
        assert self._replay
        self.counters.gaps += 1
        self._replay.send_multipart([b"", number.to_bytes(8, "big")])

    def _take(self, told: Iterable[bytes | Lost]) -> None:
        for each in told:
            if self.counters.mismatch:
                continue
            if isinstance(each, Lost):
                self._drop(each.reason)
                continue
            self.counters.batches += 1
            self._apply(each)

    def _apply(self, batch: bytes) -> None:
        try:
            self._router.apply(self._worker, decode_batch(batch))
        except HashMismatch as error:
            self.counters.mismatch = str(error)
            _LOG.error("%s; its events are ignored from now on", error)
        except UnknownMedium as error:
            self.counters.unknown_media += 1
            if self.counters.unknown_media == 1:
                _LOG.warning("%s: %s", self._worker, error)
        except Error as error:
            self.counters.refused += 1
            if self.counters.refused == 1:
                _LOG.warning("%s: %s", self._worker, error)
        except (msgspec.DecodeError, ValueError, TypeError, KeyError) as error:
            self.counters.malformed += 1
            self._drop(f"a batch is none of KV events ({error})")

    def _drop(self, reason: str) -> None:
        self.counters.dropped += 1
        with contextlib.suppress(Error):  # The router has forgotten the worker itself.
            self._router.clear(self._worker)
        _LOG.warning(
            "%s: %s. Its blocks are dropped, until its events tell of them again",
            self._worker,
            reason,
        )


def _received(socket: zmq.Socket) -> Iterable[list[bytes]]:
    """The messages that are there and have a number of 8 bytes before their batch."""
    while True:
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        if len(frames) >= 2 and len(frames[-2]) == 8:
            yield frames


def _clears_first(batch: bytes) -> bool:
    try:
        return next(iter(decode_batch(batch)), ("", {}))[0] == "AllBlocksCleared"
    except (msgspec.DecodeError, ValueError, TypeError):
        return False
