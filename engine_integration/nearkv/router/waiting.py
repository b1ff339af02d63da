"""Requests that wait while all engines are at their limit: k-LPM's order, fair among tenants."""

import asyncio
import dataclasses
import hashlib
import itertools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from nearkv.core import Error, Status
from nearkv.router.config import RouterConfig
from nearkv.router.fleet import Fleet
from nearkv.router.metrics import RouterMetrics
from nearkv.router.placing import Placed, Prompt, Refused
from nearkv.router.queue import KlpmQueue
from nearkv.router.router import Router

_KEY_DIGITS = 16


@dataclasses.dataclass(frozen=True)
class _Waiter:
    prompt: Prompt
    tenant: str
    wanted: Collection[str] | None  # None: any of the line's roles
    among: frozenset[str]  # of those that there are
    placed: asyncio.Future[Placed]
    since_s: float


class WaitingLine:
    """In front of engines of some roles. One event loop uses it.

    Who comes when an engine has room goes there at once. Else it waits until one has, at most
    queue_timeout_s, and among at most queue_length others.
    """

    def __init__(
        self,
        roles: Collection[str],
        config: RouterConfig,
        router: Router,
        fleet: Fleet,
        metrics: RouterMetrics,
        start: Callable[[Prompt, Sequence[str]], Placed],
    ) -> None:
        """`start` sends a prompt to the best engine of those named. Refused: by the policy."""
        self._roles = roles
        self._fleet = fleet
        self._metrics = metrics
        self._start = start
        self._block_tokens = router.block_tokens
        self._timeout_s = config.queue_timeout_s
        self._queue = KlpmQueue(router, k=config.queue_k, most=config.queue_length)
        self._waiters: dict[int, _Waiter] = {}
        self._numbers = itertools.count()
        self._last_wait_s = 0.0
        self._has_ended = False

    def __len__(self) -> int:
        return len(self._waiters)

    async def place(self, prompt: Prompt, among: Collection[str] | None, tenant: str) -> Placed:
        """An engine of those that are up, and of `among`. Refused: there is none, or none in time.

        Cancelled, it leaves nothing behind.
        """
        names = self._fleet.up(self._roles, among)
        if not names:
            raise self._fleet.none_answers()
        if not prompt.waits:
            return self._start(prompt, names)
        if not self._waiters and (free := self._fleet.with_room(names)):
            return self._start(prompt, free)
        return await self._wait(prompt, among, tenant)

    def go_on(self) -> None:
        """Sends on whoever can go now; to be called when an engine has room again."""
        while self._waiters:
            free = self._fleet.with_room(self._fleet.up(self._roles))
            if not free or (number := self._queue.pop(free)) is None:
                return
            waiter = self._waiters.pop(number)
            if waiter.placed.done():  # Its client has gone a moment ago.
                continue
            self._last_wait_s = time.monotonic() - waiter.since_s
            self._metrics.queue_wait.observe(self._last_wait_s)
            try:
                waiter.placed.set_result(
                    self._start(waiter.prompt, [name for name in free if name in waiter.among])
                )
            except Refused as refused:
                waiter.placed.set_exception(refused)

    def refuse_hopeless(self) -> None:
        """Those for whom no engine is up any more learn of it."""
        up = set(self._fleet.up(self._roles))
        for number, waiter in list(self._waiters.items()):
            if not up & waiter.among:
                self._refuse(number, self._fleet.none_answers())

    def change_engines(self) -> None:
        """Who waits may go to those that there are now; to be called when one came or goes."""
        for number, waiter in list(self._waiters.items()):
            among = self._fleet.named(self._roles, waiter.wanted)
            if not among:
                self._refuse(number, self._fleet.none_answers())
            elif among != waiter.among:
                # The queue knows them by numbers, which others may have tomorrow.
                self._queue.erase(number)
                self._waiters[number] = dataclasses.replace(waiter, among=among)
                self._push(number, self._waiters[number])
        self.go_on()

    def end(self) -> None:
        """Nobody waits any more, now or later."""
        self._has_ended = True
        for number in list(self._waiters):
            self._refuse(number, _ending())

    async def _wait(self, prompt: Prompt, wanted: Collection[str] | None, tenant: str) -> Placed:
        if self._has_ended:
            raise _ending()
        number = next(self._numbers)
        among = self._fleet.named(self._roles, wanted)
        placed: asyncio.Future[Placed] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(prompt, tenant, wanted, among, placed, time.monotonic())
        try:
            self._push(number, waiter)
        except Error as error:
            if error.status != Status.POOL_FULL:
                raise
            raise self._too_many(f"{len(self)} requests wait already") from error
        self._waiters[number] = waiter
        self.go_on()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await waiter.placed
        except TimeoutError:
            self._leave(number, waiter)
            why = f"no engine had room within {self._timeout_s} s"
            raise self._too_many(why) from None
        except BaseException:
            self._leave(number, waiter)
            raise

    def _push(self, number: int, waiter: _Waiter) -> None:
        blocks = -(-waiter.prompt.tokens // self._block_tokens)
        self._queue.push(number, waiter.tenant, waiter.prompt.hashes, blocks, waiter.among)

    def _leave(self, number: int, waiter: _Waiter) -> None:
        if self._waiters.pop(number, None):
            self._queue.erase(number)
        elif not waiter.placed.cancelled() and waiter.placed.exception() is None:
            waiter.placed.result().finish()  # It was sent on at the moment at which it left.

    def _refuse(self, number: int, refused: Refused) -> None:
        waiter = self._waiters.pop(number)
        self._queue.erase(number)
        if not waiter.placed.done():
            waiter.placed.set_exception(refused)

    def _too_many(self, why: str) -> Refused:
        later_s = min(max(1, math.ceil(self._last_wait_s)), math.ceil(self._timeout_s))
        return Refused(f"{why}: send the request again later (429)", 429, later_s)


def tenant_of(headers: Mapping[str, str], name: str) -> str:
    """Who a request is from: by a header, or else by its API key, of which a digest is kept."""
    if tenant := headers.get(name, ""):
        return tenant
    key = headers.get("authorization", "")
    return hashlib.sha256(key.encode()).hexdigest()[:_KEY_DIGITS] if key else ""


def _ending() -> Refused:
    return Refused("the router ends: send the request again", 503)
