"""Environments of serving engines: each has pins of its own, and is made once for a user.

They lie in $XDG_CACHE_HOME/nearkv/engines, where all checkouts find them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
# What an engine's environment lacks it finds last of all in ours, of whichever checkout runs it.
_OURS_LAST = 'import os, sys; sys.path += filter(None, [os.environ.get("NEARKV_SITE_PACKAGES")])\n'


class EnvironmentMissing(RuntimeError):
    """It could not be made; the text ends with pip's last words."""


@dataclass(frozen=True)
class Environment:
    """An interpreter with an engine, which finds NearKV as this checkout has built it."""

    python: Path

    @property
    def variables(self) -> dict[str, str]:
        """What its processes have to be given."""
        paths = ROOT / "engine_integration", ROOT / "build" / "release" / "python"
        return {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "NEARKV_SITE_PACKAGES": sysconfig.get_path("purelib"),
        }

    def run(self, program: Path, question: Any, timeout_s: float) -> Any:
        """Runs a program that takes JSON as its argument, and ends its output with a line of it."""
        done = subprocess.run(
            [self.python, program, json.dumps(question)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=os.environ | self.variables,
        )
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and lines, done.stdout[-4000:] + done.stderr[-8000:]
        return json.loads(lines[-1])


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearkv" / "engines"


def make_environment(name: str) -> Environment:
    """Installs what NAME-requirements.txt names, and no more; what it lacks is found in ours.

    Lines there of the form `#: NAME=VALUE` are variables for pip and what it builds.
    """
    requirements = _HERE / f"{name}-requirements.txt"
    wanted = requirements.read_bytes() + sys.version.encode() + _OURS_LAST.encode()
    folder = _cache_folder() / f"{name}-{hashlib.sha256(wanted).hexdigest()[:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            venv.create(unfinished, with_pip=False, symlinks=True)
            _pip(unfinished, requirements)
            (packages,) = unfinished.glob("lib/python*/site-packages")
            (packages / "ours_last.pth").write_text(_OURS_LAST)
            unfinished.rename(folder)
    return Environment(folder / "bin" / "python")


def _pip(folder: Path, requirements: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    variables = re.findall(r"^#: (\w+)=(.*)$", requirements.read_text(), re.MULTILINE)
    done = subprocess.run(
        [*command, "--no-deps", "--requirement", str(requirements)],
        capture_output=True,
        text=True,
        env=os.environ | dict(variables),
    )
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise EnvironmentMissing(f"pip install failed:\n{said}")
