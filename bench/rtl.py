"""Counts the simulated engine's cycles per command, beside its bursts and the committed counts.

With memory that takes 60 cycles (raw, delta4, long, host, slices), or as long as DRAM does
(ddr5, ddr4), there beside what a sequential stream of as many bursts takes on it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import Context
from bench.programs import Programs
from nearkv.results import Goal, Result

_BASELINE = Path(__file__).parent / "baselines" / "rtl.json"

# Streams move at least 0.95 of a burst per cycle.
_STREAM = Goal("<=", 1 / 0.95, of="ratio")
# With N slices and as many queues, each with the commands of one: no slower than that by more.
_SCALING = Goal("<=", 1 / 0.95, of="ratio")
# Where refreshes fall depends on all that came before: so much more is no regression there.
_DRAM_SLACK = 0.01
_DRAM = ("ddr5/", "ddr4/")
_GOALS = {
    "scrub": _STREAM,
    "copy": _STREAM,
    "topk_full": _STREAM,
    "attend_dense": _STREAM,
}


def run(context: Context) -> Iterator[Result]:
    """Yields the cycles of each command beside its bursts; fails if any takes more than before."""
    context.progress("simulating")
    arguments = ("--tokens", "1024") if context.tiny else ()
    rows = Programs(context).run("rtl", *arguments)["results"]
    cycles = {row["name"]: row["cycles"] for row in rows}
    for row in rows:
        yield _result(row, fixed_latency=cycles)
    if not context.tiny:
        _hold_to_baseline(cycles)


def _result(row: dict[str, Any], fixed_latency: dict[str, int]) -> Result:
    kind, _, command = row["name"].partition("/")
    extra = {key: row[key] for key in ("host_p50", "host_p99") if key in row}
    if "seconds" in row:
        extra["simulated_cycles_per_s"] = round(row["cycles"] / row["seconds"])
    peer, peer_value = ("bursts", row["bursts"]) if row["bursts"] else (None, None)
    if "dram_cycles" in row:
        peer, peer_value = f"the same bursts in sequence on {kind}", row["dram_cycles"]
        extra |= {"bursts": row["bursts"], "fixed_latency": fixed_latency[f"raw/{command}"]}
    goal = _GOALS.get(command) if kind in ("raw", "delta4") else None
    if kind.startswith("slices_"):
        peer, peer_value = "one slice, and one queue", fixed_latency[f"slices_1/{command}"]
        slices = int(kind.removeprefix("slices_"))
        extra |= {"bursts": row["bursts"]}
        extra |= {"bursts_per_cycle_of_a_slice": row["bursts"] / row["cycles"] / slices}
        goal = _SCALING
    return Result(
        name=f"rtl/{row['name']}",
        value=row["cycles"],
        unit="cycles",
        peer=peer,
        peer_value=peer_value,
        goal=goal,
        device="rtl:",
        extra=extra,
    )


def _most(name: str, baseline: int) -> int:
    return round(baseline * (1 + _DRAM_SLACK)) if name.startswith(_DRAM) else baseline


def _hold_to_baseline(cycles: dict[str, int]) -> None:
    """Cycles are exact: more than the baseline's are a regression, fewer are to be committed."""
    baseline = json.loads(_BASELINE.read_text(encoding="utf-8"))
    slower = [
        name for name, count in cycles.items() if count > _most(name, baseline.get(name, count))
    ]
    if slower:
        told = ", ".join(f"{name}: {cycles[name]}, was {baseline[name]}" for name in slower)
        raise RuntimeError(f"more cycles than {_BASELINE.name} has: {told}")
    if cycles != baseline:
        print(f"fewer cycles, or other commands, than {_BASELINE.name} has; commit these:")
        print(json.dumps(cycles, indent=2))
