"""The Python tests, by pytest."""

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from .stage import ROOT, Options, Outcome, stream

GUEST = ROOT / "tests" / "guest"
"""Tests that run several at a time, by a command of their own."""
ENGINES = ROOT / "tests" / "engines"
"""Tests whose files run side by side: most of their time one processor starts an engine."""
_RECORD = ROOT / "build" / "pytest.json"
_MARKED = {"quick": "quick", "default": "not long", "long": ""}
_NOTHING_COLLECTED = 5


def find_paths(word: str) -> list[str]:
    """The test folders or files that a word names: a path, or a name under the test folders."""
    name, separator, rest = word.partition("::")
    # A folder of tests may be called as what it tests, which is no test.
    folders = (ROOT / "tests", ROOT / "engine_integration", ROOT)
    candidates = [folder / f"{name}{suffix}" for folder in folders for suffix in ("", ".py")]
    found = [
        path for path in candidates if path.exists() and (path.is_dir() or path.suffix == ".py")
    ]
    return [f"{path}{separator}{rest}" for path in found[:1]]


def run(options: Options, paths: list[str]) -> Outcome:
    """Runs the tests of the size, under these paths or where no stage of its own does.

    All of them run side by side, file by file.
    """
    elsewhere = [f"--ignore={GUEST}", f"--ignore={ENGINES}", *_side_by_side(options)]
    return _run("pytest", options, [*_pytest(), *(paths or elsewhere)])


def run_engines(options: Options) -> Outcome:
    """Runs the tests of serving engines."""
    return _run("engines", options, [*_pytest(), *_side_by_side(options), str(ENGINES)])


def run_guest(options: Options, words: Sequence[str] = ()) -> Outcome:
    """Runs the tests of the emulated card's guest; `words` say on which kernel."""
    name = " ".join(["guest", *words])
    return _run(name, options, [sys.executable, "-m", "emulator.qemu", "--test", *words])


def _pytest() -> list[str]:
    color = "yes" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else "no"
    return [sys.executable, "-P", "-m", "pytest", "--color", color]


def _side_by_side(options: Options) -> list[str]:
    return ["-n", str(options.jobs), "--dist", "loadfile"]


def _run(name: str, options: Options, command: Sequence[str]) -> Outcome:
    _RECORD.parent.mkdir(parents=True, exist_ok=True)
    _RECORD.unlink(missing_ok=True)
    # A short path, because sockets lie there, whose names have 107 characters at the most.
    with tempfile.TemporaryDirectory(prefix="nkv") as folder:
        words = ["-p", "tests.frontdoor.suite.record", "--record", str(_RECORD)]
        words += ["-m", _MARKED[options.size], "--basetemp", folder]
        options_of_all = f"{os.environ.get('PYTEST_ADDOPTS', '')} {shlex.join(words)}"
        status, lines = stream(command, {"PYTEST_ADDOPTS": options_of_all}, options.see)
    outcome = Outcome(name, status in (0, _NOTHING_COLLECTED), lines[-1:])
    with suppress(FileNotFoundError):
        record = json.loads(_RECORD.read_text(encoding="utf-8"))
        outcome.skipped, outcome.took_s = record["skipped"], record["took_s"]
        outcome.long_only = record["long"] if options.size == "default" else []
    return outcome
