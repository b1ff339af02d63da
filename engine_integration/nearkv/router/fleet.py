"""The engines that there are, and those of them that may be sent something."""

import time
from collections.abc import Collection

from nearkv.router.config import ROLES, WorkerConfig
from nearkv.router.placing import Refused
from nearkv.router.router import Router


class Fleet:
    """Where engines are, what they do, and which are up and have room. One event loop uses it."""

    def __init__(self, router: Router, suspend_s: float) -> None:
        """`router` knows how much each has to do; who fails gets nothing new for `suspend_s`."""
        self.urls: dict[str, str] = {}
        self._router = router
        self._suspend_s = suspend_s
        self._roles: dict[str, str] = {}
        self._max_running: dict[str, int] = {}
        self._suspended_until: dict[str, float] = {}

    def take(self, worker: WorkerConfig) -> None:
        """One more engine, or another address, role or limit of one that is there."""
        self.urls[worker.name] = worker.url.rstrip("/")
        self._roles[worker.name] = worker.role
        self._max_running[worker.name] = worker.max_running

    def remove(self, name: str) -> None:
        """One less, if it is one."""
        for table in (self.urls, self._roles, self._max_running, self._suspended_until):
            table.pop(name, None)

    def suspend(self, name: str) -> None:
        """It has failed: it gets nothing new for a while."""
        if name in self.urls:  # Else it has gone, and returns as another.
            self._suspended_until[name] = time.monotonic() + self._suspend_s

    def resume(self) -> None:
        """Engines that failed may be sent something again."""
        self._suspended_until.clear()

    def role(self, name: str) -> str:
        """What an engine does."""
        return self._roles[name]

    def named(
        self, roles: Collection[str] = ROLES, among: Collection[str] | None = None
    ) -> frozenset[str]:
        """Those of some roles, and of `among`."""
        return frozenset(
            name
            for name in self.urls
            if self._roles[name] in roles and (among is None or name in among)
        )

    def up(self, roles: Collection[str] = ROLES, among: Collection[str] | None = None) -> list[str]:
        """Those of them that may be sent something."""
        now = time.monotonic()
        named = self.named(roles, among)
        return [
            name
            for name in self.urls
            if name in named and self._suspended_until.get(name, 0) <= now
        ]

    def with_room(self, names: Collection[str]) -> list[str]:
        """Those that are below their max_running."""
        return [
            name
            for name in names
            if not (most := self._max_running[name]) or self._router.load(name).requests < most
        ]

    def none_answers(self, why: str = "") -> Refused:
        """What a client is told when no engine is left."""
        why = why or f"all have failed within the last {self._suspend_s} s"
        return Refused(f"no engine answers ({why}): look at /health", 503)
