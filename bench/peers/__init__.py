"""Other stores of KV blocks, as contenders that move the same objects in turns with ours.

Each runs in a process of its own, in an environment of its own under build/peers where it is a
Python package, since their pins conflict with ours and with each other's. README.md has the orders.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import Context, Skipped
from bench.contender import Contender

_HERE = Path(__file__).resolve().parent
_ENVIRONMENTS = Path(os.environ.get("NEARKV_PEERS", _HERE.parent.parent / "build" / "peers"))


@dataclass(frozen=True)
class Peer:
    """Another store: where it keeps objects, and what it takes to run it."""

    name: str
    title: str
    place: str  # "memory", "shared" (a file in shared memory) or "disk"
    boundary: str  # what lies between the caller and the store
    environment: str
    requirements: tuple[str, ...]
    command: tuple[str, ...]  # a worker here, and its first arguments
    program: str = ""  # that a distribution's package of the same purpose brings
    package: str = ""

    @property
    def python(self) -> Path:
        """The interpreter that its worker runs in."""
        return _ENVIRONMENTS / self.environment / "bin" / "python"

    @property
    def _stamp(self) -> Path:
        return _ENVIRONMENTS / self.environment / "requirements.txt"

    @property
    def _pins(self) -> str:
        return "".join(f"{requirement}\n" for requirement in self.requirements)

    def require(self, context: Context) -> None:
        """Installs it if it can be and the context allows that.

        Raises Skipped if it is not here then, with what mends that or the last line that pip said.
        """
        if self.program and not shutil.which(self.program):
            raise self._skipped(f"no {self.program} here; apt-get install {self.package}")
        if self._stamp.exists() and self._stamp.read_text(encoding="utf-8") == self._pins:
            return
        if not context.install_peers:
            raise self._skipped("not installed; the bench's --peers installs it")
        context.progress(f"installing {self.title}: {', '.join(self.requirements)}")
        folder = _ENVIRONMENTS / self.environment
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        for command in (
            (sys.executable, "-m", "venv", "--clear", str(folder)),
            (str(self.python), *install, *self.requirements),
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines()
                raise self._skipped(lines[-1] if lines else f"{command[0]}: {done.returncode}")
        self._stamp.write_text(self._pins, encoding="utf-8")

    def _skipped(self, why: str) -> Skipped:
        return Skipped(f"{self.title}: {why}")

    def start(self, objects: int, object_bytes: int, batch: int, folder: Path) -> Contender:
        """A process that holds so many objects and takes orders."""
        worker, *arguments = self.command
        sizes = ("--objects", str(objects), "--object-bytes", str(object_bytes))
        places = ("--batch", str(batch), "--folder", str(folder))
        command = [str(self.python), str(_HERE / worker), *arguments, *sizes, *places]
        return Contender(self.title, command)


DYNAMO_ROUTER = Peer(
    name="dynamo",
    title="Dynamo 1.6.1's RadixTree",
    place="memory",
    boundary="a thread of the caller's process",
    environment="dynamo",
    requirements=("ai-dynamo-runtime==1.6.1",),
    command=("router_worker.py", "dynamo"),
)

_LMCACHE = ("lmcache==0.5.6",)

PEERS = (
    Peer(
        name="lmcache_cpu",
        title="LMCache 0.5.6, local CPU",
        place="memory",
        boundary="in the caller's process",
        environment="lmcache",
        requirements=_LMCACHE,
        command=("lmcache_worker.py", "cpu"),
    ),
    Peer(
        name="lmcache_dax",
        title="LMCache 0.5.6, DAX on a file in shared memory",
        place="shared",
        boundary="in the caller's process",
        environment="lmcache",
        requirements=_LMCACHE,
        command=("lmcache_worker.py", "dax"),
    ),
    Peer(
        name="lmcache_disk",
        title="LMCache 0.5.6, local disk, not synced",
        place="disk",
        boundary="in the caller's process",
        environment="lmcache",
        requirements=_LMCACHE,
        command=("lmcache_worker.py", "disk"),
    ),
    Peer(
        name="mooncake",
        title="Mooncake store 0.3.13, local segment",
        place="memory",
        boundary="segment in the caller's process, master over TCP",
        environment="mooncake",
        requirements=("mooncake-transfer-engine-non-cuda==0.3.13.post1",),
        command=("mooncake_worker.py",),
    ),
    Peer(
        name="redis",
        title="Redis",
        place="memory",
        boundary="a server on a Unix socket",
        environment="redis",
        requirements=("redis==8.1.0", "hiredis==3.5.0"),
        command=("redis_worker.py",),
        program="redis-server",
        package="redis-server",
    ),
    Peer(
        name="memcached",
        title="memcached, 1 thread",
        place="memory",
        boundary="a server on a Unix socket",
        environment="memcached",
        requirements=("pymemcache==4.0.0",),
        command=("memcached_worker.py",),
        program="memcached",
        package="memcached",
    ),
)
