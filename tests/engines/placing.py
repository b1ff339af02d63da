"""Servers that Ray places, for tests: who placed them, the router before them, clients."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

from bench.engines.environment import Environment
from engine_integration.tests.etcd_server import EtcdServer
from nearkv.cluster.processes import Process, answers, free_ports

PATIENCE_S = 900.0


class Placement(AbstractContextManager):
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

    def until_all_serve(self, count: int) -> dict[str, dict]:
        return self.until(
            lambda told: (
                len(told) == count
                and all(each["node"] and each["state"]["is_serving"] for each in told.values())
            )
        )

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

    def __init__(self, port: int, body: dict[str, Any], clients: int) -> None:
        """`body`: of a streamed completion."""
        self._port, self._body = port, body
        self.texts: list[str] = []
        """What was answered, or why not."""
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
        wanted = len(self.texts) + count
        end_s = time.monotonic() + PATIENCE_S
        while len(self.texts) < wanted:
            assert time.monotonic() < end_s, self.texts[-4:]
            time.sleep(0.05)

    def _ask(self) -> None:
        while not self._stopped.is_set():
            try:
                self.texts.append(completion(self._port, self._body))
            except (OSError, ValueError) as error:
                self.texts.append(repr(error))


def completion(port: int, body: dict[str, Any]) -> str:
    """The text of a whole answer; OSError or ValueError if there is none."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body | {"temperature": 0, "stream": True}).encode(),
        {"Content-Type": "application/json"},
    )
    text = ""
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        for line in answer:
            event = line.removeprefix(b"data: ").strip()
            if event == b"[DONE]":
                return text
            if event:
                told = json.loads(event)
                if "choices" not in told:
                    raise ValueError(f"it failed after {text!r}: {told}")
                text += told["choices"][0]["text"]
    raise ValueError(f"it broke off after {text!r}")


def parent_of(process_id: int) -> int:
    return int(Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[1])


def is_there(process_id: int) -> bool:
    stat = Path(f"/proc/{process_id}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_gone(process_ids: Sequence[int]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while any(is_there(each) for each in process_ids):
        assert time.monotonic() < end_s, "they are still there"
        time.sleep(0.05)


def raylet_of(server: dict[str, Any]) -> int:
    """Of the node of a server that runs: its actor's parent."""
    return parent_of(parent_of(server["state"]["process_id"]))


def wait_served(port: int) -> None:
    """Until the router has an engine that decodes."""
    end_s = time.monotonic() + PATIENCE_S
    while not answers(f"http://127.0.0.1:{port}/health"):
        assert time.monotonic() < end_s, "no engine has come"
        time.sleep(0.1)


@contextmanager
def routing(folder: Path, etcd: EtcdServer, **options: Any) -> Iterator[int]:
    """The port of a router that knows its engines of etcd alone."""
    (port,) = free_ports(1)
    config = folder / "router.toml"
    options |= {"listen": f"127.0.0.1:{port}"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
    lines += ["[discovery]", f'etcd = "{etcd.endpoint}"', 'cluster = "test"']
    config.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-P", "-m", "nearkv.router", str(config)]
    with Process("router", command, folder, {}) as router:
        # It says 503 until a server is there that decodes.
        router.wait_until(lambda: answers(f"http://127.0.0.1:{port}/health"), PATIENCE_S)
        yield port
