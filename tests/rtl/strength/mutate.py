"""Seeds the bugs of mutants.toml into the RTL, one at a time, and runs the test that should fail.

    python -m tests.rtl.strength.mutate                   every mutant
    python -m tests.rtl.strength.mutate rtl_fifo_test     those of some tests
    python -m tests.rtl.strength.mutate lib select        those of some folders of rtl/

Needs the release build. A mutant is made in a folder of its own, so nothing in the tree changes:
Verilator with -Wall on the bench's sources, one of them replaced, then compiler, linker and test.
Before, the test itself has to pass. A test that does not end within ten times what it took then
has noticed the mutant, too, and is said to hang.

Exit status: 0 none survived that is not marked; 1 otherwise, or a mutant does not lint or build;
2 the table is wrong; 3 something is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rtl.formal.prove import Mutant, TableError

from .bench import (
    RTL,
    Bench,
    BuildError,
    ToolError,
    compile_module,
    find_bench,
    link,
    require_tools,
    verilate,
)

TABLE = Path(__file__).with_name("mutants.toml")
_GOOD = ("caught", "hangs", "marked")


@dataclass(frozen=True)
class Seeded:
    """A mutant, the test that should notice it, and why it may survive, if it may."""

    mutant: Mutant
    test: str
    tests: str  # A filter of GoogleTest.
    survives: str
    says: str  # What the test has to say: the name of an assertion.

    @property
    def folder(self) -> str:
        return self.mutant.file.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.mutant.file}: {self.mutant.old!r} -> {self.mutant.new!r}"


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: caught, hangs, survives, marked or invalid, and what said so."""

    seeded: Seeded
    outcome: str
    by: str
    seconds: float

    def to_json(self) -> dict[str, object]:
        mutant = {name: getattr(self.seeded.mutant, name) for name in ("file", "old", "new")}
        verdict = {"outcome": self.outcome, "by": self.by, "seconds": round(self.seconds, 1)}
        return mutant | {"test": self.seeded.test} | verdict


def load(path: Path) -> list[Seeded]:
    """Reads the table; every mutant's old text has to stand exactly once in its file."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    mutants = []
    for test, line in table.items():
        for entry in line["mutants"]:
            more = {key: entry.pop(key, "") for key in ("tests", "survives", "says")}
            more["tests"] = more["tests"] or "*"
            try:
                seeded = Seeded(Mutant(**entry), test, **more)
            except TypeError as error:
                raise TableError(f"{test}: {error}") from error
            _mutated(seeded)
            mutants.append(seeded)
    return mutants


def chosen(mutants: Sequence[Seeded], words: Sequence[str]) -> list[Seeded]:
    """The mutants of the tests or folders that are named; all of them without a word."""
    known = {name for seeded in mutants for name in (seeded.test, seeded.folder)}
    if unknown := [word for word in words if word not in known]:
        raise TableError(f"nothing is called {', '.join(unknown)}; there are {sorted(known)}")
    return [m for m in mutants if not words or {m.test, m.folder} & set(words)]


def _mutated(seeded: Seeded) -> str:
    """The text of the mutant's file."""
    mutant = seeded.mutant
    path = RTL / mutant.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if (count := text.count(mutant.old)) != 1:
        raise TableError(f"{mutant.file}: {count} times {mutant.old!r}, not once")
    return text.replace(mutant.old, mutant.new)


def judge(seeded: Seeded, bench: Bench, limit_s: float) -> Verdict:
    """Makes the test with the mutant in it, and runs it."""
    start_s = time.monotonic()

    def verdict(outcome: str, by: str) -> Verdict:
        return Verdict(seeded, outcome, by, time.monotonic() - start_s)

    original = RTL / seeded.mutant.file
    if original not in bench.sources:
        return verdict("invalid", f"{bench.name} does not have {seeded.mutant.file}")
    with tempfile.TemporaryDirectory(prefix="nearkv-mutant-") as name:
        folder = Path(name)
        mutated = folder / original.name
        mutated.write_text(_mutated(seeded), encoding="utf-8")
        try:
            verilate(bench, folder / "made", {original: mutated})
            compile_module(bench, folder / "made")
            program = link(bench, folder / "made", {})
        except BuildError as error:
            return verdict("invalid", str(error).splitlines()[0])
        status, output = run_test(program, seeded.tests, limit_s)
    if seeded.says and status != 0:
        if f"{seeded.says}: " in output:
            return verdict("caught", seeded.says)
        return verdict("survives", f"noticed, but not by {seeded.says}")
    if status is None:
        return verdict("hangs", f"after {limit_s:.0f} s")
    if status == 0:
        return verdict("marked" if seeded.survives else "survives", seeded.survives)
    failed = re.search(r"^\[  FAILED  \] (\S+?)[, ]*(?: \(|$)", output, re.MULTILINE)
    return verdict("caught", failed[1] if failed else f"exit status {status}")


def run_test(program: Path, tests: str, limit_s: float | None) -> tuple[int | None, str]:
    """The status of a test, None if it did not end in time, and what it printed."""
    command = [str(program), f"--gtest_filter={tests}", "--gtest_fail_fast"]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout.decode(errors="replace")


def find_limits(
    mutants: Sequence[Seeded], benches: dict[str, Bench]
) -> dict[tuple[str, str], float]:
    """How long each test may take, by test and filter. They have to pass without a mutant."""
    limits = {}
    for test, tests in dict.fromkeys((seeded.test, seeded.tests) for seeded in mutants):
        start_s = time.monotonic()
        status, output = run_test(benches[test].program, tests, None)
        if status != 0 or "Running 0 tests" in output:
            raise TableError(f"{test} with {tests} does not pass, or has no tests")
        limits[test, tests] = 20 + 10 * (time.monotonic() - start_s)
    return limits


def format_table(verdicts: Sequence[Verdict]) -> str:
    """Caught, surviving and invalid mutants of each folder, and the share that was caught."""
    rows = [("folder", "mutants", "caught", "hang", "marked", "survive", "invalid", "share")]
    folders = sorted({verdict.seeded.folder for verdict in verdicts})
    for folder in [*folders, "all"]:
        own = [v.outcome for v in verdicts if folder in ("all", v.seeded.folder)]
        kinds = ("caught", "hangs", "marked", "survives", "invalid")
        counts = [own.count(kind) for kind in kinds]
        share = f"{100 * (counts[0] + counts[1]) / len(own):.0f} %"
        rows.append((folder, str(len(own)), *map(str, counts), share))
    return "\n".join(
        "  ".join([row[0].ljust(8), *(cell.rjust(7) for cell in row[1:])]) for row in rows
    )


def run(mutants: Sequence[Seeded], jobs: int) -> list[Verdict]:
    """Judges mutants, several at once, and says what became of each."""
    verdicts = []
    benches = {test: find_bench(test) for test in dict.fromkeys(m.test for m in mutants)}
    limits = find_limits(mutants, benches)
    with ThreadPoolExecutor(jobs) as pool:
        tasks = [pool.submit(judge, m, benches[m.test], limits[m.test, m.tests]) for m in mutants]
        for number, task in enumerate(tasks, start=1):
            verdict = task.result()
            verdicts.append(verdict)
            text = f"[{number}/{len(tasks)}] {verdict.outcome} {verdict.seconds:.0f} s"
            print(f"{text} {verdict.seeded}: {verdict.by}", flush=True)
    return verdicts


def main(arguments: Sequence[str] | None = None) -> int:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="mutate",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="NAME", help="a test, or a folder of rtl/")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count(), help="mutants at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict there")
    parser.add_argument("--check", action="store_true", help="only check the table")
    parsed = parser.parse_args(arguments)
    try:
        mutants = chosen(load(TABLE), parsed.words)
        if parsed.check:
            print(f"{len(mutants)} mutants, each of a text that stands once in its file")
            return 0
        require_tools()
        verdicts = run(mutants, parsed.jobs)
    except TableError as error:
        print(f"{TABLE.name}: {error}", file=sys.stderr)
        return 2
    except ToolError as error:
        print(f"skipped: {error}")
        return 3
    if parsed.json:
        document = {"mutants": [verdict.to_json() for verdict in verdicts]}
        parsed.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(format_table(verdicts))
    return 0 if all(verdict.outcome in _GOOD for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
