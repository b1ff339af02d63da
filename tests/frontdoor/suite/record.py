"""Records for the summary, as a plug-in of pytest, what was skipped, what was left, what took long.

It also holds every test to at most one size mark. Where tests run in several processes, the first
records for all: it sees what each reports, and is told what they leave to --long.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from .stage import SIZES


class _Recorder:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._skipped: dict[str, str] = {}
        self._took_s: dict[str, float] = defaultdict(float)
        self._long: dict[str, None] = {}  # In the order of their files.

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Any:
        # Raised here it is an error of the file, which worker processes report like any other.
        made = yield
        for item in made if isinstance(made, list) else [made]:
            if isinstance(item, pytest.Item) and len(sizes := _sizes(item)) > 1:
                text = f"{item.nodeid}: marked {sorted(sizes)}; at most one size"
                raise pytest.Collector.CollectError(text)
        return made

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        self._long |= {item.nodeid: None for item in items if _sizes(item) == {"long"}}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took_s[report.nodeid] += report.duration
        if report.skipped and isinstance(report.longrepr, tuple):
            self._record_skip(report.nodeid, report.longrepr[2])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._record_skip(report.nodeid, report.longrepr[2])

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["long"] = list(self._long)
            return
        record = {"skipped": self._skipped, "long": list(self._long), "took_s": self._took_s}
        self._config.getoption("--record").write_text(json.dumps(record), encoding="utf-8")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._long |= dict.fromkeys(getattr(node, "workeroutput", {}).get("long", ()))

    def _record_skip(self, name: str, reason: str) -> None:
        self._skipped[name] = reason.removeprefix("Skipped: ")


def _sizes(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers() if mark.name in SIZES}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --record."""
    parser.addoption("--record", type=Path, help="where to record what was not run")


def pytest_configure(config: pytest.Config) -> None:
    """Starts recording."""
    config.pluginmanager.register(_Recorder(config))
