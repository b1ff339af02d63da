"""Servers that Ray places: a stand-in for an engine before the real router, Ray and etcd."""

import json
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.engines.environment import Environment
from engine_integration.tests import stand_in_engine
from engine_integration.tests.etcd_server import EtcdServer
from tests.engines.placing import PATIENCE_S, Load, Placement, raylet_of, routing, wait_gone
from tests.engines.skipping import environment_or_skip

# The first makes Ray's environment; each node's start takes seconds.
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
TOKENS = 40
BODY = {"prompt": list(range(64)), "max_tokens": TOKENS}
TEXT = stand_in_engine.text_behind(BODY["prompt"], TOKENS)
ROUTER = {"block_tokens": 16, "prefill_from_tokens": 16}


@pytest.fixture(scope="module")
def ray() -> Environment:
    return environment_or_skip("ray", "Ray")


def niceness(process_id: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, process_id)


def write_plan(folder: Path, etcd: EtcdServer, pools: int = 1) -> Path:
    command = json.dumps(
        [
            *(sys.executable, stand_in_engine.__file__, "--port", "{port}", "--host", "{host}"),
            *("--name", "{name}", "--pause-s", "0.01"),
        ]
    )
    lines = [f'cluster = "test"\netcd = "{etcd.endpoint}"\nttl_s = 1\nlogs = "{folder}/logs"']
    for role in ("prefill", "decode"):
        lines.append(f'[[group]]\nrole = "{role}"\ncount = 2\ncommand = {command}')
        lines.append(f"resources = {{ CPU = 1, nearkv_pool = {pools} }}")
    plan = folder / "plan.toml"
    plan.write_text("\n".join(lines) + "\n")
    return plan


def test_servers_come_back_while_requests_go_on(ray: Environment, tmp_path: Path) -> None:
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer(tmp_path))
        plan = write_plan(tmp_path, etcd)
        nodes = ["--local-nodes", "2", "--local-cpus", "4", "--local-pools", "4"]
        placement = stack.enter_context(Placement(ray, plan, *nodes))
        first = placement.until_all_serve(4)
        for server in first.values():
            assert niceness(server["state"]["process_id"]) == niceness(raylet_of(server))
        port = stack.enter_context(routing(tmp_path, etcd, **ROUTER))
        for role in ("decode", "prefill"):
            assert len({each["node"] for each in first.values() if each["role"] == role}) == 2
        with Load(port, BODY, clients=4) as load:
            load.go_on(8)
            os.kill(first["decode-0"]["state"]["process_id"], signal.SIGKILL)
            placement.until(lambda told: told["decode-0"]["state"]["starts"] == 2)
            second = placement.until_all_serve(4)
            assert second["decode-0"]["node"] == first["decode-0"]["node"]
            load.go_on(8)
            lost = second["decode-1"]["node"]
            servers = [each["state"]["process_id"] for each in second.values()]
            on_lost = [
                each["state"]["process_id"] for each in second.values() if each["node"] == lost
            ]
            os.kill(raylet_of(second["decode-1"]), signal.SIGKILL)
            placement.until(lambda told: told["decode-1"]["node"] not in ("", lost))
            third = placement.until_all_serve(4)
            assert {each["node"] for each in third.values()} == {second["decode-0"]["node"]}
            wait_gone(on_lost)
            load.go_on(8)
        assert set(load.texts) == {TEXT}
        servers += [each["state"]["process_id"] for each in third.values()]
        placement.__exit__()
        assert placement.process.returncode == 0
        wait_gone(servers)


def test_servers_end_with_who_placed_them(ray: Environment, tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd:
        plan = write_plan(tmp_path, etcd)
        with Placement(ray, plan, "--local-nodes", "1") as placement:
            told = placement.until_all_serve(4)
            servers = [each["state"]["process_id"] for each in told.values()]
            raylet = raylet_of(told["decode-0"])
            placement.process.kill()
            os.kill(raylet, signal.SIGKILL)
            wait_gone(servers)


def test_nodes_that_lack_what_is_needed_are_told(ray: Environment, tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd:
        plan = write_plan(tmp_path, etcd, pools=8)
        with Placement(ray, plan, "--local-nodes", "1", "--place-s", "5") as placement:
            placement.process.wait(PATIENCE_S)
    assert placement.process.returncode == 1
    said = placement.log.read_text()
    assert "no nodes for 2 of prefill" in said
    assert "'nearkv_pool': 4.0" in said
