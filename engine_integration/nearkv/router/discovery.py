"""Engines that come and go: those that are registered in etcd."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Mapping
from typing import Any, Protocol, Self

import zmq

from nearkv.core import Error
from nearkv.membership import EtcdClient, Member, Members, watch_members
from nearkv.router.config import DiscoveryConfig, RouterConfig, WorkerConfig

_LOG = logging.getLogger("nearkv.router")


class Roster(Protocol):
    """What Discovery keeps up to date; Engines."""

    config: RouterConfig

    async def add(self, worker: WorkerConfig) -> None:
        """One more."""

    def change(self, worker: WorkerConfig) -> None:
        """Another address or role."""

    async def remove(self, name: str) -> None:
        """One less."""


class Discovery:
    """Adds members as they come, removes them as they go, in the order that etcd tells.

    While etcd is away, the last ones stay. A member whose name the configuration has is ignored;
    one that hashes otherwise than the router gets requests by its load alone. A context manager;
    one event loop uses it.
    """

    def __init__(self, roster: Roster, config: DiscoveryConfig) -> None:
        self._roster = roster
        self._config = config
        self._own = {worker.name for worker in roster.config.workers}
        self._members = Members()
        self._present: dict[str, Member] = {}
        self._ignored: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="discovery")
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def health(self) -> dict[str, Any]:
        """Whether etcd answers, who came from it, and what is wrong with the rest."""
        return {
            "etcd": self._config.etcd,
            "cluster": self._config.cluster,
            "is_current": self._members.is_current,
            "members": sorted(self._present),
            "ignored": {**self._members.ignored, **self._ignored},
        }

    async def _run(self) -> None:
        async with EtcdClient(self._config.endpoints) as etcd:
            async for members in watch_members(etcd, self._config.cluster):
                self._members = members
                try:
                    await self._follow(members.by_name)
                except Exception:
                    _LOG.exception("a change of members could not be followed; going on")

    async def _follow(self, members: Mapping[str, Member]) -> None:
        for name in self._present.keys() - members.keys():
            await self._remove(name)
        for name in self._ignored.keys() - members.keys():
            del self._ignored[name]
        for name, member in members.items():
            before = self._present.get(name)
            if before == member:
                continue
            if before is not None and _has_same_cache(before, member):
                self._roster.change(self._worker_of(member))
                self._present[name] = member
                _LOG.info("%s is %s at %s now", name, member.role, member.url)
                continue
            if before is not None:
                await self._remove(name)
            await self._add(member)

    async def _add(self, member: Member) -> None:
        if member.name in self._own:
            self._ignore(member.name, "the configuration has a worker of this name")
            return
        try:
            await self._roster.add(self._worker_of(member))
        except zmq.ZMQError as error:
            _LOG.warning("%s: events at %r: %s", member.name, member.events, error)
        except Error as error:
            self._ignore(member.name, error.strerror)
            return
        self._present[member.name] = member
        self._ignored.pop(member.name, None)
        _LOG.info("%s has come: %s at %s", member.name, member.role, member.url or member.events)

    async def _remove(self, name: str) -> None:
        del self._present[name]
        with contextlib.suppress(Error):
            await self._roster.remove(name)
        _LOG.info("%s has gone", name)

    def _ignore(self, name: str, why: str) -> None:
        if self._ignored.get(name) != why:
            self._ignored[name] = why
            _LOG.warning("%s in etcd is ignored: %s", name, why)

    def _worker_of(self, member: Member) -> WorkerConfig:
        worker = WorkerConfig(
            member.name,
            url=member.url,
            events=member.events,
            replay=member.replay,
            role="both" if member.is_pool else member.role,
            topic=member.topic,
            ranks=member.ranks,
            prefill_tokens_per_s=member.prefill_tokens_per_s,
            max_running=member.max_running,
            pool=member.pool,
            capacity_bytes=member.capacity_bytes,
        )
        own = self._roster.config
        if member.scheme in ("", own.scheme) and member.block_tokens in (0, own.block_tokens):
            return worker
        _LOG.warning(
            "%s hashes blocks of %s tokens by %s, the router of %s by %s: nothing is known of its"
            " cache. Start it as the router has them, or give the router its scheme and"
            " block_tokens",
            *(member.name, member.block_tokens or own.block_tokens, member.scheme or own.scheme),
            *(own.block_tokens, own.scheme),
        )
        return dataclasses.replace(worker, events="")


def _has_same_cache(before: Member, after: Member) -> bool:
    """Whether nothing changed but the address and what it is used for."""
    same = dataclasses.replace(
        after,
        url=before.url,
        role=before.role,
        max_running=before.max_running,
        pool=before.pool,
        capacity_bytes=before.capacity_bytes,
    )
    return same == before and before.is_pool == after.is_pool
