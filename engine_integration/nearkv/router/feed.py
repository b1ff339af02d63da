"""One publisher's batches in their order: what is late, twice there, or missing."""

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterator

_MOST_WAITING = 65_536
_KEPT_NO_MORE = "the publisher does not keep it any more"


@dataclasses.dataclass(frozen=True)
class Lost:
    """Batches that cannot be had any more: what the publisher's worker has is not known."""

    reason: str


class Feed:
    """Puts batches into their order, and asks for those that are missing.

    A publisher numbers its batches from 0. One that is missed is asked for, and what comes in the
    meantime waits. If it is not sent again in time, or is no longer kept, take() says Lost once and
    goes on from what is there. A publisher that begins anew is Lost too. One thread uses it.
    """

    def __init__(
        self,
        ask: Callable[[int], None] | None,
        is_fresh: Callable[[bytes], bool],
        *,
        patience_s: float = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask(number)` asks for batches from there on; None: nobody can be asked.

        `is_fresh(batch)` says whether it clears before all else, so that nothing before it matters.
        """
        self._ask = ask
        self._is_fresh = is_fresh
        self._patience_s = patience_s
        self._clock = clock
        self._next = 0
        self._last_published = -1
        self._asked_until: float | None = None  # the time when what was asked for is lost
        self._waiting: deque[tuple[int, bytes]] = deque()

    def begin(self) -> None:
        """Asks for all that was published before; without an answer the first gap does."""
        if self._ask:
            self._ask(0)
            self._asked_until = self._clock() + self._patience_s

    @property
    def is_asking(self) -> bool:
        """Whether batches were asked for and have not come."""
        return self._asked_until is not None

    def published(self, number: int, batch: bytes) -> Iterator[bytes | Lost]:
        """A batch that the publisher sent to all."""
        begins_anew = number <= self._last_published
        self._last_published = number
        if begins_anew:
            yield Lost(f"the publisher began anew: batch {number} came after later ones")
            self._waiting.clear()
            self._asked_until = None
            self._next = 0
        if self._asked_until is None and number > self._next and not self._is_fresh(batch):
            if self._ask is None:
                yield Lost(self._missed(number) + " and no replay endpoint is known to ask at")
            else:
                self._ask(self._next)
                self._asked_until = self._clock() + self._patience_s
        if self._asked_until is None:
            yield from self._take(number, batch)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.append((number, batch))
        else:
            yield from self._give_up("too many batches came while it was asked for")

    def replayed(self, number: int, batch: bytes) -> Iterator[bytes | Lost]:
        """A batch that was asked for. Number -1 ends them."""
        if self._asked_until is None:
            return
        if number < 0:
            yield from self._give_up(_KEPT_NO_MORE)
        else:
            yield from self._go_on(number, batch, _KEPT_NO_MORE)

    def late(self) -> Iterator[bytes | Lost]:
        """Call it now and then: gives up what was asked for too long ago."""
        if self._asked_until is not None and self._clock() > self._asked_until:
            yield from self._give_up(f"it was not sent again within {self._patience_s} s")

    def _take(self, number: int, batch: bytes) -> Iterator[bytes]:
        if number >= self._next:
            self._next = number + 1
            yield batch

    def _give_up(self, reason: str) -> Iterator[bytes | Lost]:
        """Goes on with what waits; Lost only if there is still a gap before it."""
        waiting, self._waiting = self._waiting, deque()
        self._asked_until = None
        for number, batch in waiting:
            yield from self._go_on(number, batch, reason)

    def _go_on(self, number: int, batch: bytes, reason: str) -> Iterator[bytes | Lost]:
        """Takes it; what was to come before it is Lost."""
        if number > self._next and not self._is_fresh(batch):
            yield Lost(f"{self._missed(number)}: {reason}")
        yield from self._take(number, batch)

    def _missed(self, number: int) -> str:
        until = f" to {number - 1}" if number - 1 > self._next else ""
        return f"missed batch {self._next}{until}"
