"""The engines behind a front end: who may be sent something, and where a prompt goes."""

import asyncio
import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from nearkv.core import Error, Status
from nearkv.router.config import ROLES, RouterConfig
from nearkv.router.decision import Decision, StartedRequest
from nearkv.router.hashes import scheme_of
from nearkv.router.prompts import BadRequest, Tokenizer, tokens_of
from nearkv.router.router import CostModel, MooncakeThresholds, Router
from nearkv.router.subscriber import EventSubscriber

_LOG = logging.getLogger("nearkv.router")
_SHORT_PROMPT_BYTES = 4096  # what is not worth a thread's time

PREFILL = ("prefill",)
DECODE = ("both", "decode")

Hashes = np.ndarray | Sequence[int]


class Refused(RuntimeError):
    """A request that is sent to no engine; `text` says why, for the client."""

    def __init__(self, text: str, status: int, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.retry_after_s = retry_after_s


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A request's body, how many tokens its prompt has, and the hashes of its blocks."""

    body: Mapping[str, Any]
    tokens: int
    hashes: Hashes


NO_PROMPT = Prompt({}, 1, ())  # Of a request that computes none, or one that cannot be read.


@dataclasses.dataclass
class Placed:
    """A request at an engine, counted in its load until finish(). A context manager."""

    decision: Decision
    started: StartedRequest

    @property
    def worker(self) -> str:
        """The engine's name."""
        return self.decision.worker

    def finish(self) -> None:
        """It has ended, in whatever way; the second time nothing happens."""
        self.started.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish()


class Engines:
    """Who the engines are, and how they do. One event loop uses it."""

    def __init__(self, config: RouterConfig, tokenizer: Tokenizer | None) -> None:
        """`tokenizer` is one of transformers', or None. Error or ValueError for bad options."""
        self.config = config
        self.urls = {worker.name: worker.url.rstrip("/") for worker in config.workers if worker.url}
        self._tokenizer = tokenizer
        self._roles = {worker.name: worker.role for worker in config.workers}
        self._suspended_until: dict[str, float] = {}
        cost, mooncake = CostModel(), MooncakeThresholds()
        cost.block_tokens, cost.block_bytes = config.block_tokens, config.block_bytes
        mooncake.ttft_slo_s = config.ttft_slo_s
        self.router = Router(
            scheme_of(config.scheme, config.seed),
            policy=config.policy,
            cost=cost,
            mooncake=mooncake,
            index_limit_bytes=config.index_limit_bytes,
        )
        for worker in config.workers:
            self.router.add_worker(
                worker.name,
                is_pool=not worker.url,
                prefill_tokens_per_s=worker.prefill_tokens_per_s,
            )

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Takes up the engines' events meanwhile. zmq.ZMQError for a bad endpoint."""
        events = EventSubscriber(self.router)
        for worker in self.config.workers:
            if worker.events:
                events.add(
                    worker.name, worker.events, replay_endpoint=worker.replay, topic=worker.topic
                )
        events.start()
        try:
            yield
        finally:
            await asyncio.to_thread(events.close)

    def up(self, roles: Collection[str] = ROLES) -> list[str]:
        """Those that may be sent something."""
        now = time.monotonic()
        return [
            name
            for name in self.urls
            if self._suspended_until.get(name, 0) <= now and self._roles[name] in roles
        ]

    def suspend(self, worker: str, why: object) -> None:
        """It has failed: it gets nothing new for a while."""
        self._suspended_until[worker] = time.monotonic() + self.config.suspend_s
        _LOG.warning("%s: nothing new for %s s", why, self.config.suspend_s)

    def resume(self) -> None:
        """Engines that failed may be sent something again."""
        self._suspended_until.clear()

    async def prompt(self, raw: bytes) -> Prompt:
        """What a body asks for. BadRequest."""
        if len(raw) <= _SHORT_PROMPT_BYTES:
            return self._prompt(raw)
        return await asyncio.to_thread(self._prompt, raw)

    async def place(
        self, prompt: Prompt, roles: Collection[str], *, among: Collection[str] | None = None
    ) -> Placed:
        """The best engine of those that are up, and of `among`. Refused: there is none."""
        names = [name for name in self.up(roles) if among is None or name in among]
        if not names:
            raise self.none_answers()
        return self.start(prompt, names)

    def start(self, prompt: Prompt, names: Sequence[str]) -> Placed:
        """The best engine of those named, whether they are up or not. Refused: the policy's."""
        try:
            decision = self.router.route(prompt.tokens, hashes=prompt.hashes, among=names)
            placed = Placed(decision, self.router.start(decision))
        except Error as error:
            if error.status == Status.BUSY:
                raise Refused(error.strerror, 429, retry_after_s=1) from error
            raise
        _LOG.debug("%s", decision)
        return placed

    def best(self, prompt: Prompt, names: Collection[str]) -> Decision | None:
        """The same without starting anything; None: the policy refuses."""
        with contextlib.suppress(Error):
            return self.router.route(prompt.tokens, hashes=prompt.hashes, among=list(names))
        return None

    def none_answers(self, why: str = "") -> Refused:
        """What a client is told when no engine is left."""
        why = why or f"all have failed within the last {self.config.suspend_s} s"
        return Refused(f"no engine answers ({why}): look at /health", 503)

    def wants_prefill(self, prompt: Prompt) -> bool:
        """Whether one that prefills shall compute it first, because those that decode lack it."""
        if not self.up(PREFILL):
            return False
        if not (decoders := self.up(DECODE)):
            return True
        best = self.best(prompt, decoders)
        return best is not None and best.uncached_tokens >= self.config.prefill_from_tokens

    def health(self) -> dict[str, Any]:
        """What each engine has to do, and what the index holds."""
        up = self.up()
        stats = self.router.stats
        workers = {}
        for name in self.urls:
            load = self.router.load(name)
            workers[name] = {
                "up": name in up,
                "role": self._roles[name],
                "requests": load.requests,
                "prefill_tokens": load.prefill_tokens,
                "blocks": load.blocks,
            }
        index = {
            "blocks": stats.blocks,
            "memory_bytes": stats.memory_bytes,
            "limit_bytes": stats.limit_bytes,
            "refused": stats.counters.refused,
        }
        return {"workers": workers, "index": index}

    def _prompt(self, raw: bytes) -> Prompt:
        try:
            body: Any = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is no JSON: {error}") from error
        tokens = tokens_of(body, self._tokenizer)
        if isinstance(tokens, int):
            return Prompt(body, tokens, ())
        return Prompt(body, len(tokens), self.router.block_hashes(tokens))
