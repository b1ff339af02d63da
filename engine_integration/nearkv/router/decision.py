"""Where a request goes, why, and its part in that worker's load."""

import dataclasses
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Self

import _nearkv
from _nearkv import Tier

from nearkv.router.ranks import RankedWorker, WorkerLoad

_TIERS = (Tier.GPU, Tier.DRAM, Tier.CXL, Tier.SHARED)


@dataclasses.dataclass(frozen=True)
class Decision:
    """A worker for a prompt. `str()` of it is one line for a log."""

    worker: str
    rank: int | None  # of the worker's ranks, if it was added with several
    cost: float  # in the policy's unit: seconds, blocks or requests
    reason: str
    prefix: Mapping[Tier, int]  # blocks of the prompt that the worker can use, by where they lie
    blocks: int  # whole ones, of the prompt
    uncached_tokens: int  # to be computed
    load: WorkerLoad  # what the worker had to do before
    copy_from: str | None  # Mooncake: whose longer prefix is to be copied first
    longest_worker: str  # who has most of the prompt,
    longest_blocks: int  # and how much
    candidates: int
    core: _nearkv.RouteDecision = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of(cls, core: _nearkv.RouteDecision, workers: Mapping[int, RankedWorker]) -> Self:
        """Names the workers of a decision of the extension, by its numbers."""

        def name(number: int) -> str:
            worker = workers.get(number)
            return worker.name if worker else ""

        chosen = workers.get(core.worker)
        return cls(
            worker=name(core.worker),
            rank=chosen.rank(core.worker) if chosen else None,
            cost=core.cost,
            reason=core.reason,
            prefix=dict(zip(_TIERS, core.prefix, strict=True)),
            blocks=core.blocks,
            uncached_tokens=core.uncached_tokens,
            load=WorkerLoad(core.load.requests, core.load.prefill_tokens, core.load.blocks),
            copy_from=None if core.copy_from is None else name(core.copy_from),
            longest_worker=name(core.longest_worker),
            longest_blocks=core.longest_blocks,
            candidates=core.candidates,
            core=core,
        )

    @property
    def cached_blocks(self) -> int:
        """Of the prompt, that the worker need not compute."""
        return sum(self.prefix.values())

    def __str__(self) -> str:
        places = ", ".join(
            f"{tier.name.lower()} {count}" for tier, count in self.prefix.items() if count
        )
        at = self.worker if self.rank is None else f"{self.worker} rank {self.rank}"
        words = [
            f"{at} of {self.candidates}: {self.reason} ({self.cost:.4g})",
            f"has {self.cached_blocks} of {self.blocks} blocks"
            + (f" ({places})" if places else ""),
            f"computes {self.uncached_tokens} tokens behind {self.load.prefill_tokens}"
            f" of {self.load.requests} requests",
        ]
        if self.copy_from:
            words.append(f"copies from {self.copy_from}")
        if self.longest_blocks > self.cached_blocks:
            words.append(f"{self.longest_worker} has {self.longest_blocks}")
        return "; ".join(words)


class StartedRequest(AbstractContextManager):
    """A request at a worker, counted in its load until finish(). A context manager.

    Thread safety: one thread at a time.
    """

    def __init__(self, router: _nearkv.Router, ticket: _nearkv.RouteTicket) -> None:
        self._router = router
        self._ticket = ticket

    def first_token(self) -> None:
        """Its prompt is computed."""
        self._router.first_token(self._ticket)

    def finish(self) -> None:
        """It has ended, in whatever way; the second time nothing happens."""
        self._router.finish(self._ticket)

    def __exit__(self, *exception: object) -> None:
        self.finish()
