"""A real etcd for tests, which they may kill, start again, and start with nothing."""

import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Self

import pytest

from nearkv.cluster.processes import free_ports

TTL_S = 1


class EtcdServer:
    """One member of its own cluster. A context manager: it is up as long as the block lasts."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("etcd") is None:
            pytest.skip("etcd is not here: apt-get install etcd-server")
        self._folder = folder / "etcd"
        self._folder.mkdir()
        client, peer = free_ports(2)
        self.endpoint = f"http://127.0.0.1:{client}"
        self._peer = f"http://127.0.0.1:{peer}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            *("etcd", "--data-dir", str(self._folder / "data")),
            *("--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint),
            *("--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer),
            *("--initial-cluster", f"default={self._peer}"),
            # Leases are rounded up to one and a half election timeouts.
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
        ]
        # Debian's build asks for consent on architectures that it has not been tested on.
        variables = os.environ | {"ETCD_UNSUPPORTED_ARCH": "arm64"}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=variables)

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Deletes all that it keeps. It is not running."""
        shutil.rmtree(self._folder / "data")

    def clear(self) -> None:
        """Deletes all keys. It is running."""
        everything = b'{"key": "AA==", "range_end": "AA=="}'
        urllib.request.urlopen(f"{self.endpoint}/v3/kv/deleterange", everything, 10).close()

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/health", timeout=2) as answer:
                return b'"true"' in answer.read()
        except OSError:
            return False

    def wait_up(self) -> None:
        while not self.is_up():
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self.start()
        self.wait_up()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
