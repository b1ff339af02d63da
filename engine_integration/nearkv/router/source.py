"""The sockets of one publisher, or of some that share an address, and the order of what comes."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterable

import msgspec
import zmq

from nearkv.core import Error
from nearkv.kv_events.wire import decode_batch, rank_of
from nearkv.router.feed import Feed, Lost
from nearkv.router.media import UnknownMedium
from nearkv.router.router import Router
from nearkv.router.taking import HashMismatch, OtherBlockSize

_LOG = logging.getLogger("nearkv.router")


@dataclasses.dataclass
class FeedCounters:
    """Of one worker's events, since it was added."""

    batches: int = 0
    gaps: int = 0  # times that batches had been missed and were asked for again
    dropped: int = 0  # times that all of the worker's blocks were dropped, because some were missed
    malformed: int = 0  # batches that were none
    unknown_media: int = 0
    other_sizes: int = 0  # batches with blocks of a size that cannot be used
    refused: int = 0  # batches with blocks for which the index had no room
    mismatch: str = ""  # why the worker is not listened to any more


class Source:
    """What one address brings of a worker. Each data-parallel rank numbers its own batches."""

    def __init__(
        self,
        context: zmq.Context,
        router: Router,
        worker: str,
        endpoint: str,
        replay_endpoint: str,
        topic: str,
        patience_s: float,
        counters: FeedCounters,
    ) -> None:
        """`counters` are all of the worker's. zmq.ZMQError for a bad endpoint."""
        self._router = router
        self._worker = worker
        self._patience_s = patience_s
        self._counters = counters
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
        # What was there before is asked for once; whose it is, is known when it comes.
        self._first: Feed | None = self._begun()
        self._feeds: dict[int, Feed] = {}

    def work(self, ready: dict[zmq.Socket, int]) -> int:
        """Takes up what its sockets have; returns the batches."""
        before = self._counters.batches
        if self._replay in ready:
            for number, batch in _received(self._replay):
                if number < 0:
                    for rank, feed in self._all():
                        self._take(rank, feed.replayed(number, batch))
                elif (rank := self._rank(batch)) is not None:
                    self._take(rank, self._feeds[rank].replayed(number, batch))
        if self._events in ready:
            for number, batch in _received(self._events):
                if (rank := self._rank(batch)) is not None:
                    self._take(rank, self._feeds[rank].published(number, batch))
        for rank, feed in self._all():
            self._take(rank, feed.late())
        return self._counters.batches - before

    def close(self) -> None:
        """Closes the sockets."""
        for socket in self.sockets:
            socket.close(linger=0)

    def _all(self) -> list[tuple[int, Feed]]:
        return [*self._feeds.items(), *([(0, self._first)] if self._first else [])]

    def _rank(self, batch: bytes) -> int | None:
        """Whose it is, with a feed; None for what is no batch, if there are several ranks."""
        try:
            rank = rank_of(batch)
        except msgspec.DecodeError as error:
            if len(self._feeds) > 1:
                self._drop_malformed(error)
                return None
            rank = next(iter(self._feeds), 0)
        if rank not in self._feeds:
            self._feeds[rank] = self._first or self._begun()
            self._first = None
        return rank

    def _begun(self) -> Feed:
        gaps = self._counters.gaps
        ask = self._ask if self._replay else None
        feed = Feed(ask, _clears_first, patience_s=self._patience_s)
        feed.begin()
        self._counters.gaps = gaps  # What was there before is none.
        return feed

    def _ask(self, number: int) -> None:
        assert self._replay
        self._counters.gaps += 1
        self._replay.send_multipart([b"", number.to_bytes(8, "big")])

    def _take(self, rank: int, told: Iterable[bytes | Lost]) -> None:
        for each in told:
            if self._counters.mismatch:
                continue
            if isinstance(each, Lost):
                self._drop(each.reason, rank)
                continue
            self._counters.batches += 1
            self._apply(rank, each)

    def _apply(self, rank: int, batch: bytes) -> None:
        counters = self._counters
        try:
            self._router.apply(self._worker, decode_batch(batch), rank)
        except HashMismatch as error:
            counters.mismatch = str(error)
            _LOG.error("%s; its events are ignored from now on", error)
        except UnknownMedium as error:
            counters.unknown_media += 1
            self._tell_first(counters.unknown_media, error)
        except OtherBlockSize as error:
            counters.other_sizes += 1
            self._tell_first(counters.other_sizes, error)
        except Error as error:
            counters.refused += 1
            self._tell_first(counters.refused, error)
        except (msgspec.DecodeError, ValueError, TypeError, KeyError) as error:
            self._drop_malformed(error)

    def _tell_first(self, times: int, error: Exception) -> None:
        if times == 1:
            _LOG.warning("%s: %s", self._worker, error)

    def _drop_malformed(self, error: Exception) -> None:
        self._counters.malformed += 1
        self._drop(f"a batch is none of KV events ({error})", None)

    def _drop(self, reason: str, rank: int | None) -> None:
        self._counters.dropped += 1
        with contextlib.suppress(Error):  # The router has forgotten the worker itself.
            self._router.clear(self._worker, rank)
        _LOG.warning(
            "%s: %s. Its blocks are dropped, until its events tell of them again",
            self._worker if not rank else f"{self._worker}, rank {rank}",
            reason,
        )


def _received(socket: zmq.Socket) -> Iterable[tuple[int, bytes]]:
    """Numbers and batches of the messages that are there and have both."""
    while True:
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        if len(frames) >= 2 and len(frames[-2]) == 8:
            yield int.from_bytes(frames[-2], "big", signed=True), frames[-1]


def _clears_first(batch: bytes) -> bool:
    try:
        return next(iter(decode_batch(batch)), ("", {}))[0] == "AllBlocksCleared"
    except (msgspec.DecodeError, ValueError, TypeError):
        return False
