"""Processes of an emulated card, and what they may leave behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path


def sockets_of_the_dead() -> set[str]:
    """Names of XRT's sockets whose applications have ended; others may run beside this test."""
    folder = Path("/tmp") / os.environ.get("USER", "root")
    return {
        path.name
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := re.search(r"device\d+_\d+_(\d+)$", path.name))
        and not Path("/proc", match[1]).exists()
    }


def ends_soon(pid: int) -> bool:
    """Whether a process is gone within seconds; one that is a zombie is."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def children_of(pid: int) -> list[int]:
    """Of a process, and theirs."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:  # It has just ended.
            continue
        for child in children:
            found += [child, *children_of(child)]
    return found


def simulator_of(pid: int) -> int:
    """The simulator that an application's shim starts, once it has."""
    for _ in range(1000):
        for child in children_of(pid):
            if name_of(child) == "simulator":
                return child
        time.sleep(0.02)
    raise AssertionError(f"process {pid} has started no simulator")


def stop_beside_its_simulator(pid: int) -> None:
    """Stops an application that has a simulator: one that XRT still unpacks stays if it dies."""
    for _ in range(100):
        simulator_of(pid)
        os.kill(pid, signal.SIGSTOP)
        if any(name_of(child) == "simulator" for child in children_of(pid)):
            return
        os.kill(pid, signal.SIGCONT)
    raise AssertionError(f"process {pid} never keeps its simulator")


def name_of(pid: int) -> str:
    """What a process runs; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    """Reads what a process says until a line has this text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the process has ended (status {process.wait()}) without '{text}'")


def wait_for_end(process: subprocess.Popen[str]) -> None:
    """Waits for an application that was sent a signal.

    XRT's handler calls exit(), sometimes in two threads at once, which wait for each other for
    ever: such a process is killed.
    """
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)
