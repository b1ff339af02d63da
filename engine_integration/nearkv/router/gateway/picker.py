"""Picks endpoints for requests that Envoy sends on itself."""

import contextlib
import dataclasses
from collections.abc import Mapping

from nearkv.router.engines import DECODE, PREFILL, Engines
from nearkv.router.gateway.endpoints import Endpoints
from nearkv.router.placing import Placed, Prompt, Refused, unseen_prompt
from nearkv.router.prompts import BadRequest
from nearkv.router.proxy.forward import TRY_ANOTHER
from nearkv.router.waiting import tenant_of

_READ = ("/v1/completions", "/v1/chat/completions")


@dataclasses.dataclass(frozen=True)
class Head:
    """A request as far as it is known before its body."""

    path: str
    headers: Mapping[str, str]
    subset: frozenset[str] | None  # endpoints that may be picked; None: all

    @property
    def method(self) -> str:
        """As Envoy tells it among the headers."""
        return self.headers.get(":method", "POST")


@dataclasses.dataclass
class Picked:
    """An endpoint for a request, counted in its engine's load until finish()."""

    prompt: Prompt
    placed: Placed
    endpoints: tuple[str, ...]  # in the order in which they are to be tried
    prefiller: str | None  # who is to compute the prompt first

    def first_token(self) -> None:
        """The engine has begun to answer."""
        self.placed.first_token()

    def finish(self) -> None:
        """The answer has ended, in whatever way; the second time nothing happens."""
        self.placed.finish()


class Picker:
    """Where requests go, by their prompts. One event loop uses it."""

    def __init__(self, engines: Engines, endpoints: Endpoints) -> None:
        self.engines = engines
        self._endpoints = endpoints

    @property
    def is_ready(self) -> bool:
        """Whether there is an engine that can be picked."""
        return any(self._endpoints.of(worker) for worker in self.engines.fleet.up(DECODE))

    async def pick(self, head: Head, body: bytes | None, *, is_whole: bool = True) -> Picked:
        """An endpoint, and the next best ones. Refused: there is none, or it shall be dropped.

        `body` None: it cannot be seen, and load alone decides. The same holds for a part of one.
        """
        prompt = await self._prompt(head, body, is_whole)
        among = self._among(head.subset)
        if not among:
            raise Refused(_none_of(head.subset), 503)
        tenant = tenant_of(head.headers, self.engines.config.tenant_header)
        placed = await self.engines.place(prompt, DECODE, among=among, tenant=tenant)
        others = self.engines.fleet.with_room(among - {placed.worker})
        names = [placed.worker, *self._next_best(prompt, others)]
        endpoints = tuple(filter(None, map(self._endpoints.of, names)))
        return Picked(prompt, placed, endpoints, self._prefiller(prompt, placed))

    def answered(self, picked: Picked, served: str, status: int) -> None:
        """An endpoint has answered.

        Where that is not the first, the load is its own, and the first, which did not answer, gets
        nothing new for a while. One that answers is there, whatever it says of this request.
        """
        worker = self._endpoints.worker(served) or picked.placed.worker
        if status in TRY_ANOTHER:
            self.engines.metrics.retries.labels(worker).inc()
        if worker != picked.placed.worker:
            self.engines.metrics.retries.labels(picked.placed.worker).inc()
            self.engines.suspend(picked.placed.worker, f"{worker} had to answer in its place")
            with contextlib.suppress(Refused):  # It is there already.
                placed = self.engines.start(picked.prompt, [worker])
                picked.finish()
                picked.placed = placed

    async def _prompt(self, head: Head, body: bytes | None, is_whole: bool) -> Prompt:
        if head.path.partition("?")[0] not in _READ or body is None or not is_whole:
            return unseen_prompt(head.method, head.path, len(body or b""))
        try:
            return await self.engines.prompt(body)
        except BadRequest as error:
            raise Refused(str(error), 400) from error

    def _among(self, subset: frozenset[str] | None) -> set[str]:
        endpoints = {name: self._endpoints.of(name) for name in self.engines.fleet.up(DECODE)}
        return {name for name, at in endpoints.items() if at and (subset is None or at in subset)}

    def _next_best(self, prompt: Prompt, others: list[str]) -> list[str]:
        """Not by the policy: one that takes turns would count these as turns."""
        router = self.engines.router
        cached = router.cached_blocks(prompt.hashes)
        others.sort(key=lambda name: (-cached[name], router.load(name).requests))
        return others[: self.engines.config.fallback_endpoints]

    def _prefiller(self, prompt: Prompt, placed: Placed) -> str | None:
        """Of a prompt that is mostly not cached where it will be decoded."""
        if placed.decision.uncached_tokens < self.engines.config.prefill_from_tokens:
            return None
        names = [name for name in self.engines.fleet.up(PREFILL) if self._endpoints.of(name)]
        best = self.engines.best(prompt, names) if names else None
        return self._endpoints.of(best.worker) if best else None


def _none_of(subset: frozenset[str] | None) -> str:
    if subset is None:
        return "no engine is up and has an address: look at /health"
    named = ", ".join(sorted(subset)) or "none at all"
    return f"of the endpoints that may be picked ({named}) no engine is up: look at /health"
