"""Who is alive: beats in the store of the process group, and the first failure, told to all."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import PrefixStore, Store

_FAILURE = "failure"
_LEFT = "left"


class RankFailed(RuntimeError):
    """A rank died, hangs, or failed: the same rank on every rank that is left."""

    def __init__(self, rank: int, why: str) -> None:
        super().__init__(f"rank {rank} {why}")
        self.rank, self.why = rank, why


class Watch:
    """Beats for this rank, listens to the others' beats, and holds the first failure of any.

    A thread of its own does both, several times in `bound_s`, and it alone calls the store, which
    may never answer. A rank is dead when its beat has not changed for nearly `bound_s`; whoever
    knows of a failure has it written to the store, where all find it at their next beat. `host` is
    the rank whose process the store lives in. Thread-safe.
    """

    def __init__(
        self, store: Store, rank: int, size: int, *, bound_s: float, host: int = 0
    ) -> None:
        self.bound_s = bound_s
        self.changed = threading.Condition()
        """To be notified by whoever has something that wait_for() awaits."""
        self.failure: RankFailed | None = None
        self._store, self._rank, self._size, self._host = store, rank, size, host
        self._period_s = min(1.0, bound_s / 8)
        self._keys = [f"beat/{other}" for other in range(size)]
        self._awaited: int | None = None
        self._accusation: str | None = None
        self._seen = [""] * size  # The beat of each rank,
        self._seen_s = [0.0] * size  # and when it came.
        self._is_closed = False
        self._woken = threading.Event()
        self._beats = 0
        self._beat()
        try:
            store.wait(self._keys, timedelta(seconds=bound_s))
        except RuntimeError as error:
            raise RankFailed(self._absent(), f"did not come within {bound_s:g} s") from error
        self._answered_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="nearkv watch", daemon=True)
        self._thread.start()

    @classmethod
    def over(cls, store: Store, name: str, rank: int, size: int, *, bound_s: float) -> "Watch":
        """A watch with keys of its own in a store that others use too, by its own connection."""
        return cls(PrefixStore(f"nearkv/{name}", store.clone()), rank, size, bound_s=bound_s)

    def wait_for(self, is_done: Callable[[], bool], peer: int) -> None:
        """Until it is done, or any rank has failed: `peer`, which it awaits, when the bound is up.

        The others are told which rank is awaited.
        """
        self._awaited = peer
        until_s = time.monotonic() + self.bound_s
        with self.changed:
            while not is_done() and not self.failure:
                self.changed.wait(self._period_s)
                self._check_store()
                if time.monotonic() > until_s and not is_done():
                    self._blame_silent(peer)
        self._awaited = None

    def check(self) -> None:
        """Raises RankFailed once any rank has failed, RuntimeError after close()."""
        self._check_store()
        if self.failure:
            raise RankFailed(self.failure.rank, self.failure.why)
        if self._is_closed:
            raise RuntimeError("these links are closed")

    def blame(self, rank: int, why: str) -> None:
        """Makes this the failure of all ranks, unless there was one before."""
        with self.changed:
            self._accusation = self._accusation or f"{rank} {why}"
            self._woken.set()
            while not self.failure and not self._is_closed:
                self.changed.wait(self._period_s)
                self._check_store()

    def close(self) -> None:
        """Tells that this rank leaves of its own accord. The host of the store leaves last."""
        self._is_closed = True
        self._woken.set()
        self._thread.join(self.bound_s)

    def _blame_silent(self, peer: int) -> None:
        """Blames the rank that `peer`, from which nothing came in time, itself waits for."""
        passed: list[int] = []
        rank = peer
        while rank not in passed:
            passed.append(rank)
            awaited = self._seen[rank].rpartition(" ")[2]
            if self._age_s(rank) > 3 * self._period_s or not awaited.isdigit():
                break
            rank = int(awaited)
        else:
            rank = peer
        self.blame(rank, f"sent nothing for {self.bound_s:g} s")

    def _run(self) -> None:
        try:
            while not self._is_closed and not self.failure:
                self._beat()
                self._listen()
                self._woken.wait(self._period_s)
                self._woken.clear()
            if not self.failure:
                self._leave()
        except RuntimeError:
            self._fail(self._no_store())

    def _beat(self) -> None:
        self._beats += 1
        awaited = "-" if self._awaited is None else str(self._awaited)
        self._store.set(self._keys[self._rank], f"{self._beats} {awaited}")

    def _listen(self) -> None:
        beats = self._store.multi_get(self._keys)
        now_s = self._answered_s = time.monotonic()
        for rank, beat in enumerate(beats):
            if beat.decode() != self._seen[rank]:
                self._seen[rank], self._seen_s[rank] = beat.decode(), now_s
        for rank in range(self._size):
            age_s = now_s - self._seen_s[rank]
            if self._seen[rank] != _LEFT and age_s > self._patience_s:
                self._accusation = self._accusation or (
                    f"{rank} gave no sign of life for {age_s:.1f} s"
                )
        if self._accusation:
            self._fail(self._store.compare_set(_FAILURE, "", self._accusation).decode())
        elif self._store.check([_FAILURE]):
            self._fail(self._store.get(_FAILURE).decode())

    def _leave(self) -> None:
        self._store.set(self._keys[self._rank], _LEFT)
        until_s = time.monotonic() + self.bound_s
        while self._rank == self._host and not self.failure and time.monotonic() < until_s:
            self._listen()
            if all(beat == _LEFT for beat in self._seen):
                return
            time.sleep(self._period_s / 8)

    @property
    def _patience_s(self) -> float:
        return self.bound_s - 2 * self._period_s

    def _age_s(self, rank: int) -> float:
        return time.monotonic() - self._seen_s[rank]

    def _absent(self) -> int:
        return next(rank for rank, key in enumerate(self._keys) if not self._store.check([key]))

    def _check_store(self) -> None:
        if not self._is_closed and time.monotonic() - self._answered_s > self._patience_s:
            self._fail(self._no_store())

    def _no_store(self) -> str:
        return f"{self._host} does not answer, whose process holds the process group's store"

    def _fail(self, said: str) -> None:
        rank, _, why = said.partition(" ")
        with self.changed:
            if self.failure is None:
                self.failure = RankFailed(int(rank), why)
            self.changed.notify_all()
