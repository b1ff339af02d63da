"""The command line of `./nearkv test`."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nearkv.usage import exit_if_usage_is_all

from . import ctest, lint, pytests, sanitizers, strength
from .progress import StageClock, build_steps, slowest
from .resumption import Resumption
from .stage import BUILD, ROOT, SIZES, Options, Outcome, Stage

_DESCRIPTION = """\
Checks format and lint, runs the C++ tests by ctest and the Python tests by
pytest, and ends with where the time went, what was skipped and why, what
only --long runs, and each program's own closing lines. Says every minute how
long it will still take. Interrupted, the next call goes on behind the parts
that have passed, as long as no file has changed. With --long it also seeds bugs
into the RTL, which its tests have to notice, and counts the lines of the RTL
that they run. With --sanitize it runs the C++ tests under sanitizers instead, in
builds of their own."""

_EPILOG = """\
A FILTER is a label of ctest, or a folder or file of Python tests, or the word
lint. With filters, only what they name is run. With --sanitize a FILTER is
asan-ubsan or tsan (which it runs without one), fuzz (ten minutes for each target
of libFuzzer), or guest (the guest's tests on a kernel with KASAN and lockdep).

examples:
  ./nearkv test                         what continuous integration runs
  ./nearkv test --quick                 under 3 minutes once built
  ./nearkv test abi model               the contract's and the model's tests
  ./nearkv test lint                    format and lint alone
  ./nearkv test rtl --long              the RTL's tests and what they are worth
  ./nearkv test --sanitize tsan         the library's and the daemon's threads
  ./nearkv test tests/frontdoor/test_results.py::test_round_trip

exit status: 0 all passed; 1 something failed; 2 wrong usage; 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the stages that were asked for; 0 when all of them passed."""
    parser = argparse.ArgumentParser(
        prog="./nearkv test",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_const", dest="size", const="quick", help="the smallest size"
    )
    size.add_argument(
        "--long", action="store_const", dest="size", const="long", help="everything: hours"
    )
    size.add_argument(
        "--sanitize",
        action="store_const",
        dest="size",
        const="sanitize",
        help="the C++ tests under sanitizers: half an hour on 2 cores",
    )
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="what to run (default: all)")
    parsed = parser.parse_args(arguments)
    exit_if_usage_is_all()
    jobs = int(os.environ.get("NEARKV_JOBS") or os.cpu_count() or 1)
    options = Options(parsed.size or "default", tuple(parsed.filters), jobs)

    try:
        if options.size == "sanitize":
            stages = sanitizers.stages(options.filters)
        else:
            stages = _stages(options)
    except ValueError as error:
        parser.error(str(error))
    wanted = list(stages)
    resumed = Resumption(options)
    outcomes = resumed.outcomes
    for outcome in outcomes:
        print(f"== {outcome.name}: passed before the interruption", flush=True)
        wanted.remove(outcome.name)
    clock = StageClock(options.size, wanted)
    options = replace(options, see=clock.see)
    try:
        for name in wanted:
            print(f"== {name}", flush=True)
            with clock.stage(name):
                outcome = replace(stages[name](options), name=name)
            outcomes.append(outcome)
            resumed.keep()
    except KeyboardInterrupt:
        print("\ninterrupted; the next call goes on behind what has passed", file=sys.stderr)
        return 130
    resumed.forget()
    _print_summary(options, outcomes, clock.took_s)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def _stages(options: Options) -> dict[str, Stage]:
    """The stages that the size and the filters ask for, in their order."""
    if not (BUILD / "build.ninja").exists():
        raise ValueError("nothing is built here; first: ./nearkv build")
    registered = ctest.list_tests()
    labels, paths = _resolve(options.filters, registered)
    wants_strength = options.size == "long" and (not options.filters or "rtl" in options.filters)

    def wants(folder: Path) -> bool:
        """Whether a stage of its own runs a folder's tests, none of which is quick."""
        there = str(folder) in paths if options.filters else folder.exists()
        return options.size != "quick" and there

    wants_guest, wants_engines = wants(pytests.GUEST), wants(pytests.ENGINES)
    apart = (str(pytests.GUEST), str(pytests.ENGINES))
    paths = [path for path in paths if path not in apart]
    stages: dict[str, tuple[object, Stage]] = {
        "lint": (not options.filters or "lint" in options.filters, lint.run),
        "ctest": (not options.filters or labels, lambda o: ctest.run(o, registered, labels)),
        "pytest": (not options.filters or paths, lambda o: pytests.run(o, paths)),
        "engines": (wants_engines, pytests.run_engines),
        "guest": (wants_guest, pytests.run_guest),
        "mutation": (wants_strength, strength.run_mutation),
        "coverage": (wants_strength, strength.run_coverage),
    }
    return {name: run for name, (is_wanted, run) in stages.items() if is_wanted}


def _resolve(
    filters: Sequence[str], registered: dict[str, set[str]]
) -> tuple[list[str], list[str]]:
    """Sorts filters into ctest labels and pytest paths; a word may be both, and must be one."""
    known = set().union(*registered.values()) - set(SIZES)
    labels = [word for word in filters if word in known]
    paths = [path for word in filters if word != "lint" for path in pytests.find_paths(word)]
    for word in filters:
        if word != "lint" and word not in labels and not pytests.find_paths(word):
            folders = sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir())
            choices = ", ".join(["lint", *sorted(known | set(folders))])
            raise ValueError(f"nothing is called {word}; there are: {choices}, and paths of tests")
    return labels, paths


def _print_summary(options: Options, outcomes: Sequence[Outcome], took_s: dict[str, float]) -> None:
    before = {
        name: float(os.environ[variable])
        for name, variable in (("set-up", "NEARKV_SETUP_S"), ("build", "NEARKV_BUILD_S"))
        if os.environ.get(variable)
    }
    took_s = before | took_s
    print(f"\n== summary of the {options.size} size, {sum(took_s.values()):.0f} s")
    print("; ".join(f"{name} {seconds:.0f} s" for name, seconds in took_s.items()))
    steps = build_steps(time.time() - sum(took_s.values()))
    tests = {test: seconds for outcome in outcomes for test, seconds in outcome.took_s.items()}
    lines = [*slowest(steps, "slowest steps of the build:"), *slowest(tests, "slowest tests:")]
    print("\n".join(lines))
    skipped = {test: why for outcome in outcomes for test, why in outcome.skipped.items()}
    long_only = [test for outcome in outcomes for test in outcome.long_only]
    for title, lines in (
        ("skipped, and why:", [f"{test}: {why}" for test, why in skipped.items()]),
        ("only --long runs:", long_only),
    ):
        if lines:
            print("\n  ".join([title, *lines]))
    for outcome in outcomes:
        print("\n".join(outcome.closing))
    failed = [outcome.name for outcome in outcomes if not outcome.ok]
    print(f"FAILED: {', '.join(failed)}" if failed else "all passed", flush=True)


if __name__ == "__main__":
    sys.exit(main())
