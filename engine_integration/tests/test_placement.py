"""What keeps a server serving: its supervisor and its guard, before a stand-in and a real etcd."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from engine_integration.tests import stand_in_engine
from engine_integration.tests.etcd_server import EtcdServer
from nearkv.cluster import ClusterError
from nearkv.cluster.placement.plan import Plan, plan_of, read_plan
from nearkv.cluster.placement.server import ServerSpec
from nearkv.cluster.placement.supervisor import Patience, Supervisor, WorkerState
from nearkv.membership import EtcdClient, Member, read_member

ROOT = Path(__file__).parents[2]
PREFIX = "/nearkv/clusters/test/members/"
COMMAND = (sys.executable, stand_in_engine.__file__, "--port", "{port}", "--host", "{host}")
LONG_S = 600  # Nothing here may wait for a lease to end.
QUICK = Patience(health_every_s=0.2, health_s=0.5, first_pause_s=0.05, most_pause_s=0.2)


class Watched:
    """A supervisor that runs, and what etcd has of its server."""

    def __init__(self, supervisor: Supervisor, etcd: EtcdClient) -> None:
        self._supervisor, self._etcd = supervisor, etcd

    async def listed(self) -> Member | None:
        entries, _ = await self._etcd.range(PREFIX)
        return next((read_member("a", entry.value) for entry in entries.values()), None)

    async def until(self, is_so: Callable[[WorkerState, Member | None], bool]) -> WorkerState:
        while not is_so(self._supervisor.state, await self.listed()):
            await asyncio.sleep(0.02)
        return self._supervisor.state

    async def until_served(self, start: int) -> WorkerState:
        return await self.until(
            lambda state, listed: (
                state.starts == start and state.is_serving and _is_at(listed, state.url)
            )
        )


def _is_at(listed: Member | None, url: str) -> bool:
    return listed is not None and listed.url == url


@contextlib.asynccontextmanager
async def supervised(
    server: EtcdServer, folder: Path, patience: Patience = QUICK, **changed: Any
) -> AsyncIterator[Watched]:
    spec = ServerSpec("a", "decode", **{"command": COMMAND} | changed)
    supervisor = Supervisor(
        *(spec, "127.0.0.1", folder, [server.endpoint], "test"), ttl_s=LONG_S, patience=patience
    )
    async with asyncio.timeout(60), EtcdClient([server.endpoint]) as etcd:
        task = asyncio.create_task(supervisor.run())
        try:
            yield Watched(supervisor, etcd)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def is_there(process_id: int) -> bool:
    stat = Path(f"/proc/{process_id}/stat")
    return stat.exists() and stat.read_text().split()[2] != "Z"


def wait_gone(process_id: int) -> None:
    end_s = time.monotonic() + 30
    while is_there(process_id):
        assert time.monotonic() < end_s, "it is still there"
        time.sleep(0.01)


async def test_a_server_is_listed_while_it_serves(server: EtcdServer, tmp_path: Path) -> None:
    command = (*COMMAND, "--name", "{name}:{events_port}")
    options = {"command": command, "scheme": "vllm-sha256", "block_tokens": 64}
    options |= {"pool": "pool-{host}"}
    async with supervised(server, tmp_path / "logs", **options) as watched:
        state = await watched.until_served(1)
        listed = await watched.listed()
        assert listed is not None
        assert (listed.role, listed.scheme, listed.block_tokens) == ("decode", "vllm-sha256", 64)
        assert listed.events.startswith("tcp://127.0.0.1:")
        assert listed.replay == ""
        assert listed.pool == "pool-127.0.0.1"
    async with EtcdClient([server.endpoint]) as etcd:
        assert (await etcd.range(PREFIX))[0] == {}
    assert not is_there(state.process_id)


async def test_a_server_that_is_killed_is_started_again(server: EtcdServer, tmp_path: Path) -> None:
    async with supervised(server, tmp_path / "logs") as watched:
        first = await watched.until_served(1)
        os.kill(first.process_id, signal.SIGKILL)
        second = await watched.until_served(2)
        assert second.url != first.url
        assert "a ended" in second.failure


async def test_a_server_that_hangs_is_ended_and_started_again(
    server: EtcdServer, tmp_path: Path
) -> None:
    async with supervised(server, tmp_path / "logs") as watched:
        first = await watched.until_served(1)
        os.kill(first.process_id, signal.SIGSTOP)
        second = await watched.until_served(2)
        assert "does not answer any more" in second.failure
        assert not is_there(first.process_id)


async def test_a_server_that_does_not_come_up_is_tried_again(
    server: EtcdServer, tmp_path: Path
) -> None:
    # What it lacks, it has when it is started for the third time.
    code = (
        "import pathlib, runpy, sys\n"
        f"tries = pathlib.Path({str(tmp_path / 'tries')!r})\n"
        "tries.write_text(tries.read_text() + 'x' if tries.exists() else 'x')\n"
        "if len(tries.read_text()) < 3: sys.exit('no model is here')\n"
        f"runpy.run_path({stand_in_engine.__file__!r}, run_name='__main__')\n"
    )
    command = (sys.executable, "-c", code, *COMMAND[2:])
    async with supervised(server, tmp_path / "logs", command=command) as watched:
        state = await watched.until_served(3)
        assert "no model is here" in state.failure


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("/no/such/program", "{port}"), "/no/such/program"),
        ((sys.executable, "-c", "import time; time.sleep(600)", "{port}"), "does not answer 0 s"),
    ],
)
async def test_a_server_that_never_comes_up_is_told(
    server: EtcdServer, tmp_path: Path, command: tuple[str, ...], said: str
) -> None:
    patience = Patience(start_s=0.3, first_pause_s=0.05)
    async with supervised(server, tmp_path / "logs", patience, command=command) as watched:
        state = await watched.until(lambda state, _: said in state.failure)
        assert not state.is_serving
        assert await watched.listed() is None


async def test_without_etcd_a_server_serves_all_the_same(tmp_path: Path) -> None:
    server = EtcdServer(tmp_path)
    spec = ServerSpec("a", "decode", COMMAND)
    supervisor = Supervisor(
        *(spec, "127.0.0.1", tmp_path / "logs", [server.endpoint], "test"), patience=QUICK
    )
    async with asyncio.timeout(60):
        task = asyncio.create_task(supervisor.run())
        while not supervisor.state.is_serving:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        assert supervisor.state.is_serving and supervisor.state.starts == 1
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_a_process_goes_with_the_one_that_made_it(tmp_path: Path) -> None:
    """However that ends: here it is killed, and what the process had started goes, too."""
    tree = "import subprocess, time\nprint(subprocess.Popen(['sleep', '600']).pid, flush=True)\n"
    code = (
        "import pathlib, sys, time\n"
        "from nearkv.cluster.processes import Process\n"
        f"child = [sys.executable, '-c', {tree + 'time.sleep(600)'!r}]\n"
        f"process = Process('child', child, pathlib.Path({str(tmp_path)!r}), {{}})\n"
        "print(process.id, flush=True)\n"
        "time.sleep(600)\n"
    )
    log = tmp_path / "child.log"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        while not log.exists() or not log.read_text().strip():
            time.sleep(0.01)
        grandchild = int(log.read_text())
        assert is_there(child) and is_there(grandchild)
        starter.kill()
    wait_gone(child)
    wait_gone(grandchild)


GROUP = {"role": "decode", "count": 2, "command": ["serve", "{port}"]}


def test_a_plan_names_its_servers() -> None:
    prefill = {"role": "prefill", "count": 1, "command": ["serve", "{port}"]}
    table = {"cluster": "chat", "group": [GROUP, prefill], "patience": {"health_s": 3}}
    plan = plan_of(table | {"pool": "pool-{host}"})
    names = [[spec.name for spec in servers] for _, servers in plan.servers()]
    assert names == [["decode-0", "decode-1"], ["prefill-0"]]
    assert {spec.pool for _, servers in plan.servers() for spec in servers} == {"pool-{host}"}
    assert plan.patience.health_s == 3
    assert plan.groups[0].resources == {"CPU": 1.0}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "name at least one"),
        ({"group": GROUP}, "name at least one"),
        ({"group": [{"role": "decode"}]}, "needs command and count"),
        ({"group": [GROUP | {"role": "router"}]}, "both, prefill, decode"),
        ({"group": [GROUP | {"count": 0}]}, "count is 1 or more"),
        ({"group": [GROUP | {"command": ["serve"]}]}, "listen at {port}"),
        ({"group": [GROUP | {"command": "serve {port}"}]}, "command is a tuple"),
        ({"group": [GROUP | {"resources": {"CPU": -1}}]}, "resources are above 0"),
        ({"group": [GROUP, GROUP]}, "a role has one"),
        ({"group": [GROUP], "etcd": "a:2379"}, "http://host:2379"),
        ({"group": [GROUP], "clusters": "a"}, "no key 'clusters'"),
        ({"group": [GROUP], "cluster": "a/b"}, "without '/'"),
        ({"group": [GROUP], "ttl_s": 0}, "ttl_s is 1 or more"),
        ({"group": [GROUP], "patience": {"health_s": "1"}}, "health_s is a float"),
    ],
)
def test_a_bad_plan_names_its_mend(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        plan_of(table)


def test_the_readmes_plan_is_one(tmp_path: Path) -> None:
    readme = ROOT / "engine_integration/nearkv/cluster/placement/README.md"
    file = tmp_path / "plan.toml"
    file.write_text(readme.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0])
    plan: Plan = read_plan(file)
    assert [(group.role, group.count) for group in plan.groups] == [("prefill", 2), ("decode", 2)]
