"""Processes of a cluster: each has a log, is waited for until it answers, and leaves nothing."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nearkv.cluster import ClusterError, guard

_PORTS = range(20000, 30000)
_LOOK_S = 0.2
_PATIENCE_S = 20.0
_LAST_LINES = 8
# Of /proc/PID/stat behind the name: proc(5).
_SESSION, _CPU_TICKS = 3, slice(11, 13)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now, all of them different.

    They are none that the system gives to whoever asks for any, as engines do.
    """
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found


def answers(url: str) -> bool:
    """Whether a GET is answered with success."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


class Process(contextlib.AbstractContextManager):
    """A process and those that it starts, as a context manager: it ends with the block.

    It also ends when the process that made it does, however that happens.
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, variables: Mapping[str, str]
    ) -> None:
        """Starts it; what it says goes to `folder`/`name`.log."""
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:  # Who is started again goes on in it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | variables,
                start_new_session=True,  # Its group is killed whole, and Ctrl-C is ours alone.
            )
        read_end, write_end = os.pipe()
        self._held = open(write_end, "wb", buffering=0)  # noqa: SIM115, as long as we last
        with open(read_end, "rb") as pipe:
            subprocess.run(
                [sys.executable, "-I", "-S", guard.__file__, str(self._process.pid)],
                stdin=pipe,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                check=True,
            )

    @property
    def id(self) -> int:
        """Of the process, and of the group of all that it starts."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def check(self) -> None:
        """ClusterError, with its last words, if it has ended."""
        if not self.is_running:
            raise ClusterError(f"{self.name} ended; its last words:\n{self._last_words()}")

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Until it is ready; ClusterError, with its last words, if it ends or takes longer."""
        end_s = time.monotonic() + timeout_s
        while not is_ready():
            self.check()
            if time.monotonic() > end_s:
                raise ClusterError(
                    f"{self.name} is not ready after {timeout_s:.0f} s; its last words:\n"
                    f"{self._last_words()}"
                )
            time.sleep(_LOOK_S)

    def cpu_s(self) -> float:
        """CPU time that it and what it has started have taken, those that still run."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[_SESSION]) == self._process.pid and fields[0] != "Z":
                    ticks += sum(map(int, fields[_CPU_TICKS]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """As when its machine fails."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Ends it, and what it has started and left; the second time nothing happens."""
        if self._held.closed:
            return
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_S)
        self.kill()
        self._held.close()

    def signal(self, number: int) -> None:
        """Sends a signal to it and to those that it has started, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join(f"  {line}" for line in lines) + f"\n(all of them: {self.log})"
