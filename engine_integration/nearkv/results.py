"""One schema for everything that is measured: benches, the demo and tests of faults.

A results file is a JSON object: `schema`, `date`, `results` (a list of result objects) and,
beside them, whatever summary keys its writer adds. A result object always has the same keys, and
`extra` when there is something to say that the schema has no word for.

`ratio` and `met` are always computed from the other fields. `bench/result_file.py` reads files.
"""

import json
import math
import operator
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from nearkv.doctor import cpu_count, cpu_extensions, cpu_model, memory_bytes

SCHEMA = "nearkv-results/1"

_NAME = re.compile(r"[\w.:+-]+(/[\w.:+-]+)*")
_COMPARE = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
}


class ResultError(ValueError):
    """A result, or a file of results, that does not follow the schema."""


@dataclass(frozen=True)
class Goal:
    """The figure the project set itself for a result's value, or for its ratio to the peer."""

    op: str
    value: float
    of: str = "value"

    def __post_init__(self) -> None:
        if self.op not in _COMPARE:
            raise ResultError(f"goal: op is {self.op!r}; it must be one of {', '.join(_COMPARE)}")
        if self.of not in ("value", "ratio"):
            raise ResultError(f"goal: of is {self.of!r}; it must be 'value' or 'ratio'")
        _require_number("goal: value", self.value)

    def __str__(self) -> str:
        return f"{'ratio ' if self.of == 'ratio' else ''}{self.op} {format_number(self.value)}"

    def to_json(self) -> dict[str, Any]:
        """`{"op", "value"}`, with `"of": "ratio"` where the goal is not about the value."""
        of = {} if self.of == "value" else {"of": self.of}
        return {"op": self.op, "value": self.value} | of


@dataclass(frozen=True)
class Samples:
    """The readings of one thing measured several times, all in one unit."""

    readings: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle reading."""
        return median(self.readings)

    @property
    def minimum(self) -> float:
        """The smallest reading."""
        return min(self.readings)

    @property
    def maximum(self) -> float:
        """The largest reading."""
        return max(self.readings)

    def per_second(self, work: float) -> "Samples":
        """Turns times in seconds into rates, `work` being what one call does."""
        return Samples(tuple(work / seconds for seconds in self.readings))


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measured figure, with what it stands beside and what the project wants of it.

    `name` is words joined by slashes, the group first: `cpu/attend/dense_128k`. `median`,
    `minimum` and `maximum` are in `unit` and come together or not at all; so do `peer` (what the
    figure is compared with) and `peer_value`, which is in `unit` too. `device` is a NearKV URI.
    """

    name: str
    value: float
    unit: str
    median: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    peer: str | None = None
    peer_value: float | None = None
    goal: Goal | None = None
    device: str = "cpu:"
    machine: str = field(default_factory=lambda: machine_description())
    commit: str = field(default_factory=lambda: git_commit())
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ResultError(f"name is {self.name!r}; it must be words joined by slashes")
        for key in ("unit", "device", "machine", "commit"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key):
                raise ResultError(f"{self.name}: {key} must be a text that is not empty")
        _require_number(f"{self.name}: value", self.value)
        self._check_spread()
        self._check_peer()
        if self.goal and self.goal.of == "ratio" and self.ratio is None:
            raise ResultError(f"{self.name}: a goal for the ratio needs peer and peer_value")

    def _check_spread(self) -> None:
        spread = {"min": self.minimum, "median": self.median, "max": self.maximum}
        given = {key: reading for key, reading in spread.items() if reading is not None}
        if len(given) not in (0, len(spread)):
            absent = ", ".join(key for key in spread if key not in given)
            raise ResultError(f"{self.name}: min, median and max come together; no {absent}")
        for key, reading in given.items():
            _require_number(f"{self.name}: {key}", reading)
        if list(given.values()) != sorted(given.values()):
            raise ResultError(f"{self.name}: min <= median <= max does not hold")

    def _check_peer(self) -> None:
        if (self.peer is None) != (self.peer_value is None):
            raise ResultError(f"{self.name}: peer and peer_value come together")
        if self.peer is not None:
            if not isinstance(self.peer, str) or not self.peer:
                raise ResultError(f"{self.name}: peer must be a text that is not empty")
            _require_number(f"{self.name}: peer_value", self.peer_value)
            if self.peer_value == 0:
                raise ResultError(f"{self.name}: peer_value is 0, so there is no ratio")

    @property
    def ratio(self) -> float | None:
        """How often the peer's value goes into the value; None without a peer."""
        return None if self.peer_value is None else self.value / self.peer_value

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if self.goal is None:
            return None
        return _COMPARE[self.goal.op](getattr(self, self.goal.of), self.goal.value)

    @classmethod
    def of_samples(
        cls, name: str, samples: Samples, unit: str, *, beside: Samples | None = None, **fields: Any
    ) -> "Result":
        """A result whose value is the samples' median.

        `beside` holds the peer's readings; name the peer with `peer=`. Other fields are passed on.
        """
        extra = dict(fields.pop("extra", {}))
        if beside is not None:
            fields["peer_value"] = beside.median
            extra |= {"peer_min": beside.minimum, "peer_max": beside.maximum}
        return cls(
            name=name,
            value=samples.median,
            unit=unit,
            median=samples.median,
            minimum=samples.minimum,
            maximum=samples.maximum,
            extra=extra,
            **fields,
        )

    def to_json(self) -> dict[str, Any]:
        """The result object of the schema."""
        document = {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "median": self.median,
            "min": self.minimum,
            "max": self.maximum,
            "peer": self.peer,
            "peer_value": self.peer_value,
            "ratio": self.ratio,
            "goal": self.goal.to_json() if self.goal else None,
            "met": self.met,
            "device": self.device,
            "machine": self.machine,
            "commit": self.commit,
        }
        return document | ({"extra": dict(self.extra)} if self.extra else {})


def write_results(
    path: Path, results: Sequence[Result], summary: Mapping[str, Any] | None = None
) -> None:
    """Writes a results file, whole or not at all, making its folder if there is none.

    The keys of `summary` stand beside `results` at the top of the file.
    """
    head = {"schema": SCHEMA, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    if taken := sorted((summary or {}).keys() & {*head, "results"}):
        raise ResultError(f"summary: {', '.join(taken)} is a key of the schema")
    document = head | dict(summary or {}) | {"results": [result.to_json() for result in results]}
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def align_rows(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """A line for each row of cells, all as wide as their column; `left`: columns that begin so."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def format_number(number: float) -> str:
    """A number for people: four significant digits, thousands grouped, no exponent near 1."""
    if number != 0 and not 1e-4 <= abs(number) < 1e12:
        return f"{number:.3e}"
    if abs(number) >= 1000 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.4g}"


@cache
def machine_description() -> str:
    """The processor, its cores and the memory: what a figure depends on, and no host name.

    Some processors of several generations have one name, so the vector instructions are told too.
    """
    processor = f"{cpu_model()} ({', '.join(cpu_extensions()) or 'scalar'})"
    return f"{processor}, {cpu_count()} cores, {memory_bytes() / 2**30:.0f} GiB"


@cache
def git_commit() -> str:
    """The commit of this tree, `+dirty` when files differ from it; `unknown` outside git."""
    here = Path(__file__).resolve().parent
    head = _git(here, "rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return head + ("+dirty" if _git(here, "status", "--porcelain") else "")


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _require_number(what: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ResultError(f"{what} is {number!r}; it must be a finite number")
