"""Simulates CXL links, and sets latency and bandwidth beside published figures.

The engine's cycles are those of the committed baseline on DDR4; what lies around is simulated.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import Context
from bench.programs import Programs
from nearkv.results import Result

_CYCLES = Path(__file__).parent / "baselines" / "rtl.json"
_ENGINE_CYCLE_NS = 2.5
_COMMANDS = (
    "small/topk_certified",
    "small/attend_dense",
    "ddr4/topk_certified",
    "ddr4/topk_statistical",
    "ddr4/attend_tail",
    "ddr4/attend_dense",
)
_SOURCE = "CXL-DMSim, arXiv 2411.02282"
# Latency and bandwidth beside local memory; of a range, its middle.
_PUBLISHED = {"asic": (2.18, 0.825), "fpga": (2.88, 0.57)}


def run(context: Context) -> Iterator[Result]:
    """Yields latencies and bandwidths of each system, and what a command takes there."""
    cycles = json.loads(_CYCLES.read_text(encoding="utf-8"))
    engine_ns = [cycles[name] * _ENGINE_CYCLE_NS for name in _COMMANDS]
    words = [word for ns in engine_ns for word in ("--command", str(ns))]
    if context.tiny:
        words += ["--lines", "1000"]
    parts = Programs(context).run("fabric", *words)["results"]
    local = parts[0]
    for part in parts:
        yield from _memory(part, local)
        for name, ns, seen_ns in zip(_COMMANDS, engine_ns, part["commands_ns"], strict=True):
            yield Result(
                name=f"fabric/{part['name']}/{name.replace('/', '_')}",
                value=seen_ns / 1000,
                unit="us",
                peer="the engine alone",
                peer_value=ns / 1000,
                device=part["what"],
            )
        for row in part["scale"] or ():
            yield Result(
                name=f"fabric/{part['name']}/hosts_{row['hosts']}_cards_{row['cards']}",
                value=row["gigabytes_per_s"],
                unit="GB/s",
                device=part["what"],
                extra={"p50_ns": row["p50_ns"], "p99_ns": row["p99_ns"]},
            )


def _memory(part: dict[str, Any], local: dict[str, Any]) -> Iterator[Result]:
    latency, bandwidth = _PUBLISHED.get(part["name"], (None, None))
    yield _beside_local(part, "latency", "ns", part["idle_ns"], local["idle_ns"], latency)
    for row, beside in zip(part["bandwidths"], local["bandwidths"], strict=True):
        pattern = "random" if row["is_random"] else "stream"
        name = f"{pattern}_{row['write_percent']}_writes"
        values = (row["gigabytes_per_s"], beside["gigabytes_per_s"])
        yield _beside_local(part, name, "GB/s", *values, None if row["is_random"] else bandwidth)


def _beside_local(
    part: dict[str, Any],
    name: str,
    unit: str,
    value: float,
    local_value: float,
    published_ratio: float | None,
) -> Result:
    published = {"source": _SOURCE, "published_ratio": published_ratio}
    return Result(
        name=f"fabric/{part['name']}/{name}",
        value=value,
        unit=unit,
        peer="local memory",
        peer_value=local_value,
        device=part["what"],
        extra=published if published_ratio else {},
    )
