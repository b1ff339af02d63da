"""The router: workers by name, events as engines tell them, prompts as tokens."""

import dataclasses
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import _nearkv
import numpy as np
from _nearkv import CostModel, DynamoWeights, MooncakeThresholds, RouterCounters, Tier

from nearkv.core import Error, Status
from nearkv.router.decision import Decision, StartedRequest
from nearkv.router.hashes import HashScheme, block_hashes
from nearkv.router.ranks import RankedWorker, WorkerLoad
from nearkv.router.taking import Events, EventTaker, HashMismatch
from nearkv.router.told import ToldBlocks


@dataclasses.dataclass(frozen=True)
class RouterStats:
    """What the index holds and was told."""

    blocks: int
    memory_bytes: int
    limit_bytes: int
    counters: RouterCounters


class Router:
    """Which worker a prompt goes to. Policies: round_robin, least_load, longest_prefix, dynamo,
    mooncake, least_ttft.

    Thread safety: every call from any thread; events of one worker from one thread at a time.
    Decisions do not wait for events.
    """  # noqa: D205

    def __init__(
        self,
        scheme: HashScheme,
        *,
        policy: str = "least_ttft",
        cost: CostModel | None = None,
        dynamo: DynamoWeights | None = None,
        mooncake: MooncakeThresholds | None = None,
        index_limit_bytes: int = 1 << 30,
        media: Mapping[str, Tier] | None = None,
    ) -> None:
        """`media`: tiers of places that the router does not know. Error for bad options."""
        self._scheme = scheme
        self._block_tokens = (cost or CostModel()).block_tokens
        self.core = _nearkv.Router(  # the extension's, for what waits in front
            policy,
            cost or CostModel(),
            dynamo or DynamoWeights(),
            mooncake or MooncakeThresholds(),
            index_limit_bytes,
        )
        self._told = ToldBlocks()
        tiers = {name.upper(): tier for name, tier in (media or {}).items()}
        self._taker = EventTaker(self.core, scheme, self._block_tokens, tiers, self._told)
        self._workers: dict[str, RankedWorker] = {}
        self._of_number: dict[int, RankedWorker] = {}
        self._changing = threading.Lock()

    def add_worker(
        self, name: str, *, is_pool: bool = False, prefill_tokens_per_s: float = 0, ranks: int = 1
    ) -> None:
        """A worker, or a pool whose blocks all workers can load. Error EXISTS.

        `ranks`: data-parallel ones behind its address, each of which is chosen by itself.
        """
        with self._changing:
            worker = RankedWorker(self.core, name, is_pool, prefill_tokens_per_s, ranks)
            self._workers[name] = worker
            self._of_number |= dict.fromkeys(worker.numbers, worker)

    def remove_worker(self, name: str) -> None:
        """Forgets it and its blocks; stop its events first. Error NOT_FOUND."""
        with self._changing:
            worker = self._worker(name)
            for number in worker.numbers:
                del self._of_number[number]
            del self._workers[name]
            worker.remove()

    @property
    def workers(self) -> list[str]:
        """Names of workers and pools."""
        return list(self._workers)

    @property
    def block_tokens(self) -> int:
        """Of a block."""
        return self._block_tokens

    def load(self, worker: str) -> WorkerLoad:
        """What a worker has to do. Error NOT_FOUND."""
        return self._worker(worker).load()

    @property
    def stats(self) -> RouterStats:
        """What the index holds now, and was told since the beginning."""
        core = self.core
        return RouterStats(core.blocks, core.memory_bytes, core.limit_bytes, core.counters)

    def apply(self, worker: str, events: Events, rank: int = 0) -> None:
        """Takes up events of a worker's rank, as kv_events.wire.decode_batch yields them.

        HashMismatch, and the worker's blocks are dropped, if it hashes otherwise; ValueError or
        TypeError for nonsense: what stood before it is taken up, that event and the rest are not.
        UnknownMedium for a place that is no tier, OtherBlockSize, or Error POOL_FULL for blocks
        that found no room, when all other events have been taken up.
        """
        known = self._worker(worker)
        try:
            self._taker.take(known, self._number_of(known, rank), events)
        except HashMismatch:
            self.clear(worker)
            raise

    def clear(self, worker: str, rank: int | None = None) -> None:
        """Forgets the blocks of a worker, or of one of its ranks. Error NOT_FOUND."""
        known = self._worker(worker)
        for number in known.numbers if rank is None else [self._number_of(known, rank)]:
            self.core.clear(number)

    @property
    def adapters(self) -> Collection[str]:
        """Names of adapters (LoRA) of which workers have told."""
        return self._told.adapters

    def block_hashes(
        self, tokens: Sequence[int], *, salt: str = "", adapter: str = ""
    ) -> np.ndarray:
        """A prompt's blocks, for route(); of an adapter's, those that any worker has told of."""
        if adapter:
            return self._told.find(adapter, salt, tokens, self._block_tokens)
        return block_hashes(self._scheme, tokens, self._block_tokens, salt)

    def route(
        self,
        tokens: Sequence[int] | int,
        *,
        hashes: np.ndarray | Sequence[int] | None = None,
        salt: str = "",
        among: Sequence[str] = (),
    ) -> Decision:
        """A worker for a prompt: its tokens, or their number and the hashes of its blocks.

        Error NOT_FOUND without workers, or without those of `among`; BUSY if the policy refuses the
        request; BAD_ARGUMENT for more blocks than tokens.
        """
        if isinstance(tokens, int):
            count = tokens
            hashes = () if hashes is None else hashes
        else:
            count = len(tokens)
            hashes = self.block_hashes(tokens, salt=salt) if hashes is None else hashes
        decided = self.core.route(hashes, count, self.numbers(among))
        return Decision.of(decided, self._of_number)

    def cached_blocks(self, hashes: np.ndarray | Sequence[int]) -> dict[str, int]:
        """How many leading blocks of a prompt each worker and pool has."""
        blocks = self.core.match(hashes)
        return {
            name: max((blocks[n] for n in worker.numbers if n < len(blocks)), default=0)
            for name, worker in self._workers.items()
        }

    def start(self, decision: Decision) -> StartedRequest:
        """Counts the request in the worker's load until it is finished. Error NOT_FOUND: gone."""
        return StartedRequest(self.core, self.core.start(decision.core))

    def numbers(self, workers: Iterable[str]) -> list[int]:
        """By which the extension knows workers' ranks. Error NOT_FOUND."""
        return [number for name in workers for number in self._worker(name).numbers]

    def _number_of(self, worker: RankedWorker, rank: int) -> int:
        with self._changing:
            number = worker.number(rank)
            self._of_number[number] = worker
            return number

    def _worker(self, name: str) -> RankedWorker:
        try:
            return self._workers[name]
        except KeyError:
            known = ", ".join(self._workers) or "none"
            raise _error(
                Status.NOT_FOUND, f"there is no worker {name!r}: add_worker it; known are {known}"
            ) from None


def _error(status: Status, text: str) -> Error:
    try:
        _nearkv.check(status, text)
    except Error as error:
        return error
    raise AssertionError(status)
