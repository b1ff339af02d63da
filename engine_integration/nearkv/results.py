"""One schema for everything that is measured: benches, the demo and tests of faults.

A results file is a JSON object: `schema`, `date`, `results` (a list of result objects) and,
beside them, whatever summary keys its writer adds. A result object has exactly the keys of
`RESULT_KEYS`, and `extra` when there is something to say that the schema has no word for.

`ratio` and `met` are always computed from the other fields. A file whose stored ratio or met
disagrees with its own figures is refused.
"""

import json
import math
import operator
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from nearkv.doctor import cpu_count, cpu_model, memory_bytes

SCHEMA = "nearkv-results/1"
RESULT_KEYS = (
    *("name", "value", "unit", "median", "min", "max"),
    *("peer", "peer_value", "ratio", "goal", "met", "device", "machine", "commit"),
)

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

    @classmethod
    def from_json(cls, document: Any) -> "Result":
        """Reads a result object; raises ResultError naming what is wrong with it."""
        if not isinstance(document, dict):
            raise ResultError("a result must be an object")
        name = document.get("name", "result without a name")
        if absent := [key for key in RESULT_KEYS if key not in document]:
            raise ResultError(f"{name}: no {', '.join(absent)}")
        if unknown := sorted(document.keys() - {*RESULT_KEYS, "extra"}):
            raise ResultError(f"{name}: {', '.join(unknown)} is not part of the schema")
        fields = {key: document[key] for key in RESULT_KEYS if key not in ("ratio", "met")}
        fields["minimum"], fields["maximum"] = fields.pop("min"), fields.pop("max")
        fields["goal"] = _goal_from_json(name, document["goal"])
        fields["extra"] = document.get("extra", {})
        if not isinstance(fields["extra"], dict):
            raise ResultError(f"{name}: extra must be an object")
        result = cls(**fields)
        result._check_computed(document["ratio"], document["met"])
        return result

    def _check_computed(self, ratio: Any, met: Any) -> None:
        agrees = ratio is None if self.ratio is None else _is_close(ratio, self.ratio)
        if not agrees:
            raise ResultError(
                f"{self.name}: ratio is {ratio}, but value / peer_value = {self.ratio}"
            )
        if met is not self.met:
            raise ResultError(f"{self.name}: met is {met}, but its own figures say {self.met}")


@dataclass(frozen=True)
class ResultFile:
    """What a results file holds. `summary` is every key that is not part of the schema."""

    results: tuple[Result, ...]
    date: str
    summary: Mapping[str, Any]


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


def read_results(path: Path) -> ResultFile:
    """Reads a results file; raises ResultError that names the file, or OSError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ResultError(f"not a results file: its schema is not {SCHEMA!r}")
        if not isinstance(document.get("date"), str):
            raise ResultError("no date")
        if not isinstance(document.get("results"), list):
            raise ResultError("results must be a list")
        results = tuple(Result.from_json(result) for result in document["results"])
    except (ResultError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ResultError(f"{path}: {error}") from error
    summary = {k: v for k, v in document.items() if k not in ("schema", "date", "results")}
    return ResultFile(results, document["date"], summary)


# OpenMP's threads keep spinning for a while after their work, on the next call's cores.
_PAUSE_S = 0.01


def interleave(calls: Sequence[Callable[[], object]], *, repeat: int = 7) -> list[Samples]:
    """Times each call `repeat` times, in turn (A B C A B C), and gives their seconds.

    Taking turns makes a drift of the machine fall on all alike; a pause before each turn keeps
    them apart. In its turn a call is made twice and the second one timed: as in a loop that makes
    it all the time, with its threads awake.
    """
    if repeat < 1:
        raise ValueError("interleave: repeat must be at least 1")
    readings: list[list[float]] = [[] for _ in calls]
    for _ in range(repeat):
        for call, seconds in zip(calls, readings, strict=True):
            time.sleep(_PAUSE_S)
            call()
            start_ns = time.perf_counter_ns()
            call()
            elapsed_ns = time.perf_counter_ns() - start_ns
            seconds.append(max(elapsed_ns, 1) * 1e-9)
    return [Samples(tuple(seconds)) for seconds in readings]


def measure(call: Callable[[], object], *, repeat: int = 7) -> Samples:
    """Times one call; see `interleave`."""
    return interleave([call], repeat=repeat)[0]


def compare(
    first: Callable[[], object], second: Callable[[], object], *, repeat: int = 7
) -> tuple[Samples, Samples, float]:
    """Times two calls side by side (A B A B): both samples, and how often as fast the first is."""
    a, b = interleave([first, second], repeat=repeat)
    return a, b, b.median / a.median


def format_table(results: Sequence[Result]) -> str:
    """The results as aligned text, one line each, with a head."""
    left_aligned = {"name", "unit", "peer", "goal", "met"}
    rows = [_table_row(result) for result in results]
    if not rows:
        return "no results"
    heads = list(rows[0])
    left = [place for place, head in enumerate(heads) if head in left_aligned]
    return "\n".join(align_rows([heads, *(list(row.values()) for row in rows)], left))


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


def _table_row(result: Result) -> dict[str, str]:
    spread = result.minimum is not None and result.maximum is not None
    return {
        "name": result.name,
        "value": format_number(result.value),
        "unit": result.unit,
        "min": format_number(result.minimum) if spread else "",
        "max": format_number(result.maximum) if spread else "",
        "peer value": "" if result.peer_value is None else format_number(result.peer_value),
        "peer": result.peer or "",
        "ratio": "" if result.ratio is None else format_number(result.ratio),
        "goal": str(result.goal) if result.goal else "",
        "met": {None: "", True: "met", False: "MISSED"}[result.met],
    }


def format_number(number: float) -> str:
    """A number for people: four significant digits, thousands grouped, no exponent near 1."""
    if number != 0 and not 1e-4 <= abs(number) < 1e12:
        return f"{number:.3e}"
    if abs(number) >= 1000 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.4g}"


@cache
def machine_description() -> str:
    """The processor, its cores and the memory: what a figure depends on, and no host name."""
    return f"{cpu_model()}, {cpu_count()} cores, {memory_bytes() / 2**30:.0f} GiB"


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


def _goal_from_json(name: str, document: Any) -> Goal | None:
    if document is None:
        return None
    if not isinstance(document, dict) or not {"op", "value"} <= document.keys() <= {
        *("op", "value", "of")
    }:
        raise ResultError(f'{name}: goal must be {{"op", "value"}} and, for the ratio, "of"')
    return Goal(**document)


def _require_number(what: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ResultError(f"{what} is {number!r}; it must be a finite number")


def _is_close(stored: Any, computed: float) -> bool:
    return isinstance(stored, int | float) and math.isclose(stored, computed, rel_tol=1e-9)
