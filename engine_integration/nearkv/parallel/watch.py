"""Who is alive: beats in the store of the process group, and the first failure, told to all."""

import threading
import time
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

    A thread of its own does both, several times in `bound_s`. A rank is dead when its beat has not
    changed for nearly that long; whoever knows of a failure writes it to the store, where all find
    it at their next beat. `host` is the rank whose process the store lives in: without it there is
    no store. Thread-safe.
    """

    def __init__(
        self, store: Store, rank: int, size: int, *, bound_s: float, host: int = 0
    ) -> None:
        self.bound_s = bound_s
        self.changed = threading.Condition()
        """Notified of a failure, and by whoever has something that a waiting thread awaits."""
        self.failure: RankFailed | None = None
        self._store, self._rank, self._size, self._host = store, rank, size, host
        self._period_s = min(1.0, bound_s / 8)
        self._keys = [f"beat/{other}" for other in range(size)]
        self._awaited: int | None = None
        self._seen = [""] * size  # The beat of each rank,
        self._seen_s = [0.0] * size  # and when it came.
        self._closed = threading.Event()
        self._beats = 0
        self._beat()
        try:
            store.wait(self._keys, timedelta(seconds=bound_s))
        except RuntimeError as error:
            raise RankFailed(self._absent(), f"did not come within {bound_s:g} s") from error
        self._thread = threading.Thread(target=self._run, name="nearkv watch", daemon=True)
        self._thread.start()

    @classmethod
    def over(cls, store: Store, name: str, rank: int, size: int, *, bound_s: float) -> "Watch":
        """A watch with keys of its own in a store that others use too."""
        return cls(PrefixStore(f"nearkv/{name}", store), rank, size, bound_s=bound_s)

    def awaits(self, peer: int | None) -> None:
        """Tells the others which rank this one waits for; None: it computes."""
        self._awaited = peer

    def check(self) -> None:
        """Raises RankFailed once any rank has failed."""
        if self.failure:
            raise RankFailed(self.failure.rank, self.failure.why)

    def blame(self, rank: int, why: str) -> None:
        """Makes this the failure of all ranks, unless there was one before."""
        try:
            said = self._store.compare_set(_FAILURE, "", f"{rank} {why}").decode()
        except RuntimeError:
            said = self._store_is_gone()
        self._fail(said)

    def blame_silent(self, peer: int) -> None:
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

    def close(self) -> None:
        """Tells that this rank leaves of its own accord. The host of the store leaves last."""
        self._closed.set()
        self._thread.join()
        try:
            self._store.set(self._keys[self._rank], _LEFT)
            until_s = time.monotonic() + self.bound_s
            while self._rank == self._host and not self.failure and time.monotonic() < until_s:
                if all(beat == _LEFT.encode() for beat in self._store.multi_get(self._keys)):
                    return
                self._listen()
                time.sleep(self._period_s / 8)
        except RuntimeError:
            return  # The host has left: so have all others, or they have failed.

    def _run(self) -> None:
        while not self._closed.wait(self._period_s) and not self.failure:
            try:
                self._beat()
                self._listen()
            except RuntimeError:
                self._fail(self._store_is_gone())

    def _beat(self) -> None:
        self._beats += 1
        awaited = "-" if self._awaited is None else str(self._awaited)
        self._store.set(self._keys[self._rank], f"{self._beats} {awaited}")

    def _listen(self) -> None:
        now_s = time.monotonic()
        for rank, beat in enumerate(self._store.multi_get(self._keys)):
            if beat.decode() != self._seen[rank]:
                self._seen[rank], self._seen_s[rank] = beat.decode(), now_s
        if self._store.check([_FAILURE]):
            self._fail(self._store.get(_FAILURE).decode())
            return
        for rank in range(self._size):
            if self._seen[rank] != _LEFT and self._age_s(rank) > self.bound_s - 2 * self._period_s:
                self.blame(rank, f"gave no sign of life for {self._age_s(rank):.1f} s")

    def _age_s(self, rank: int) -> float:
        return time.monotonic() - self._seen_s[rank]

    def _absent(self) -> int:
        return next(rank for rank, key in enumerate(self._keys) if not self._store.check([key]))

    def _store_is_gone(self) -> str:
        return f"{self._host} is gone, and with it the store of the process group"

    def _fail(self, said: str) -> None:
        rank, _, why = said.partition(" ")
        with self.changed:
            if self.failure is None:
                self.failure = RankFailed(int(rank), why)
            self.changed.notify_all()
