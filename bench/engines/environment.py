"""Environments of serving engines: each has pins of its own, and is made once for a user.

They lie in $XDG_CACHE_HOME/nearkv/engines, where all checkouts find them. As a program: makes the
one of a name, and prints its interpreter.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_ENDING = "-requirements.txt"
# What an engine's environment lacks it finds last of all in ours, of whichever checkout runs it.
_OURS_LAST = (_HERE / "ours_last.py").read_text()


class EnvironmentMissing(RuntimeError):
    """It could not be made; the text ends with pip's last words."""


@dataclass(frozen=True)
class Environment:
    """An interpreter with an engine, which finds NearKV as this checkout has built it."""

    python: Path

    @property
    def variables(self) -> dict[str, str]:
        """What its processes have to be given."""
        paths = ROOT, ROOT / "engine_integration", ROOT / "build" / "release" / "python"
        return {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "NEARKV_SITE_PACKAGES": sysconfig.get_path("purelib"),
        }

    def run(self, program: Path, question: Any, timeout_s: float) -> Any:
        """Runs a program that takes JSON as its argument, and ends its output with a line of it.

        What processes that it started still log behind that is passed over.
        """
        done = self.finished(program, json.dumps(question), timeout_s)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
        for line in reversed(done.stdout.splitlines()):
            with suppress(json.JSONDecodeError):
                return json.loads(line)
        raise AssertionError(f"no line of JSON:\n{done.stdout[-4000:]}{done.stderr[-8000:]}")

    def finished(
        self, program: Path, argument: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """The program's process when it has ended, with what it wrote."""
        return subprocess.run(
            [self.python, program, argument],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=os.environ | self.variables,
        )


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearkv" / "engines"


def environments() -> list[str]:
    """The names of those that there are, in their order."""
    return sorted(file.name.removesuffix(_ENDING) for file in _HERE.glob(f"*{_ENDING}"))


def pins(name: str) -> Path:
    """The file that pins what the environment of a name has."""
    return _HERE / f"{name}{_ENDING}"


def requirements(name: str) -> str:
    """What NAME-requirements.txt says, for pip.

    A line `#: as OTHER` stands for what OTHER's says, but for the packages that are pinned beside
    it; lines `#: NAME=VALUE` are variables for pip and what it builds.
    """
    own = pins(name).read_text()
    if (other := re.search(r"^#: as (\S+)$", own, re.MULTILINE)) is None:
        return own
    pinned = set(re.findall(r"^([\w-]+)==", own, re.MULTILINE))
    taken = requirements(other[1]).splitlines(keepends=True)
    return "".join(line for line in taken if line.partition("==")[0] not in pinned) + own


def make_environment(name: str) -> Environment:
    """Installs what requirements() names, and no more; what it lacks is found in ours."""
    text = requirements(name)
    wanted = text.encode() + sys.version.encode() + _OURS_LAST.encode()
    folder = _cache_folder() / f"{name}-{hashlib.sha256(wanted).hexdigest()[:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            venv.create(unfinished, with_pip=False, symlinks=True)
            _pip(unfinished, text)
            (packages,) = unfinished.glob("lib/python*/site-packages")
            (packages / "ours_last.py").write_text(_OURS_LAST)
            (packages / "ours_last.pth").write_text("import ours_last\n")
            unfinished.rename(folder)
    return Environment(folder / "bin" / "python")


def _pip(folder: Path, text: str) -> None:
    listed = folder / "requirements.txt"
    listed.write_text(text)
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    variables = re.findall(r"^#: (\w+)=(.*)$", text, re.MULTILINE)
    done = subprocess.run(
        [*command, "--no-deps", "--requirement", str(listed)],
        capture_output=True,
        text=True,
        env=os.environ | dict(variables),
    )
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise EnvironmentMissing(f"pip install failed:\n{said}")


if __name__ == "__main__":
    try:
        print(make_environment(sys.argv[1]).python)
    except EnvironmentMissing as missing:
        sys.exit(str(missing))
