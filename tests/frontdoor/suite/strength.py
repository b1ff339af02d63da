"""How much the RTL's unit tests notice, of seeded bugs, and run, of its lines; a part of --long.

Each figure goes into results/, by folder of rtl/.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from nearkv.results import Goal, Result, write_results

from .stage import ROOT, Options, Outcome, stream

_FOLDER = ROOT / "tests" / "rtl" / "strength"
_MISSING = 3  # The exit status of a program that lacks something, which its last line names.
_NOTICED = ("caught", "hangs")


def run_mutation(options: Options) -> Outcome:
    """Seeds bugs into the RTL; one that its test does not notice fails the stage."""
    outcome, document = _run("mutation", "mutate", options)
    if document:
        noticed = defaultdict(list)
        for mutant in document["mutants"]:
            noticed[_folder(mutant["file"])].append(mutant["outcome"] in _NOTICED)
        shares = {folder: 100 * sum(own) / len(own) for folder, own in noticed.items()}
        outcome.closing.append(_record("mutation", "bugs noticed", shares, Goal(">=", 100)))
    return outcome


def run_coverage(options: Options) -> Outcome:
    """Counts the lines that unit benches run; a module below the threshold fails the stage."""
    outcome, document = _run("coverage", "coverage", options)
    if document:
        lines, missed = defaultdict(int), defaultdict(int)
        for file, module in document.items():
            lines[_folder(file)] += module["lines"]
            missed[_folder(file)] += len(module["missed"])
        shares = {f: 100 * (1 - missed[f] / total) for f, total in lines.items() if total}
        outcome.closing.append(_record("coverage", "lines run", shares, Goal(">=", 95)))
    return outcome


def _run(name: str, program: str, options: Options) -> tuple[Outcome, dict]:
    """Runs one of the programs of tests/rtl/strength; what it wrote, if it came so far."""
    outcome = Outcome(name, True, [])
    if not (_FOLDER / f"{program}.py").exists():
        outcome.skipped = {name: f"no {_FOLDER.relative_to(ROOT)}"}
        return outcome, {}
    written = ROOT / "build" / f"{name}.json"
    written.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"tests.rtl.strength.{program}"]
    status, lines = stream([*command, "--jobs", str(options.jobs), "--json", str(written)])
    if status == _MISSING:
        outcome.skipped = {name: lines[-1].removeprefix("skipped: ")}
        return outcome, {}
    outcome.ok = status == 0
    outcome.closing = lines[-1:]
    return outcome, json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}


def _folder(file: str) -> str:
    return Path(file).parts[0] if "/" in file else "top"


def _record(name: str, what: str, shares: dict[str, float], goal: Goal) -> str:
    """Writes a results file with a line for each folder of rtl/."""
    path = Path("results") / f"rtl_{name}.json"
    write_results(
        path,
        [
            Result(
                name=f"rtl_{name}/{folder}",
                value=round(share, 1),
                unit=f"% of {what}",
                goal=goal,
                device="rtl:",
            )
            for folder, share in sorted(shares.items())
        ],
    )
    return f"written: {path}"
