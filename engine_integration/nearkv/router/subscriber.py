"""Brings the KV events of many workers to a router, over ZeroMQ."""

import contextlib
import itertools
import logging
import threading
from collections.abc import Iterator

import zmq

from nearkv.kv_events.wire import endpoint_of_rank
from nearkv.router.router import Router
from nearkv.router.source import FeedCounters, Source

_LOG = logging.getLogger("nearkv.router")
_POLL_MS = 50


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
        self._sources: dict[str, list[Source]] = {}
        self._counters: dict[str, FeedCounters] = {}
        self._lock = threading.Lock()
        self._unchanging = threading.Event()  # Cleared, it keeps poll from taking the lock again.
        self._unchanging.set()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def add(
        self,
        worker: str,
        endpoint: str,
        *,
        replay_endpoint: str = "",
        topic: str = "",
        ranks: int = 1,
    ) -> None:
        """Listens to a worker that the router knows. zmq.ZMQError for a bad endpoint.

        With `ranks`, to the ports behind these endpoints too, as kv_events.wire.endpoint_of_rank
        has them. Ranks that share an endpoint are told apart by what their batches say.
        """
        counters = FeedCounters()
        sources: list[Source] = []
        with contextlib.ExitStack() as unless_added, self._change():
            if worker in self._sources:
                raise ValueError(f"{worker!r} is listened to already: remove it first")
            for rank in range(ranks):
                endpoints = (endpoint_of_rank(each, rank) for each in (endpoint, replay_endpoint))
                about = (*endpoints, topic, self._patience_s, counters)
                source = Source(self._context, self._router, worker, *about)
                unless_added.callback(source.close)
                sources.append(source)
            unless_added.pop_all()
            self._sources[worker] = sources
            self._counters[worker] = counters
            for source in sources:
                for socket in source.sockets:
                    self._poller.register(socket, zmq.POLLIN)

    def remove(self, worker: str) -> None:
        """Listens no more; then the router may forget the worker. KeyError: it did not listen."""
        with self._change():
            del self._counters[worker]
            for source in self._sources.pop(worker):
                for socket in source.sockets:
                    self._poller.unregister(socket)
                source.close()

    def counters(self, worker: str) -> FeedCounters:
        """What has come of a worker. KeyError: it is not listened to."""
        return self._counters[worker]

    def poll(self, timeout_ms: int = 0) -> int:
        """Takes up what is there; waits for the first if there is nothing. Returns the batches."""
        self._unchanging.wait()
        with self._lock:
            if self._sources:
                ready = dict(self._poller.poll(min(timeout_ms, _POLL_MS)))
                return sum(source.work(ready) for source in self._all())
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
            for source in self._all():
                source.close()
            self._sources.clear()
        self._context.destroy(linger=0)

    def _all(self) -> Iterator[Source]:
        return itertools.chain.from_iterable(self._sources.values())

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
