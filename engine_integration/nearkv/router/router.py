"""The router: workers by name, events as engines tell them, prompts as tokens."""

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import _nearkv
import numpy as np
from _nearkv import CostModel, DynamoWeights, MooncakeThresholds, RouterCounters, Tier, WorkerLoad

from nearkv.core import Error, Status
from nearkv.kv_events.wire import BlockHash, number_of
from nearkv.router.decision import Decision, StartedRequest
from nearkv.router.hashes import HashScheme, block_hashes, first_mismatch
from nearkv.router.media import tier_of

# Of each worker, as many beginnings of prompts are hashed again, and after them every so many.
_FIRST_CHECKS = 8
_CHECK_EVERY = 64
_CHECKED_BLOCKS = 4


class HashMismatch(ValueError):
    """A worker hashes otherwise than the router: its blocks could never be found."""


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
        self._media = {name.upper(): tier for name, tier in (media or {}).items()}
        self.core = _nearkv.Router(  # the extension's, for what waits in front
            policy,
            cost or CostModel(),
            dynamo or DynamoWeights(),
            mooncake or MooncakeThresholds(),
            index_limit_bytes,
        )
        self._numbers: dict[str, int] = {}
        self._checks: dict[str, int] = {}
        self._changing = threading.Lock()

    def add_worker(
        self, name: str, *, is_pool: bool = False, prefill_tokens_per_s: float = 0
    ) -> None:
        """A worker, or a pool whose blocks all workers can load. Error EXISTS."""
        with self._changing:
            self._numbers[name] = self.core.add_worker(name, is_pool, prefill_tokens_per_s)
            self._checks[name] = 0

    def remove_worker(self, name: str) -> None:
        """Forgets it and its blocks; stop its events first. Error NOT_FOUND."""
        with self._changing:
            self.core.remove_worker(name)
            del self._numbers[name], self._checks[name]

    @property
    def workers(self) -> list[str]:
        """Names of workers and pools."""
        return list(self._numbers)

    @property
    def block_tokens(self) -> int:
        """Of a block."""
        return self._block_tokens

    def load(self, worker: str) -> WorkerLoad:
        """What a worker has to do. Error NOT_FOUND."""
        return self.core.load(self._number(worker))

    @property
    def stats(self) -> RouterStats:
        """What the index holds now, and was told since the beginning."""
        core = self.core
        return RouterStats(core.blocks, core.memory_bytes, core.limit_bytes, core.counters)

    def apply(self, worker: str, events: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Takes up a worker's events, as kv_events.wire.decode_batch yields them.

        HashMismatch, and the worker's blocks are dropped, if it hashes otherwise. UnknownMedium
        for a place that is no tier, Error POOL_FULL for blocks that found no room, ValueError or
        TypeError for nonsense: what stood before it is taken up, that event and the rest are not.
        """
        number = self._number(worker)
        for kind, fields in events:
            if kind == "AllBlocksCleared":
                self.core.clear(number)
                continue
            hashes = _numbers_of(fields["block_hashes"])
            tier = tier_of(fields["medium"], self._media)
            if kind == "BlockRemoved":
                self.core.remove(number, tier, hashes)
                continue
            if text := self._mismatch(worker, fields):
                self.core.clear(number)
                raise HashMismatch(text)
            self.core.store(number, tier, hashes)

    def clear(self, worker: str) -> None:
        """Forgets a worker's blocks. Error NOT_FOUND."""
        self.core.clear(self._number(worker))

    def block_hashes(self, tokens: Sequence[int], *, salt: str = "") -> np.ndarray:
        """A prompt's blocks, for route()."""
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
        return Decision.of(self.core.route(hashes, count, self.numbers(among)), self.core)

    def cached_blocks(self, hashes: np.ndarray | Sequence[int]) -> dict[str, int]:
        """How many leading blocks of a prompt each worker and pool has."""
        blocks = self.core.match(hashes)
        return {
            name: blocks[number] if number < len(blocks) else 0
            for name, number in self._numbers.items()
        }

    def start(self, decision: Decision) -> StartedRequest:
        """Counts the request in the worker's load until it is finished. Error NOT_FOUND: gone."""
        return StartedRequest(self.core, self.core.start(decision.core))

    def numbers(self, workers: Iterable[str]) -> list[int]:
        """By which the extension knows workers. Error NOT_FOUND."""
        return [self._number(name) for name in workers]

    def _number(self, worker: str) -> int:
        try:
            return self._numbers[worker]
        except KeyError:
            known = ", ".join(self._numbers) or "none"
            raise _error(
                Status.NOT_FOUND, f"there is no worker {worker!r}: add_worker it; known are {known}"
            ) from None

    def _mismatch(self, worker: str, fields: Mapping[str, Any]) -> str:
        """What is wrong with a stored event's blocks; empty: nothing that can be seen."""
        size, own = fields["block_size"], self._block_tokens
        if size and size != own:
            return (
                f"{worker} has blocks of {size} tokens, the router of {own}: start the engine with"
                f" --block-size {own} (SGLang: --page-size {own}), or give the router a cost model"
                f" with block_tokens = {size}"
            )
        tokens = fields["token_ids"]
        if not tokens or fields["parent_block_hash"] is not None or fields["is_namespaced"]:
            return ""
        checks = self._checks[worker]
        self._checks[worker] = checks + 1
        if checks >= _FIRST_CHECKS and checks % _CHECK_EVERY:
            return ""
        tokens, told = tokens[: own * _CHECKED_BLOCKS], fields["block_hashes"]
        if first_mismatch(self._scheme, tokens, own, told) is None:
            return ""
        return (
            f"{worker} hashes blocks otherwise than {self._scheme.name}: start vLLM with"
            " --prefix-caching-hash-algo and PYTHONHASHSEED as the router's scheme and seed have"
            " them, or give the router the engine's"
        )


def _numbers_of(blocks: Iterable[BlockHash]) -> np.ndarray:
    return np.array([number_of(block) for block in blocks], dtype=np.uint64)


def _error(status: Status, text: str) -> Error:
    try:
        _nearkv.check(status, text)
    except Error as error:
        return error
    raise AssertionError(status)
