"""A worker as the extension knows it: its data-parallel ranks are workers of their own there."""

from typing import NamedTuple

import _nearkv

from nearkv.router.groups import CacheGroups


class WorkerLoad(NamedTuple):
    """Of requests that were started and have not ended."""

    requests: int
    prefill_tokens: int
    blocks: int


class RankedWorker:
    """One worker, whose ranks have each a cache, a queue and so a number of their own.

    Of a worker with one rank, others are added as batches name them: they share an address then
    that the router was not told of. Thread safety: one call at a time, but load() at any time.
    """

    def __init__(
        self, core: _nearkv.Router, name: str, is_pool: bool, rate: float, ranks: int
    ) -> None:
        """Error of the extension, and nothing is added."""
        self.name = name
        self.groups = CacheGroups()
        self.checks = 0
        """How many beginnings of prompts could have been hashed again."""
        self.has_parts = False
        """Whether it hashes by parts of its blocks."""
        self.numbers: list[int] = []
        self._core, self._is_pool, self._rate = core, is_pool, rate
        self._configured = ranks
        self._number_of: dict[int, int] = {}
        try:
            for _ in range(ranks):
                self._add()
        except BaseException:
            self.remove()
            raise

    def number(self, rank: int) -> int:
        """Of a rank; of one that was not known, a new one. Error of the extension.

        A worker on one of several machines has ranks that begin above 0: the rest counts.
        """
        if self._configured > 1:
            return self.numbers[rank % self._configured]
        if rank not in self._number_of:
            if self._number_of:
                self._add()
            self._number_of[rank] = self.numbers[-1]
        return self._number_of[rank]

    def rank(self, number: int) -> int | None:
        """Which of its ranks a number is, as its server counts them; None if that is not known."""
        return self.numbers.index(number) if self._configured > 1 else None

    def load(self) -> WorkerLoad:
        """Of all ranks. Error NOT_FOUND."""
        loads = [self._core.load(number) for number in list(self.numbers)]
        return WorkerLoad(
            sum(load.requests for load in loads),
            sum(load.prefill_tokens for load in loads),
            sum(load.blocks for load in loads),
        )

    def remove(self) -> None:
        """Forgets all of its ranks, and their blocks."""
        for place in range(len(self.numbers)):
            self._core.remove_worker(self._rank_name(place))

    def _add(self) -> None:
        name = self._rank_name(len(self.numbers))
        self.numbers.append(self._core.add_worker(name, self._is_pool, self._rate))

    def _rank_name(self, place: int) -> str:
        return f"{self.name} rank {place}" if place else self.name
