"""Servers that Ray places: a stand-in for an engine before the real router, Ray and etcd."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from engine_integration.tests import stand_in_engine
from engine_integration.tests.etcd_server import EtcdServer
from nearkv.cluster.processes import Process, answers, free_ports
from tests.engines.environment import Environment, environment_or_skip

# The first makes Ray's environment; each node's start takes seconds.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
PATIENCE_S = 120.0
PROMPT = list(range(64))
TOKENS = 40
TEXT = stand_in_engine.text_behind(PROMPT, TOKENS)
NAMES = ["decode-0", "decode-1", "prefill-0", "prefill-1"]


@pytest.fixture(scope="module")
def ray() -> Environment:
    return environment_or_skip("ray", "Ray")


class Placement:
    """`python -m nearkv.cluster.placement` as it runs, and what it last told of each worker."""

    def __init__(self, environment: Environment, plan: Path, *words: str) -> None:
        command = [environment.python, "-P", "-m", "nearkv.cluster.placement", plan, "--json"]
        # Ray shall not find our packages: see its requirements.
        variables = os.environ | environment.variables
        del variables["NEARKV_SITE_PACKAGES"]
        self.log = plan.parent / "placement.log"
        self._errors = self.log.open("wb")
        self._has_ended = False
        self.process = subprocess.Popen(
            [*map(str, command), *words],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=variables,
        )
        self._told: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def until(self, is_so: Callable[[dict[str, dict[str, Any]]], bool]) -> dict[str, dict]:
        """What it tells once that is so."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended or is_so(self._told), PATIENCE_S)
            assert is_so(self._told), (self._told, self.log.read_text()[-2000:])
            return dict(self._told)

    def until_all_serve(self) -> dict[str, dict]:
        return self.until(
            lambda told: (
                sorted(told) == NAMES
                and all(each["node"] and each["state"]["is_serving"] for each in told.values())
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self._errors.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            placed = json.loads(line)
            with self._changed:
                self._told[placed["name"]] = placed
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


class Load:
    """Clients that ask one completion after the other; a context manager."""

    def __init__(self, port: int, clients: int) -> None:
        self._port = port
        self.answered = 0
        self.wrong: list[str] = []
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def go_on(self, count: int) -> None:
        """Until so many more are answered."""
        wanted = self.answered + count
        end_s = time.monotonic() + PATIENCE_S
        while self.answered < wanted:
            assert time.monotonic() < end_s, self.wrong
            time.sleep(0.05)

    def _ask(self) -> None:
        while not self._stopped.is_set():
            try:
                text = completion(self._port)
            except (OSError, ValueError) as error:
                text = repr(error)
            self.answered += 1
            if text != TEXT:
                self.wrong.append(text)


def completion(port: int) -> str:
    body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "stream": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    text = ""
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            event = line.removeprefix(b"data: ").strip()
            if event == b"[DONE]":
                return text
            if event:
                told = json.loads(event)
                text += told["choices"][0]["text"] if "choices" in told else repr(told)
    raise ValueError(f"it broke off after {text!r}")


def parent_of(process_id: int) -> int:
    return int(Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[1])


def is_there(process_id: int) -> bool:
    stat = Path(f"/proc/{process_id}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_gone(process_ids: list[int]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while any(is_there(each) for each in process_ids):
        assert time.monotonic() < end_s, "they are still there"
        time.sleep(0.05)


def write_plan(folder: Path, etcd: EtcdServer, **changed: Any) -> Path:
    command = json.dumps(
        [
            *(sys.executable, stand_in_engine.__file__, "--port", "{port}", "--host", "{host}"),
            *("--name", "{name}", "--pause-s", "0.01"),
        ]
    )
    count, pools = changed.get("count", 2), changed.get("pools", 1)
    lines = [f'cluster = "test"\netcd = "{etcd.endpoint}"\nttl_s = 1\nlogs = "{folder}/logs"']
    for role in ("prefill", "decode"):
        lines.append(f'[[group]]\nrole = "{role}"\ncount = {count}\ncommand = {command}')
        lines.append(f"resources = {{ CPU = 1, nearkv_pool = {pools} }}")
    plan = folder / "plan.toml"
    plan.write_text("\n".join(lines) + "\n")
    return plan


@contextmanager
def routing(folder: Path, etcd: EtcdServer) -> Iterator[int]:
    """The router's port."""
    (port,) = free_ports(1)
    config = folder / "router.toml"
    config.write_text(
        f'listen = "127.0.0.1:{port}"\nblock_tokens = 16\nprefill_from_tokens = 16\n'
        f'[discovery]\netcd = "{etcd.endpoint}"\ncluster = "test"\n'
    )
    command = [sys.executable, "-P", "-m", "nearkv.router", str(config)]
    with Process("router", command, folder, {}) as router:
        # It says 503 until a server is there that decodes.
        router.wait_until(lambda: answers(f"http://127.0.0.1:{port}/health"), PATIENCE_S)
        yield port


def test_servers_come_back_while_requests_go_on(ray: Environment, tmp_path: Path) -> None:
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer(tmp_path))
        plan = write_plan(tmp_path, etcd)
        nodes = ["--local-nodes", "2", "--local-cpus", "4", "--local-pools", "4"]
        placement = stack.enter_context(Placement(ray, plan, *nodes))
        first = placement.until_all_serve()
        port = stack.enter_context(routing(tmp_path, etcd))
        for role in ("decode", "prefill"):
            assert len({each["node"] for each in first.values() if each["role"] == role}) == 2
        with Load(port, clients=4) as load:
            load.go_on(8)
            os.kill(first["decode-0"]["state"]["process_id"], signal.SIGKILL)
            placement.until(lambda told: told["decode-0"]["state"]["starts"] == 2)
            second = placement.until_all_serve()
            assert second["decode-0"]["node"] == first["decode-0"]["node"]
            load.go_on(8)
            lost = second["decode-1"]["node"]
            servers = [each["state"]["process_id"] for each in second.values()]
            on_lost = [
                each["state"]["process_id"] for each in second.values() if each["node"] == lost
            ]
            raylet = parent_of(parent_of(second["decode-1"]["state"]["process_id"]))
            os.kill(raylet, signal.SIGKILL)
            placement.until(lambda told: told["decode-1"]["node"] not in ("", lost))
            third = placement.until_all_serve()
            assert {each["node"] for each in third.values()} == {second["decode-0"]["node"]}
            wait_gone(on_lost)
            load.go_on(8)
        assert load.wrong == []
        servers += [each["state"]["process_id"] for each in third.values()]
        placement.__exit__()
        assert placement.process.returncode == 0
        wait_gone(servers)


def test_servers_end_with_who_placed_them(ray: Environment, tmp_path: Path) -> None:
    with EtcdServer(tmp_path) as etcd:
        plan = write_plan(tmp_path, etcd)
        with Placement(ray, plan, "--local-nodes", "1") as placement:
            told = placement.until_all_serve()
            servers = [each["state"]["process_id"] for each in told.values()]
            placement.process.kill()
            raylet = parent_of(parent_of(servers[0]))
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
