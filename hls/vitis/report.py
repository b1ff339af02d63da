#!/usr/bin/env python3
"""Read Vitis HLS's synthesis reports (csynth.xml) into the columns of rtl/syn/AREA.md."""

import argparse
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

_HEADS = ("block", "LUT", "of them RAM", "FF", "DSP", "BRAM36", "URAM", "ns", "wanted ns", "cycles")


class ReportError(ValueError):
    """The file is no csynth.xml, or one without a figure that the table has."""


def read_report(path: Path) -> dict[str, Any]:
    """A kernel's name, its area in the units of bench/baselines/area.json, its clock and latency.

    Synthesis estimates; it does not tell LUTs of memories apart, so `lut_ram` is null. A latency
    that depends on the command is null too.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ReportError(f"{path} is no XML: {error}") from None

    def text(where: str) -> str:
        value = root.findtext(where)
        if value is None:
            raise ReportError(f"{path} has no {where}: not a csynth.xml that this knows")
        return value

    def number(where: str) -> float:
        value = text(where)
        try:
            return float(value)
        except ValueError:
            raise ReportError(f"{path}: {where} is no number") from None

    resources = "AreaEstimates/Resources/"
    latency = text("PerformanceEstimates/SummaryOfOverallLatency/Worst-caseLatency")
    return {
        "name": text("UserAssignments/TopModelName"),
        "area": {
            "lut": number(resources + "LUT"),
            "lut_ram": None,
            "ff": number(resources + "FF"),
            "dsp": number(resources + "DSP"),
            "bram36": number(resources + "BRAM_18K") / 2,
            "uram": number(resources + "URAM"),
        },
        "period_ns": number("PerformanceEstimates/SummaryOfTimingAnalysis/EstimatedClockPeriod"),
        "wanted_ns": number("UserAssignments/TargetClockPeriod"),
        "cycles": int(latency) if latency.isdigit() else None,
    }


def table(reports: list[dict[str, Any]]) -> str:
    """The reports as a table; a clock that is slower than wanted is MISSED."""
    lines = [f"| {' | '.join(_HEADS)} |", "|" + "---|" * len(_HEADS)]
    for report in sorted(reports, key=lambda report: report["name"]):
        area = report["area"]
        amounts = [area[part] for part in ("lut", "lut_ram", "ff", "dsp", "bram36", "uram")]
        missed = " MISSED" if report["period_ns"] > report["wanted_ns"] else ""
        clocks = [f"{report['period_ns']:g}{missed}", f"{report['wanted_ns']:g}"]
        cells = [report["name"], *map(_shown, amounts), *clocks, _shown(report["cycles"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(amount: float | None) -> str:
    return "" if not amount else f"{amount:,.1f}".removesuffix(".0")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, help="csynth.xml files")
    parser.add_argument("--json", action="store_true", help="figures instead of a table")
    arguments = parser.parse_args()
    try:
        reports = [read_report(path) for path in arguments.reports]
    except (OSError, ReportError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(reports, indent=1) if arguments.json else table(reports))
    return 0


if __name__ == "__main__":
    sys.exit(main())
