"""Cycles of commands on the Verilated engine, beside their bursts and the committed cycles."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import Context
from bench.programs import Programs
from nearkv.results import Goal, Result

_BASELINE = Path(__file__).parent / "baselines" / "rtl.json"

# Streams move at least 0.95 of a burst per cycle; selections take at most 1.15 of their bursts.
_STREAM = Goal("<=", 1 / 0.95, of="ratio")
_SELECTION = Goal("<=", 1.15, of="ratio")
_GOALS = {
    "scrub": _STREAM,
    "topk_full": _STREAM,
    "attend_dense": _STREAM,
    "topk_certified": _SELECTION,
    "topk_statistical": _SELECTION,
    "attend_tail": _SELECTION,
}


def run(context: Context) -> Iterator[Result]:
    """Yields the cycles of each command beside its bursts; fails if any takes more than before."""
    context.progress("simulating")
    arguments = ("--tokens", "1024") if context.tiny else ()
    rows = Programs(context).run("rtl", *arguments)["results"]
    for row in rows:
        yield _result(row)
    if not context.tiny:
        _hold_to_baseline({row["name"]: row["cycles"] for row in rows})


def _result(row: dict[str, Any]) -> Result:
    bursts = row["bursts"]
    extra = {"simulated_cycles_per_s": round(row["cycles"] / row["seconds"])}
    extra |= {key: row[key] for key in ("host_p50", "host_p99") if key in row}
    measured = row["name"].startswith(("raw/", "delta4/"))
    return Result(
        name=f"rtl/{row['name']}",
        value=row["cycles"],
        unit="cycles",
        peer="bursts" if bursts else None,
        peer_value=bursts if bursts else None,
        goal=_GOALS[row["name"].split("/")[1]] if measured else None,
        device="rtl:",
        extra=extra,
    )


def _hold_to_baseline(cycles: dict[str, int]) -> None:
    """Cycles are exact: more than the baseline's are a regression, fewer are to be committed."""
    baseline = json.loads(_BASELINE.read_text(encoding="utf-8"))
    slower = [name for name, count in cycles.items() if count > baseline.get(name, count)]
    if slower:
        told = ", ".join(f"{name}: {cycles[name]}, was {baseline[name]}" for name in slower)
        raise RuntimeError(f"more cycles than {_BASELINE.name} has: {told}")
    if cycles != baseline:
        print(f"fewer cycles, or other commands, than {_BASELINE.name} has; commit these:")
        print(json.dumps(cycles, indent=2))
