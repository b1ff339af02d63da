"""Which engines NearKV was tested with: a pytest plug-in that records runs, and the table of them.

./nearkv test engines                       records below build/
python -m tests.engines.compatibility       writes engine_integration/COMPATIBILITY.md from that
"""

from __future__ import annotations

import ast
import datetime
import json
import platform
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import ROOT, environments, pins

_RECORD = ROOT / "build" / "engines.json"
_TABLE = ROOT / "engine_integration" / "COMPATIBILITY.md"
_HERE = Path(__file__).parent
_HEAD = """\
# Tested with

Written by `python -m tests.engines.compatibility` from what `./nearkv test engines` recorded: every
row is a file of tests with one version, and the last run of each of its tests. Other versions were
not run.

| engine | version | what | passed | failed | skipped | not run | Python | date |
|---|---|---|---|---|---|---|---|---|
"""


class Recorder:
    """Keeps the outcome of each test of an engine, over runs."""

    def __init__(self) -> None:
        self._outcomes: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What has failed in any phase has failed; what was skipped was not run."""
        file, _, name = report.nodeid.partition("::")
        if version_of(ROOT / file) is None:
            return
        tests = self._outcomes.setdefault(file, {})
        if report.when == "call" or report.outcome != "passed":
            today = datetime.datetime.now(datetime.UTC).date().isoformat()
            python = platform.python_version()
            tests[name] = {"outcome": report.outcome, "date": today, "python": python}

    def pytest_sessionfinish(self) -> None:
        """Adds this run to the record."""
        if not self._outcomes:
            return
        record = json.loads(_RECORD.read_text()) if _RECORD.exists() else {}
        for file, tests in self._outcomes.items():
            record[file] = record.get(file, {}) | tests
        _RECORD.parent.mkdir(parents=True, exist_ok=True)
        _RECORD.write_text(json.dumps(record, indent=1, sort_keys=True))


def version_of(file: Path) -> tuple[str, str] | None:
    """The engine that tests of a file are about and its pinned version, or None if about none."""
    subject = file.stem.removeprefix("test_")
    for name in sorted(environments(), key=len, reverse=True):
        if file.parent == _HERE and f"{subject}_".startswith(f"{name}_"):
            return name, _pin(pins(name), r"[\w-]+")
    if subject.startswith("transformers"):
        return "transformers", _pin(ROOT / "requirements.txt", "transformers")
    return (subject, "its published interface alone") if file.parent == _HERE else None


def _pin(pins: Path, package: str) -> str:
    """The version of the first package of that name, a pattern."""
    return re.search(rf"^{package}==(\S+)", pins.read_text(), re.MULTILINE)[1]


def collected() -> dict[str, list[str]]:
    """The tests that there are, by their files."""
    folders = _HERE, ROOT / "engine_integration" / "tests"
    files = [file for folder in folders for file in folder.glob("test_*.py") if version_of(file)]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    there: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        file, _, test = line.partition("::")
        if test:
            there.setdefault(file, []).append(test)
    return there


def table() -> str:
    """The record as a page, which keeps its rows of what was not run here.

    What was run of tests that are no more is left out.
    """
    record = json.loads(_RECORD.read_text())
    before = _TABLE.read_text().splitlines(keepends=True)
    rows = []
    for file, tests in sorted(collected().items()):
        name, version = version_of(ROOT / file)
        said = (ast.get_docstring(ast.parse((ROOT / file).read_text())) or "").partition("\n")[0]
        begin = f"| {name} | {version} | {said} | "
        runs = [record[file][test] for test in tests if test in record.get(file, {})]
        if not runs:
            rows += [line for line in before if line.startswith(begin)]
            continue
        count = Counter(run["outcome"] for run in runs)
        last = max(runs, key=lambda run: run["date"])
        cells = [count["passed"], count["failed"], count["skipped"], len(tests) - len(runs)]
        cells += [last["python"], last["date"]]
        rows.append(f"{begin}{' | '.join(map(str, cells))} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    _TABLE.write_text(table())
    print(f"wrote {_TABLE.relative_to(ROOT)}")
