"""What the stages of the suite share: their outcome, and how they run programs."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "release"

# Each size runs the tests marked with its own name and with those of the smaller sizes.
SIZES = ("quick", "default", "long")


@dataclass(frozen=True)
class Options:
    """What the person asked for. `filters` are the words that select tests."""

    size: str = "default"
    filters: tuple[str, ...] = ()
    jobs: int = 1
    see: Callable[[str], None] = lambda line: None  # Is given each line of a stage's program.


@dataclass
class Outcome:
    """What a stage found. `closing` are the last lines of the program that it ran."""

    name: str
    ok: bool
    closing: list[str]
    skipped: dict[str, str] = field(default_factory=dict)  # test to reason
    long_only: list[str] = field(default_factory=list)
    took_s: dict[str, float] = field(default_factory=dict)  # test to seconds


Stage = Callable[[Options], Outcome]
"""Runs a part of the suite."""


def our_files() -> list[Path]:
    """Files that git tracks or would track; outside git, all but hidden and built ones."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(git, capture_output=True, text=True)
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
        return sorted({path for path in paths if path.is_file()})
    hidden_or_built = re.compile(r"(^|/)(\.|build/)")
    files = (path for path in ROOT.rglob("*") if path.is_file())
    return sorted(path for path in files if not hidden_or_built.search(str(path.relative_to(ROOT))))


def tool(name: str) -> str:
    """The path of a program of the virtual environment."""
    return str(Path(sys.executable).with_name(name))


def stream(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    see: Callable[[str], None] = lambda line: None,
) -> tuple[int, list[str]]:
    """Runs a program in the root, passing its output on as it comes; its status and its lines.

    With what `environment` adds to ours. `see` is given each line.
    """
    output = bytearray()
    seen = 0
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 1 << 16):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            output += chunk
            while (end := output.find(b"\n", seen)) >= 0:
                see(output[seen:end].decode(errors="replace"))
                seen = end + 1
    return process.returncode, output.decode(errors="replace").splitlines()
