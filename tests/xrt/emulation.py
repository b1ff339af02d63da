"""Emulated cards for tests: made once, run with XRT's sleeps cut short, in folders of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "release"
VADD = ROOT / "hls" / "xrt" / "examples" / "vadd"
TIMEOUT_S = 600  # On a machine that is busy with other things.


def require_emulation() -> None:
    """Skips a test where there is no emulation, with the reason."""
    try:
        missing = json.loads((BUILD / "xrt_emu.json").read_text())["missing"]
    except OSError:
        missing = "the release build is not here (./nearkv build)"
    if missing:
        pytest.skip(missing)


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `nearkv xrt-emu`."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "hls.xrt.emulate", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@dataclass(frozen=True)
class Card:
    """The folder that `nearkv xrt-emu` has made."""

    folder: Path

    @property
    def xclbin(self) -> Path:
        """The card's only one."""
        return next(self.folder.glob("*.xclbin"))

    def environment(self, runs: Path, *, sleeps: bool = False) -> dict[str, str]:
        """What env.sh sets, for an application whose folders are made in `runs`."""
        shell = f'. "{self.folder}/env.sh" && env -0'
        text = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
        found = dict(line.split("=", 1) for line in text.stdout.split("\0") if "=" in line)
        found["SDACCEL_EM_RUN_DIR"] = str(runs)
        if not sleeps:
            found["LD_PRELOAD"] = str(BUILD / "tests" / "xrt" / "libxrt_short_sleep.so")
        return found

    def start(
        self, runs: Path, program: str, *arguments: str, **settings: str
    ) -> subprocess.Popen[str]:
        """Starts a program of tests/xrt, or one as FOLDER/NAME of another folder of tests.

        It gets a session of its own, since XRT signals its group.
        """
        folder = BUILD / "tests" if "/" in program else BUILD / "tests" / "xrt"
        return subprocess.Popen(
            [str(folder / program), *arguments],
            cwd=runs,
            env=self.environment(runs) | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, runs: Path, program: str, *arguments: str, **settings: str) -> tuple[int, str]:
        """Runs it to its end; its status and what it said."""
        process = self.start(runs, program, *arguments, **settings)
        try:
            text, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
        return process.returncode, text


def copy_vadd(folder: Path, old: str = "", new: str = "") -> Path:
    """The example's source in `folder`, with one place changed."""
    source = (VADD / "vadd.sv").read_text()
    assert old in source
    path = folder / "vadd.sv"
    path.write_text(source.replace(old, new, 1) if old else source)
    shutil.copy(VADD / "kernel.xml", folder)
    return path
