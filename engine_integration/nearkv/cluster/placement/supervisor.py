"""Keeps one server serving, and listed in etcd while it does."""

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from nearkv.cluster import ClusterError
from nearkv.cluster.placement.server import Server, ServerSpec
from nearkv.membership import EtcdClient, Registration

_LOG = logging.getLogger("nearkv.placement")
_LOOK_S = 0.1


@dataclasses.dataclass(frozen=True)
class Patience:
    """How long a supervisor waits for what."""

    start_s: float = 600.0
    """Until a server that was started answers; after that it is started again."""
    health_every_s: float = 1.0
    health_s: float = 10.0
    """For one answer on /health ..."""
    health_failures: int = 3
    """... of which so many in a row may fail."""
    first_pause_s: float = 0.5
    """Before a server that failed is started again; doubled each time that it does not come up, """
    most_pause_s: float = 30.0
    """up to this."""


@dataclasses.dataclass(frozen=True)
class WorkerState:
    """How a worker does."""

    name: str
    role: str
    url: str = ""
    """Of the server that runs; empty: none does."""
    is_serving: bool = False
    """Whether it answers, and so is or will be listed."""
    process_id: int = 0
    starts: int = 0
    """How often a server was started here."""
    failure: str = ""
    """Why the last one was given up."""


class Supervisor:
    """Starts a server, lists it once it answers, and starts it again when it fails.

    It fails when it ends, or does not answer on /health. It is unlisted at once then, and before
    run() ends. Thread safety: `state` from any thread.
    """

    def __init__(
        self,
        spec: ServerSpec,
        host: str,
        folder: Path,
        etcd: Sequence[str],
        cluster: str,
        *,
        ttl_s: int = 10,
        patience: Patience | None = None,
    ) -> None:
        """`host`: of this machine, as the router reaches it. `folder`: of logs."""
        self._spec, self._host, self._folder = spec, host, folder
        self._etcd, self._cluster, self._ttl_s = etcd, cluster, ttl_s
        self._patience = patience or Patience()
        self.state = WorkerState(spec.name, spec.role)

    async def run(self) -> None:
        """Until it is cancelled; then the server ends, too."""
        pause_s = self._patience.first_pause_s
        async with EtcdClient(self._etcd) as etcd, aiohttp.ClientSession() as session:
            while True:
                try:
                    await self._serve(etcd, session)
                except (ClusterError, OSError) as error:
                    _LOG.warning("%s failed: %s", self._spec.name, error)
                    came_up = self.state.is_serving
                    self._note(failure=str(error), url="", is_serving=False, process_id=0)
                    pause_s = self._patience.first_pause_s if came_up else pause_s
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, self._patience.most_pause_s)

    async def _serve(self, etcd: EtcdClient, session: aiohttp.ClientSession) -> None:
        """One server, from its start until it fails: ClusterError."""
        server = Server(self._spec, self._host, self._folder)
        try:
            self._note(url=server.url, process_id=server.process.id, starts=self.state.starts + 1)
            async with asyncio.timeout(self._patience.start_s):
                while not await self._answers(server, session):
                    await asyncio.sleep(_LOOK_S)
            self._note(is_serving=True)
            registration = Registration(etcd, self._cluster, server.member, ttl_s=self._ttl_s)
            async with registration:
                _LOG.info("%s serves at %s", self._spec.name, server.url)
                await self._watch(server, session)
        except TimeoutError as error:
            raise ClusterError(
                f"{self._spec.name} does not answer {self._patience.start_s:.0f} s after its start"
            ) from error
        finally:
            await asyncio.shield(asyncio.to_thread(server.process.close))

    async def _watch(self, server: Server, session: aiohttp.ClientSession) -> None:
        failures = 0
        since_s = 0.0
        while failures < self._patience.health_failures:
            server.process.check()
            await asyncio.sleep(_LOOK_S)
            since_s += _LOOK_S
            if since_s < self._patience.health_every_s:
                continue
            since_s = 0.0
            failures = 0 if await self._answers(server, session) else failures + 1
        server.process.kill()  # Whoever does not answer need not be asked to end.
        raise ClusterError(f"{self._spec.name} does not answer any more, and is ended")

    async def _answers(self, server: Server, session: aiohttp.ClientSession) -> bool:
        server.process.check()
        timeout = aiohttp.ClientTimeout(self._patience.health_s)
        try:
            async with session.get(f"{server.url}/health", timeout=timeout) as answer:
                return answer.status == 200
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False

    def _note(self, **changed: Any) -> None:
        self.state = dataclasses.replace(self.state, **changed)
