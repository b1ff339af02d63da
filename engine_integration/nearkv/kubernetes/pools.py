"""Pools in units that pods can ask for: memory of cards, lent when it is needed, or a daemon's."""

import asyncio
import contextlib
import dataclasses
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

_LOG = logging.getLogger("nearkv.kubernetes")
_TIMEOUT_S = 30.0
_ASK_AGAIN_S = 0.2


class PoolError(RuntimeError):
    """A pool cannot give what is asked of it; the text names the command that said so."""


@dataclasses.dataclass(frozen=True)
class Unit:
    """What a pod can have one of."""

    id: str  # POOL-NUMBER
    is_healthy: bool = True
    numa_node: int | None = None


@dataclasses.dataclass(frozen=True)
class Access:
    """What a container needs to reach its units."""

    environment: Mapping[str, str]
    mounts: Sequence[str] = ()  # folders, at the same place inside
    devices: Sequence[str] = ()  # device files, likewise


class Pools(Protocol):
    """Where units come from. One event loop uses it."""

    async def units(self) -> list[Unit]:
        """All that there are; those that were there and are not any more are unhealthy."""

    async def give(self, ids: Collection[str]) -> Access:
        """Lets a container have some. PoolError, and nothing was given."""

    async def keep(self, ids: Collection[str], as_of_s: float) -> None:
        """These were in use at a time (monotonic); others may be taken back. PoolError."""


class Command:
    """The tool `nearkv`."""

    def __init__(self, *words: str) -> None:
        self._words = words or ("nearkv",)

    async def run(self, *words: str) -> str:
        """What it prints. PoolError, with what it says, if it fails or hangs."""
        command = " ".join((*self._words, *words))
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                *words,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise PoolError(f"{command}: {error}") from error
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                out, told = await process.communicate()
        except TimeoutError:
            raise PoolError(f"{command}: no answer within {_TIMEOUT_S} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                if process.returncode is None:
                    process.kill()
        if process.returncode:
            raise PoolError(f"{command}: {told.decode(errors='replace').strip()}")
        return out.decode()

    async def json(self, *words: str) -> Any:
        """The same with --json, read."""
        text = await self.run(*words, "--json")
        try:
            return json.loads(text)
        except ValueError as error:
            raise PoolError(f"{' '.join(words)} --json: no JSON: {error}") from error


class _KnownUnits:
    """Remembers units, so that kubelet learns of those that have gone."""

    def __init__(self) -> None:
        self._units: dict[str, Unit] = {}

    def update(self, found: Sequence[Unit]) -> list[Unit]:
        gone = {
            unit.id: dataclasses.replace(unit, is_healthy=False) for unit in self._units.values()
        }
        self._units = gone | {unit.id: unit for unit in found}
        return list(self._units.values())


class CardPools:
    """The memory of this node's cards, in units; lent by the cards themselves if they can.

    A card with dynamic capacity (CXL 3.1, 9.13.3) lends a unit when a container gets it, tagged
    with the unit's name, and gets it back when no pod has it. What is lent is read from the card,
    so that a plug-in that was killed goes on where it was. The card wipes what comes back.
    """

    def __init__(
        self, command: Command, unit_bytes: int, *, grace_s: float = 60, patience_s: float = 10
    ) -> None:
        """`grace_s`: for how long a unit is kept that no pod is known to have yet; `patience_s`:
        how long a card is asked that cannot lend yet what it still wipes.
        """  # noqa: D205
        self._command = command
        self._unit_bytes = unit_bytes
        self._grace_s = grace_s
        self._patience_s = patience_s
        self._known = _KnownUnits()
        self._lenders: set[str] = set()
        self._given_at_s: dict[str, float] = {}
        self._changing = asyncio.Lock()

    async def units(self) -> list[Unit]:
        """See Pools."""
        found: list[Unit] = []
        try:
            cards = await self._command.json("card", "list")
        except PoolError as error:
            _LOG.warning("cards cannot be listed, and count as unhealthy: %s", error)
            cards = []
        for card in cards:
            try:
                found += await self._units_of(card)
            except PoolError as error:
                _LOG.warning("%s counts as unhealthy: %s", card["name"], error)
        return self._known.update(found)

    async def give(self, ids: Collection[str]) -> Access:
        """See Pools."""
        wanted = _by_pool(ids)
        async with self._changing:
            given: list[str] = []
            try:
                for card, units in wanted.items():
                    given += await self._lend(card, units)
            except PoolError:
                for card, units in _by_pool(given).items():
                    await self._take_back(card, units)
                raise
            self._given_at_s |= dict.fromkeys(ids, time.monotonic())
        return Access(
            {
                "NEARKV_DEVICES": " ".join(
                    f"linux:/dev/{card}?memory={len(units) * self._unit_bytes}"
                    for card, units in wanted.items()
                ),
                "NEARKV_POOL_BYTES": str(len(ids) * self._unit_bytes),
            },
            devices=[f"/dev/{card}" for card in wanted],
        )

    async def keep(self, ids: Collection[str], as_of_s: float) -> None:
        """See Pools: capacity that no pod has, and none had just got, goes back to its card."""
        async with self._changing:
            lately_s = as_of_s - self._grace_s
            lately = {unit for unit, at_s in self._given_at_s.items() if at_s > lately_s}
            self._given_at_s = {unit: self._given_at_s[unit] for unit in lately}
            for card in await self._command.json("card", "list"):
                lent = await self._lent(card["name"])
                if idle := lent - set(ids) - lately:
                    await self._take_back(card["name"], idle)

    async def _lend(self, card: str, units: Collection[str]) -> list[str]:
        """Those that were not lent yet, and are now."""
        region = await self._capacity(card)
        if region is None:
            return []
        before = await self._lent(card)
        if set(units) <= before:
            return []
        try:
            await self._answer(card)  # A plug-in that was killed may not have.
            missing = sorted(set(units) - await self._lent(card))
            for unit in missing:
                await self._offer(card, unit)
                await self._answer(card)
            if absent := set(missing) - await self._lent(card):
                raise PoolError(f"{card} did not lend {', '.join(sorted(absent))}")
        except PoolError:
            with contextlib.suppress(PoolError):
                await self._answer(card)
                await self._take_back(card, set(units) - before)
            raise
        _LOG.info("%s lends %d units of %d bytes", card, len(missing), self._unit_bytes)
        return sorted(set(units) - before)

    async def _offer(self, card: str, unit: str) -> None:
        until_s = time.monotonic() + self._patience_s
        words = "card", "capacity", "offer", card, str(self._unit_bytes), "--tag", unit
        while True:
            try:
                await self._command.run(*words)
                return
            except PoolError:
                if time.monotonic() > until_s:
                    raise
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _answer(self, card: str) -> None:
        """Accepts what is offered; a card offers nothing else before."""
        await self._command.json("card", "capacity", "answer", card)

    async def _take_back(self, card: str, units: Collection[str]) -> None:
        region = await self._capacity(card)
        for extent in region["extents"] if region else ():
            if extent["tag"] in units:
                place = hex(extent["address"]), str(extent["bytes"])
                await self._command.run("card", "capacity", "release", card, *place)
                _LOG.info("%s has %s again", card, extent["tag"])

    async def _lent(self, card: str) -> set[str]:
        """Units of which the host has extents; what others have tagged does not count."""
        region = await self._capacity(card)
        tags = {extent["tag"] for extent in region["extents"]} if region else set()
        return {tag for tag in tags if re.fullmatch(rf"{re.escape(card)}-\d+", tag)}

    async def _units_of(self, card: Any) -> list[Unit]:
        region = await self._capacity(card["name"])
        count = (region["bytes"] if region else card["memory_bytes"]) // self._unit_bytes
        node = (card["module"] or {}).get("numa_node", -1)
        return [
            Unit(f"{card['name']}-{number}", numa_node=node if node >= 0 else None)
            for number in range(count)
        ]

    async def _capacity(self, card: str) -> Any:
        """A card's dynamic region; None: it never had one."""
        try:
            region = await self._command.json("card", "capacity", card)
        except PoolError:
            if card in self._lenders:
                raise
            return None
        if not region["bytes"]:
            return None
        self._lenders.add(card)
        return region


class DaemonPool:
    """A daemon's pool, in units: containers get its socket, and share what it holds.

    How much of it each may fill is a matter of the daemon's quotas, by user; units keep kubelet
    from placing more pods here than there is memory for.
    """

    def __init__(self, command: Command, socket: str, unit_bytes: int) -> None:
        self._command = command
        self._socket = socket
        self._unit_bytes = unit_bytes
        self._known = _KnownUnits()

    async def units(self) -> list[Unit]:
        """See Pools."""
        try:
            told = await self._command.json("stat", "--socket", self._socket)
            count = told["store"]["total_bytes"] // self._unit_bytes
        except (PoolError, KeyError, TypeError) as error:
            _LOG.warning("the daemon does not answer, and its pool is unhealthy: %s", error)
            count = 0
        return self._known.update([Unit(f"pool-{number}") for number in range(count)])

    async def give(self, ids: Collection[str]) -> Access:
        """See Pools."""
        known = {unit.id: unit.is_healthy for unit in await self.units()}
        if lost := sorted(unit for unit in ids if not known.get(unit)):
            raise PoolError(f"the daemon at {self._socket} has no {', '.join(lost)}")
        environment = {
            "NEARKV_SOCKET": self._socket,
            "NEARKV_POOL_BYTES": str(len(ids) * self._unit_bytes),
        }
        return Access(environment, mounts=[self._socket.rpartition("/")[0]])

    async def keep(self, ids: Collection[str], as_of_s: float) -> None:
        """See Pools: there is nothing to take back."""


def preferred(available: Sequence[str], must: Sequence[str], count: int) -> list[str]:
    """Units of as few pools as possible, those of the fullest pool that suffices first."""
    chosen = list(must)
    free = Counter(_pool_of(unit) for unit in available if unit not in chosen)
    while len(chosen) < count and free:
        missing = count - len(chosen)
        enough = [pool for pool, units in free.items() if units >= missing]
        pool = min(enough, key=free.__getitem__) if enough else max(free, key=free.__getitem__)
        del free[pool]
        units = [unit for unit in available if _pool_of(unit) == pool and unit not in chosen]
        chosen += units[:missing]
    return chosen[:count]


def _pool_of(unit: str) -> str:
    return unit.rpartition("-")[0]


def _by_pool(ids: Collection[str]) -> dict[str, list[str]]:
    pools: dict[str, list[str]] = {}
    for unit in sorted(ids):
        pools.setdefault(_pool_of(unit), []).append(unit)
    return pools
