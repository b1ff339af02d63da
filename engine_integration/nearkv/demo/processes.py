"""The demo's processes, and the file between them, as the one that a user started sees them."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nearkv.demo import DemoError

_PREFIX = "nearkv-demo-"


class ModelProcess:
    """A process with a model. Ends with the `with` block, whatever happens."""

    def __init__(self, **request: Any) -> None:
        paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
        # The threads of torch and those of NearKV's device take turns on the same cores: neither
        # may spin on them while it waits.
        passive = {"OMP_WAIT_POLICY": "PASSIVE"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nearkv.demo.worker"],
            env=passive | os.environ | paths,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the demo alone, which ends this.
        )
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """What it says next; DemoError with its own text, or with how it ended."""
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            raise DemoError(
                f"the process with the model ended by {how}. Is there memory and room in "
                f"{tempfile.gettempdir()} left? TMPDIR names another folder"
            )
        message = json.loads(line)
        if "error" in message:
            raise DemoError(message["error"])
        return message

    def kill(self) -> None:
        """Ends it by SIGKILL, which no process can answer."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> "ModelProcess":
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()


@contextmanager
def scratch_folder(need_bytes: int) -> Iterator[Path]:
    """A folder that is removed at the end; those of demos that were killed are removed first.

    DemoError if there is no room for so many bytes.
    """
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{_PREFIX}*"):
        _remove_if_left(left)
    free_bytes = shutil.disk_usage(parent).free
    if free_bytes < need_bytes:
        raise DemoError(
            f"{parent} has {free_bytes >> 20} MiB of room, and the demo needs {need_bytes >> 20} "
            "MiB there for a while; TMPDIR names another folder"
        )
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    """Its lock is the folder's descriptor."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)  # Another demo took it for one that was left.


def _remove_if_left(folder: Path) -> None:
    """Its demo holds a lock on it for as long as it runs."""
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def pull_the_plug(worker: ModelProcess, answer: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
    """Lets a worker decode half of an answer that is known, and kills it.

    Gives what it said of its warm start, and the tokens that it had told.
    """
    warm = worker.hear()
    told = [worker.hear()["token"] for _ in range(max(1, len(answer) // 2))]
    worker.kill()
    return warm, told
