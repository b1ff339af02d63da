"""Who is there, as etcd tells it; while etcd is away, who was there last."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from nearkv.membership.etcd import Change, Entry, EtcdClient, EtcdError
from nearkv.membership.member import BadMember, Member, read_member
from nearkv.membership.registration import members_prefix

_LOG = logging.getLogger("nearkv.membership")


@dataclass(frozen=True)
class Members:
    """All members of a cluster at one time."""

    by_name: Mapping[str, Member] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Keys' last parts whose entries are no members, and why."""
    is_current: bool = False
    """False: etcd is away, and these are the last that were known."""


async def watch_members(
    etcd: EtcdClient,
    cluster: str,
    *,
    retry_s: float = 1.0,
    reread_s: float = 10.0,
    grace_s: float = 15.0,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Members]:
    """All members, whenever one comes, goes or changes, and when etcd does. Never ends.

    `reread_s`: after so long without a change they are read anew, so that a connection that died
    unseen costs no more. `grace_s`: whoever is missing after etcd was away is kept so much longer,
    because an etcd that lost its data has them again when they have registered anew. Entries that
    are no members are named in the log once, and ignored.
    """
    known = _Known(members_prefix(cluster), grace_s, clock)
    told: Members | None = None
    while True:
        try:
            known.read(*await etcd.range(known.prefix))
            if told != (told := known.members(is_current=True)):
                yield told
            quiet_s = min(reread_s, known.grace_left_s())
            async with contextlib.aclosing(
                etcd.watch(known.prefix, known.revision + 1, quiet_s)
            ) as changes:
                async for each in changes:
                    known.apply(each)
                    if told != (told := known.members(is_current=True)):
                        yield told
        except EtcdError as error:
            known.note_away(error)
            if told != (told := known.members(is_current=False)):
                yield told
            await asyncio.sleep(retry_s)


class _Known:
    """Entries as they were last told."""

    def __init__(self, prefix: str, grace_s: float, clock: Callable[[], float]) -> None:
        self.prefix = prefix
        self.revision = 0
        self._grace_s, self._clock = grace_s, clock
        self._entries: dict[str, Entry] = {}
        self._missing: dict[str, Entry] = {}
        self._missing_until_s = 0.0
        self._is_away = False
        self._told: set[tuple[str, str]] = set()

    def read(self, entries: dict[str, Entry], revision: int) -> None:
        if self._is_away:
            _LOG.info("etcd answers again: %s members", len(entries))
            self._is_away = False
            before = self._missing | self._entries
            self._missing = {key: before[key] for key in before.keys() - entries.keys()}
            self._missing_until_s = self._clock() + self._grace_s
        self._entries, self.revision = entries, revision

    def apply(self, changes: list[Change]) -> None:
        for change in changes:
            self._missing.pop(change.key, None)
            if change.entry is None:
                self._entries.pop(change.key, None)
            else:
                self._entries[change.key] = change.entry

    def note_away(self, error: EtcdError) -> None:
        if not self._is_away:
            self._is_away = True
            _LOG.warning("%s; going on with the %s members last known", error, len(self._entries))

    def grace_left_s(self) -> float:
        if not self._missing:
            return float("inf")
        return max(0.01, self._missing_until_s - self._clock())

    def members(self, *, is_current: bool) -> Members:
        if self._clock() >= self._missing_until_s and is_current:
            self._missing = {}
        found, ignored = {}, {}
        for key, entry in (self._missing | self._entries).items():
            name = key.removeprefix(self.prefix)
            try:
                found[name] = read_member(name, entry.value)
            except BadMember as error:
                ignored[name] = str(error)
                if (name, str(error)) not in self._told:
                    self._told.add((name, str(error)))
                    _LOG.warning("%s in etcd is ignored: %s", key, error)
        return Members(found, ignored, is_current)
