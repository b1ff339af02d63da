"""A pytest plug-in that records for the summary what was skipped, and what only --long runs.

It also holds every test to at most one size mark.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from .stage import SIZES


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._skipped: dict[str, str] = {}
        self._long: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            sizes = {mark.name for mark in item.iter_markers() if mark.name in SIZES}
            if len(sizes) > 1:
                raise pytest.UsageError(f"{item.nodeid}: marked {sorted(sizes)}; at most one size")
            if sizes == {"long"}:
                self._long.append(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._record_skip(report.nodeid, report.longrepr[2])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._record_skip(report.nodeid, report.longrepr[2])

    def pytest_sessionfinish(self) -> None:
        record = {"skipped": self._skipped, "long": self._long}
        self._path.write_text(json.dumps(record), encoding="utf-8")

    def _record_skip(self, name: str, reason: str) -> None:
        self._skipped[name] = reason.removeprefix("Skipped: ")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --record."""
    parser.addoption("--record", type=Path, help="where to record what was not run")


def pytest_configure(config: pytest.Config) -> None:
    """Starts recording."""
    config.pluginmanager.register(_Recorder(config.getoption("--record")))
