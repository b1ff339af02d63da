"""The engines behind a front end: how they do, and where a prompt goes."""

import asyncio
import contextlib
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from nearkv.core import Error, Status
from nearkv.router.config import RouterConfig, WorkerConfig
from nearkv.router.decision import Decision
from nearkv.router.discovery import Discovery
from nearkv.router.fleet import Fleet
from nearkv.router.hashes import scheme_of
from nearkv.router.metrics import RouterMetrics, RouterState
from nearkv.router.placing import Placed, Prompt, Refused
from nearkv.router.pool_room import PoolRoom
from nearkv.router.prompts import BadRequest, Tokenizer, adapter_of, tokens_of
from nearkv.router.router import Router
from nearkv.router.subscriber import EventSubscriber
from nearkv.router.unheard import Unheard
from nearkv.router.waiting import WaitingLine

_LOG = logging.getLogger("nearkv.router")
_SHORT_PROMPT_BYTES = 4096  # what is not worth a thread's time

PREFILL = ("prefill",)
DECODE = ("both", "decode")


class Engines:
    """Sends prompts to a fleet, and follows what becomes of it. One event loop uses it."""

    def __init__(self, config: RouterConfig, tokenizer: Tokenizer | None) -> None:
        """`tokenizer` is one of transformers', or None. Error or ValueError for bad options."""
        self.config = config
        self._tokenizer = tokenizer
        self._models = {name.strip() for name in config.models.split(",") if name.strip()}
        self._endpoints: dict[str, str] = {}  # of events, of those that are listened to
        self._discovery = Discovery(self, config.discovery) if config.discovery else None
        costs = config.costs
        costs.model.block_tokens, costs.model.block_bytes = config.block_tokens, config.block_bytes
        costs.mooncake.ttft_slo_s = config.ttft_slo_s
        self.router = Router(
            scheme_of(config.scheme, config.seed),
            policy=config.policy,
            cost=costs.model,
            dynamo=costs.dynamo,
            mooncake=costs.mooncake,
            index_limit_bytes=config.index_limit_bytes,
            media=costs.media,
        )
        self.fleet = Fleet(self.router, config.suspend_s)
        self.metrics = RouterMetrics(config.policy, self._state)
        self._room = PoolRoom()
        given = (config, self.router, self.fleet, self.metrics, self.start)
        self._lines = {roles: WaitingLine(roles, *given) for roles in (PREFILL, DECODE)}
        self._events: EventSubscriber | None = None
        self._unheard: Unheard | None = None
        for worker in config.workers:
            self._enlist(worker)
            self._take(worker)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Takes up the engines' events meanwhile, and who they are. zmq.ZMQError: bad endpoint."""
        events = EventSubscriber(self.router)
        for worker in self.config.workers:
            self._listen(events, worker)
        events.start()
        self._events = events
        self._unheard = Unheard(events, self._endpoints)
        try:
            async with self._discovery or contextlib.nullcontext():
                yield
        finally:
            self._events = self._unheard = None
            await asyncio.to_thread(events.close)

    async def add(self, worker: WorkerConfig) -> None:
        """One more engine or pool while listening() lasts.

        Error for a name that is there, or one too many. zmq.ZMQError for a bad endpoint of events:
        the engine is there, but nothing is known of its cache.
        """
        self._enlist(worker)
        self.change(worker)
        if self._events:
            await asyncio.to_thread(self._listen, self._events, worker)

    def change(self, worker: WorkerConfig) -> None:
        """Another address, role or limit of an engine that is there; its cache stays known."""
        self._take(worker)
        self._change_lines()

    async def remove(self, name: str) -> None:
        """One less: it gets nothing new, what it was sent goes on. Error NOT_FOUND."""
        self.fleet.remove(name)
        self._endpoints.pop(name, None)
        self._room.remove(name)
        self._change_lines()
        if self._events:
            with contextlib.suppress(KeyError):  # It was not listened to.
                await asyncio.to_thread(self._events.remove, name)
        await asyncio.to_thread(self.router.remove_worker, name)

    def suspend(self, worker: str, why: object) -> None:
        """It has failed: it gets nothing new for a while."""
        for_s = self.config.suspend_s
        self.fleet.suspend(worker)
        _LOG.warning("%s: nothing new for %s s", why, for_s)
        for line in self._lines.values():
            line.refuse_hopeless()
        asyncio.get_running_loop().call_later(for_s, self._go_on)

    def answered(self, worker: str, prompt: Prompt) -> None:
        """It has answered a prompt, of whose blocks it should have told."""
        if len(prompt.hashes) and self._unheard:
            self._unheard.answered(worker)

    def end(self) -> None:
        """Those that wait are refused, and nobody waits from now on."""
        for line in self._lines.values():
            line.end()

    async def prompt(self, raw: bytes) -> Prompt:
        """What a body asks for. BadRequest."""
        if len(raw) <= _SHORT_PROMPT_BYTES:
            return self._prompt(raw)
        return await asyncio.to_thread(self._prompt, raw)

    async def place(
        self,
        prompt: Prompt,
        roles: tuple[str, ...],
        *,
        among: Collection[str] | None = None,
        tenant: str = "",
    ) -> Placed:
        """The best engine of those that are up, have room, and are of `among`.

        `roles` is PREFILL or DECODE. Waits in turn while none has room. Refused: there is none, or
        none in time.
        """
        try:
            return await self._lines[roles].place(prompt, among, tenant)
        except Refused as refused:
            self.metrics.refusals.labels(str(refused.status)).inc()
            raise

    def start(self, prompt: Prompt, names: Sequence[str]) -> Placed:
        """The best engine of those named, however they do. Refused: by the policy.

        Where the pool that it stores in is short of room for the prompt, room is reserved at the
        best of those that store elsewhere.
        """
        try:
            with self.metrics.decision.time():
                decision = self.router.route(prompt.tokens, hashes=prompt.hashes, among=names)
                decision = self._with_pool_room(decision, prompt, names)
                started = self.router.start(decision)
        except Error as error:
            if error.status == Status.BUSY:
                raise Refused(error.strerror, 429, retry_after_s=1) from error
            raise
        _LOG.debug("%s", decision)
        self.metrics.count(decision)
        if prompt.waits and not len(prompt.hashes):
            self.metrics.unmatched.inc()
        room = self._room.reserve(decision.worker, self._stored_bytes(decision, prompt))
        return Placed(decision, started, room, self.metrics, self._go_on)

    def best(self, prompt: Prompt, names: Collection[str]) -> Decision | None:
        """The same without starting anything; None: the policy refuses."""
        with contextlib.suppress(Error):
            return self.router.route(prompt.tokens, hashes=prompt.hashes, among=list(names))
        return None

    def wants_prefill(self, prompt: Prompt) -> bool:
        """Whether one that prefills shall compute it first, because those that decode lack it."""
        if not self.fleet.up(PREFILL):
            return False
        if not (decoders := self.fleet.up(DECODE)):
            return True
        best = self.best(prompt, decoders)
        return best is not None and best.uncached_tokens >= self.config.prefill_from_tokens

    def health(self) -> dict[str, Any]:
        """What each engine has to do, and what the index holds."""
        up = self.fleet.up()
        stats = self.router.stats
        workers = {}
        for name in self.fleet.urls:
            load = self.router.load(name)
            workers[name] = {
                "up": name in up,
                "role": self.fleet.role(name),
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
        waiting = {roles[-1]: len(line) for roles, line in self._lines.items()}
        pools = {name: dataclasses.asdict(room) for name, room in self._room.state().items()}
        found = {"discovery": self._discovery.health()} if self._discovery else {}
        return {"workers": workers, "pools": pools, "waiting": waiting, "index": index} | found

    def _with_pool_room(self, decision: Decision, prompt: Prompt, names: Sequence[str]) -> Decision:
        """This one, or if its pool is short the best whose pool is not; this one, if all are."""
        found: Decision | None = decision
        while found and not self._room.has(found.worker, self._stored_bytes(found, prompt)):
            names = self._room.neighbours(found.worker, names)
            found = self.best(prompt, names) if names else None
        if found is not decision:
            self.metrics.short_pools.labels("nowhere" if found is None else "neighbour").inc()
        return found or decision

    def _stored_bytes(self, decision: Decision, prompt: Prompt) -> float:
        """Of the blocks that are to be computed, and then stored."""
        blocks = 0 if prompt.has_room else decision.uncached_tokens // self.config.block_tokens
        return blocks * self.config.block_bytes

    def _enlist(self, worker: WorkerConfig) -> None:
        self.router.add_worker(
            worker.name,
            is_pool=not worker.url,
            prefill_tokens_per_s=worker.prefill_tokens_per_s,
            ranks=worker.ranks,
        )

    def _take(self, worker: WorkerConfig) -> None:
        self._room.take(worker)
        if worker.url:
            self.fleet.take(worker)

    def _listen(self, events: EventSubscriber, worker: WorkerConfig) -> None:
        if worker.events:
            events.add(
                worker.name,
                worker.events,
                replay_endpoint=worker.replay,
                topic=worker.topic,
                ranks=worker.ranks,
            )
            self._endpoints[worker.name] = worker.events

    def _change_lines(self) -> None:
        for line in self._lines.values():
            line.change_engines()

    def _go_on(self) -> None:
        for line in self._lines.values():
            line.go_on()

    def _state(self) -> RouterState:
        up, names = self.fleet.up(), self.fleet.urls
        return RouterState(
            stats=self.router.stats,
            loads={name: self.router.load(name) for name in names},
            suspended={name: name not in up for name in names},
            waiting={roles[-1]: len(line) for roles, line in self._lines.items()},
            pools=self._room.state(),
            feeds={name: self._events.counters(name) for name in self._endpoints if self._events},
        )

    def _prompt(self, raw: bytes) -> Prompt:
        try:
            body: Any = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is no JSON: {error}") from error
        tokens = tokens_of(body, self._tokenizer)
        if isinstance(tokens, int):
            return Prompt(body, tokens, ())
        salt, adapter = body.get("cache_salt") or "", adapter_of(body, self._is_adapter)
        if not isinstance(salt, str) or body.get("extra_key"):  # What that does, SGLang knows.
            return Prompt(body, len(tokens), ())
        return Prompt(
            body, len(tokens), self.router.block_hashes(tokens, salt=salt, adapter=adapter)
        )

    def _is_adapter(self, name: str) -> bool:
        if self._models:
            return name not in self._models
        return name in self.router.adapters
