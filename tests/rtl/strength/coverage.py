"""What the tests of the RTL run of its modules: lines and toggles, by module.

    python -m tests.rtl.strength.coverage                       all benches and the whole
    python -m tests.rtl.strength.coverage rtl_fifo_test         that one anew, then the table
    python -m tests.rtl.strength.coverage whole                 the whole anew, then the table
    python -m tests.rtl.strength.coverage --table               the table of what was measured last
    python -m tests.rtl.strength.coverage --show nkv_fifo       lines of it that no test runs

Needs the release build. Each bench is made in build/coverage with Verilator's points for lines and
for the bits of signals of up to 32 bits, and run once. The whole is the device rtl: with points for
lines, made in build/rtl_coverage and run by the release build's parity tests. A module counts once,
in whatever bench, place or width it stands: its points meet by file, line and name. A line counts
as run when all of its branches were, a bit as toggled when it changed twice. Branches that return
from a function are left out: Verilator counts behind the return. The whole counts for modules that
no bench has, or of which it runs more than the benches do together.

Exit status: 0 all modules reach the threshold of coverage.toml, or have an exception that they
need; 1 otherwise, or a test failed; 2 wrong usage; 3 something is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .bench import (
    BUILD,
    ROOT,
    RTL,
    BuildError,
    ToolError,
    all_benches,
    compile_module,
    compile_runtime,
    compile_tests,
    find_bench,
    link,
    require_tools,
    run,
    verilate,
)

DATA = ROOT / "build" / "coverage"
WHOLE = "whole"
_WHOLE_BUILD = ROOT / "build" / "rtl_coverage"
_WHOLE_DEVICE = "rtl:?latency=4"  # Of the tests that run on any device.
# With what is run of each: every bit of malformed commands has benches, and takes hours here.
_WHOLE_TESTS = {
    "parity_stream_test": "*",
    "parity_errors_test": "*FieldsAtTheirLimits*:*AnyBitOfAPageEntry*",
    "parity_rtl_modes_test": "*",
    "parity_rtl_faults_test": "*",
    "parity_rtl_slices_test": "*",
    "parity_rtl_long_list_test": "*EveryCommand*:*Scrub*",
}
TABLE = Path(__file__).with_name("coverage.toml")
_POINTS = ("--coverage-line", "--coverage-toggle", "--coverage-max-width", "32")
_RECORD = re.compile(r"C '(.*)' (\d+)")
_RETURN = re.compile(r"\breturn\b")


@dataclass
class Module:
    """The points of a file: how often each line's branches ran, how often each bit changed."""

    lines: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    bits: dict[str, int] = field(default_factory=dict)

    @property
    def missed(self) -> list[int]:
        """Lines of which some branch never ran."""
        return sorted(line for line, runs in self.lines.items() if 0 in runs.values())

    @property
    def toggled(self) -> int:
        """How many bits changed there and back."""
        return sum(1 for changes in self.bits.values() if changes > 1)

    @property
    def percent(self) -> float:
        """The share of lines that ran."""
        total = len(self.lines)
        return 100 * (total - len(self.missed)) / total if total else 100.0


def measure(name: str, runtime: Path, jobs: int) -> None:
    """Measures a bench, or the whole."""
    if name == WHOLE:
        measure_whole(jobs)
    else:
        measure_bench(name, runtime)


def measure_bench(name: str, runtime: Path) -> None:
    """Makes a bench with points, runs it, and leaves its counts in DATA."""
    bench = find_bench(name)
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    verilate(bench, folder, {}, _POINTS)
    compile_module(bench, folder)
    objects = compile_tests(bench, folder, ["-O1", "-DVM_COVERAGE=1"])
    program = link(bench, folder, objects, [str(runtime)])
    run_counted(name, {program: "*"}, os.environ)
    shutil.rmtree(folder)


def measure_whole(jobs: int) -> None:
    """Makes the device rtl: with points, has the parity tests run it, leaves its counts in DATA."""
    configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(_WHOLE_BUILD)]
    run([*configure, "-DCMAKE_BUILD_TYPE=Release", "-DNEARKV_RTL_COVERAGE=ON"], ROOT)
    run(["ninja", "-C", str(_WHOLE_BUILD), f"-j{jobs}", "nearkv_rtl"], ROOT)
    programs = {BUILD / "tests" / "parity" / test: part for test, part in _WHOLE_TESTS.items()}
    plugins = {"NEARKV_PLUGIN_PATH": str(_WHOLE_BUILD / "lib")}
    run_counted(WHOLE, programs, os.environ | plugins | {"NEARKV_TEST_DEVICES": _WHOLE_DEVICE})


def run_counted(name: str, programs: Mapping[Path, str], environment: Mapping[str, str]) -> None:
    """Runs tests that were made with points, and merges their counts into one file of DATA.

    `programs`: with what is run of each, for --gtest_filter.
    """
    counts = DATA / f"{name}.counts"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir()
    for program, part in programs.items():
        command = [str(program), f"--gtest_filter={part}"]
        run(command, BUILD, {**environment, "NEARKV_RTL_COVERAGE": str(counts)})
    files = sorted(map(str, counts.iterdir()))
    run(["verilator_coverage", "--write", str(DATA / f"{name}.dat"), *files], DATA)
    shutil.rmtree(counts)


def read_counts(path: Path) -> Iterator[tuple[dict[str, str], int]]:
    """The records of a file of Verilator's: keys and values, and a count."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := _RECORD.fullmatch(line):
            parts = match[1].lstrip("\x01").split("\x01")
            yield dict(part.split("\x02", 1) for part in parts), int(match[2])


def read_modules() -> dict[str, Module]:
    """All that was counted, by file below rtl/."""
    modules: dict[str, Module] = defaultdict(Module)
    returns = {
        str(path): {n for n, text in enumerate(path.open(), start=1) if _RETURN.search(text)}
        for path in RTL.rglob("*.sv")
    }
    benches = sorted(path for path in DATA.glob("*.dat") if path.stem != WHOLE)
    for path in benches:
        _add_counts(path, modules, returns)
    if (whole := DATA / f"{WHOLE}.dat").exists():
        alone: dict[str, Module] = defaultdict(Module)
        _add_counts(whole, alone, returns)
        for name, module in alone.items():
            if name not in modules or module.percent > modules[name].percent:
                modules[name] = module
    return dict(modules)


def _add_counts(path: Path, modules: dict[str, Module], returns: dict[str, set[int]]) -> None:
    for record, count in read_counts(path):
        file = Path(record["f"])
        if not file.is_relative_to(RTL):
            continue
        module = modules[str(file.relative_to(RTL))]
        name = f"{record['l']}:{record['n']}:{record['o']}"
        if record["page"].startswith("v_toggle"):
            module.bits[name] = module.bits.get(name, 0) + count
            continue
        lines = set(_lines_of(record.get("S", "")))
        if record["o"] != "block" and lines & returns[record["f"]]:
            continue
        for line in lines:
            runs = module.lines[line]
            runs[name] = runs.get(name, 0) + count


def _lines_of(ranges: str) -> Iterator[int]:
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def all_modules() -> list[str]:
    """Every module's file below rtl/ that the engine has."""
    files = (str(path.relative_to(RTL)) for path in RTL.rglob("nkv_*.sv"))
    return sorted(f for f in files if not re.match(r"formal/|syn/|abi/|.*_pkg\.sv", f))


def judge(modules: dict[str, Module], table: dict[str, object]) -> list[str]:
    """What is below the threshold without an exception, and exceptions that nothing needs."""
    least = float(str(table["lines"]))
    excepted: dict[str, str] = table["exceptions"]  # type: ignore
    problems = []
    for name in all_modules():
        module = modules.get(name)
        good = module is not None and module.percent >= least
        if good and name in excepted:
            problems.append(f"{name}: {module.percent:.1f} % of its lines run; no exception needed")
        elif not good and name not in excepted:
            said = f"{module.percent:.1f} % of its lines run" if module else "no test has it"
            problems.append(f"{name}: {said}")
    problems += [f"{name}: no such module" for name in excepted if name not in all_modules()]
    return problems


def format_table(modules: dict[str, Module]) -> str:
    """Lines and toggles of each module that was measured, and of all."""
    rows = [("module", "lines", "", "toggles", "")]
    measured = {name: modules[name] for name in all_modules() if name in modules}
    sums = [0, 0, 0, 0]
    for name, module in measured.items():
        counts = [len(module.lines) - len(module.missed), len(module.lines)]
        counts += [module.toggled, len(module.bits)]
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        rows.append((name, *_shares(counts)))
    rows.append((f"{len(measured)} of {len(all_modules())} modules", *_shares(sums)))
    return "\n".join(
        f"{row[0]:36}{row[1]:>12}{row[2]:>9}{row[3]:>14}{row[4]:>9}".rstrip() for row in rows
    )


def _shares(counts: Sequence[int]) -> tuple[str, str, str, str]:
    cells = []
    for covered, total in (counts[:2], counts[2:]):
        cells += [f"{covered}/{total}", f"{100 * covered / total:.1f} %" if total else "-"]
    return cells[0], cells[1], cells[2], cells[3]


def show(modules: dict[str, Module], word: str) -> int:
    """Prints the lines of modules that no test runs wholly."""
    chosen = [name for name in modules if Path(name).stem == word or name == word]
    for name in chosen:
        text = (RTL / name).read_text(encoding="utf-8").splitlines()
        print(f"{name}: {modules[name].percent:.1f} %")
        for line in modules[name].missed:
            print(f"{line:5} {text[line - 1]}")
    return 0 if chosen else 2


def measure_all(names: Sequence[str], jobs: int) -> list[str]:
    """Measures benches, several at once, and the whole; what went wrong."""
    if not names:
        return []
    DATA.mkdir(parents=True, exist_ok=True)
    runtime = compile_runtime("verilated_cov", DATA)
    problems = []
    with ThreadPoolExecutor(jobs) as pool:
        tasks = {name: pool.submit(partial(measure, name, runtime, jobs)) for name in names}
        for number, (name, task) in enumerate(tasks.items(), start=1):
            try:
                task.result()
                print(f"[{number}/{len(tasks)}] {name}", flush=True)
            except BuildError as error:
                print(f"[{number}/{len(tasks)}] {name}: {error}", flush=True)
                problems.append(name)
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="coverage",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "benches", nargs="*", metavar="BENCH", help="measure only these anew, or `whole`"
    )
    parser.add_argument("--table", action="store_true", help="measure nothing anew")
    parser.add_argument("--show", metavar="MODULE", help="its lines that no test runs")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count(), help="benches at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there")
    parsed = parser.parse_args(arguments)
    if parsed.show:
        return show(read_modules(), parsed.show)
    try:
        require_tools()
        every = [*all_benches(), WHOLE]
        if unknown := set(parsed.benches) - set(every):
            parser.error(f"no bench is called {', '.join(sorted(unknown))}")
        if not parsed.benches and not parsed.table:
            shutil.rmtree(DATA, ignore_errors=True)
        names = [] if parsed.table else parsed.benches or every
        failed = measure_all(names, parsed.jobs)
    except ToolError as error:
        print(f"skipped: {error}")
        return 3
    modules = read_modules()
    print(format_table(modules))
    problems = judge(modules, tomllib.loads(TABLE.read_text(encoding="utf-8")))
    print(*problems, sep="\n")
    if parsed.json:
        counts = {
            name: {
                "lines": len(module.lines),
                "missed": module.missed,
                "bits": len(module.bits),
                "toggled": module.toggled,
            }
            for name, module in modules.items()
        }
        parsed.json.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    return 1 if failed or problems else 0


if __name__ == "__main__":
    sys.exit(main())
