"""Finds and runs the open tools that prove and synthesise the RTL: Yosys, nextpnr, ABC."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


class ToolError(Exception):
    """A tool that failed, or took too long."""


class MissingTool(ToolError):
    """A tool that is not installed."""


def find_tool(*names: str) -> str:
    """The first of these programs that this Python's environment or PATH has.

    Raises MissingTool where none is there.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise MissingTool(f"{' or '.join(names)} is missing")


def run_tool(command: Sequence[str], folder: Path, seconds: float | None = None) -> str:
    """What a tool says when it runs in `folder`; raises ToolError with the end of what it said.

    `seconds` is the longest that it may take. The preparation of a tool's first run is not counted.
    """
    name = Path(command[0]).name
    if name.startswith("yowasp-"):
        _prepare(command[0])
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{name}: not done after {seconds} s") from error
    if done.returncode != 0:
        said = f"{done.stdout}{done.stderr}".strip().splitlines()
        raise ToolError("\n".join([f"{name} {_ending(done.returncode)}", *said[-5:]]))
    return done.stdout


@functools.cache
def _prepare(tool: str) -> None:
    """Lets a tool that is WebAssembly be compiled before it works.

    The first run of such a tool compiles it for minutes and writes the machine code, which later
    runs map into memory, to a cache. Two first runs at once would write the same file, and a third
    process that has mapped it would be killed; so one process at a time gets here.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    lock_path = Path(home) / "nearkv" / "open_tools.lock"
    try:
        lock_path.parent.mkdir(parents=True, exist_ok=True)
        with lock_path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # On stderr the tool tells the user why its first run takes minutes.
            subprocess.run([tool, "--version"], stdout=subprocess.DEVNULL, check=True)
    except OSError as error:
        raise ToolError(f"{error}; name another folder with XDG_CACHE_HOME") from error
    except subprocess.CalledProcessError as error:
        raise ToolError(f"{Path(tool).name} {_ending(error.returncode)}") from error


def _ending(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"
