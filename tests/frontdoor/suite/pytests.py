"""The Python tests, by pytest."""

import json
import os
import sys

from .stage import ROOT, Options, Outcome, stream

_RECORD = ROOT / "build" / "pytest.json"
_MARKED = {"quick": "quick", "default": "not long", "long": ""}
_NOTHING_COLLECTED = 5


def find_paths(word: str) -> list[str]:
    """The test folders or files that a word names: a path, or a name under the test folders."""
    name, separator, rest = word.partition("::")
    folders = (ROOT, ROOT / "tests", ROOT / "engine_integration")
    candidates = [folder / f"{name}{suffix}" for folder in folders for suffix in ("", ".py")]
    found = [
        path for path in candidates if path.exists() and (path.is_dir() or path.suffix == ".py")
    ]
    return [f"{path}{separator}{rest}" for path in found[:1]]


def run(options: Options, paths: list[str]) -> Outcome:
    """Runs the tests of the size, under these paths or everywhere."""
    _RECORD.parent.mkdir(parents=True, exist_ok=True)
    _RECORD.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "pytest", "-m", _MARKED[options.size]]
    command += ["-p", "tests.frontdoor.suite.record", "--record", str(_RECORD)]
    command += ["--color", "yes" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else "no"]
    status, lines = stream([*command, *paths])
    outcome = Outcome("pytest", status in (0, _NOTHING_COLLECTED), lines[-1:])
    if _RECORD.exists():
        record = json.loads(_RECORD.read_text(encoding="utf-8"))
        outcome.skipped = record["skipped"]
        outcome.long_only = record["long"] if options.size == "default" else []
    return outcome
