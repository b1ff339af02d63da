"""Reads results files (see `nearkv.results`); one that contradicts its own figures is refused."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkv.results import SCHEMA, Goal, Result, ResultError

RESULT_KEYS = (
    *("name", "value", "unit", "median", "min", "max"),
    *("peer", "peer_value", "ratio", "goal", "met", "device", "machine", "commit"),
)


@dataclass(frozen=True)
class ResultFile:
    """What a results file holds. `summary` is every key that is not part of the schema."""

    results: tuple[Result, ...]
    date: str
    summary: Mapping[str, Any]


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
        results = tuple(result_of(result) for result in document["results"])
    except (ResultError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ResultError(f"{path}: {error}") from error
    summary = {k: v for k, v in document.items() if k not in ("schema", "date", "results")}
    return ResultFile(results, document["date"], summary)


def result_of(document: Any) -> Result:
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
    result = Result(**fields)
    _check_computed(result, document["ratio"], document["met"])
    return result


def _check_computed(result: Result, ratio: Any, met: Any) -> None:
    wanted = result.ratio
    is_number = isinstance(ratio, int | float) and wanted is not None
    if not (math.isclose(ratio, wanted, rel_tol=1e-9) if is_number else ratio is wanted):
        raise ResultError(
            f"{result.name}: ratio is {ratio}, but value / peer_value = {result.ratio}"
        )
    if met is not result.met:
        raise ResultError(f"{result.name}: met is {met}, but its own figures say {result.met}")


def _goal_from_json(name: str, document: Any) -> Goal | None:
    if document is None:
        return None
    keys = document.keys() if isinstance(document, dict) else set()
    if not {"op", "value"} <= keys <= {"op", "value", "of"}:
        raise ResultError(f'{name}: goal must be {{"op", "value"}} and, for the ratio, "of"')
    return Goal(**document)
