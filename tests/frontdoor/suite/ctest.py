"""The C++ tests and whatever else CMake registered, by ctest."""

import json
import re
import subprocess
import xml.etree.ElementTree as ElementTree

from . import faults
from .stage import BUILD, SIZES, Options, Outcome, stream

_JUNIT = BUILD / "ctest.xml"


def list_tests() -> dict[str, set[str]]:
    """Every registered test with its labels."""
    command = ["ctest", "--test-dir", str(BUILD), "--show-only=json-v1"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    tests = {}
    for test in json.loads(listing.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        tests[test["name"]] = set(properties.get("LABELS", []))
    return tests


def run(options: Options, tests: dict[str, set[str]], labels: list[str]) -> Outcome:
    """Runs the tests of the size that have one of the labels, or all of the size with no label.

    A test that does not have exactly one size among its labels fails the stage.
    """
    asked = {name: own for name, own in tests.items() if not labels or own & set(labels)}
    unsized = sorted(name for name, own in asked.items() if len(own & set(SIZES)) != 1)
    if unsized:
        names = ", ".join(unsized)
        return Outcome("ctest", False, [f"not exactly one of the labels {SIZES}: {names}"])
    sizes = SIZES[: SIZES.index(options.size) + 1]
    outcome = Outcome("ctest", True, [])
    if options.size == "default":
        outcome.long_only = sorted(name for name, own in asked.items() if "long" in own)
    if not any(own & set(sizes) for own in asked.values()):
        outcome.closing = [f"ctest: no {options.size} tests are registered"]
        return outcome

    # A test has to match both expressions.
    command = ["ctest", "--test-dir", str(BUILD), "--output-on-failure", "--no-tests=error"]
    command += ["--parallel", str(options.jobs), "--output-junit", str(_JUNIT)]
    # Faults and reasons to skip stand anywhere in what a test prints; ctest would cut it at 1 KiB.
    command += ["--test-output-size-passed", "1000000"]
    command += ["--label-regex", _any_of(sizes)]
    if labels:
        command += ["--label-regex", _any_of(labels)]
    status, lines = stream(command, see=options.see)
    outcome.ok = status == 0
    outcome.closing = _closing_lines(lines) + faults.record(_JUNIT, {"size": options.size})
    outcome.skipped = _skipped()
    outcome.took_s = _took_s()
    return outcome


def _any_of(words: list[str] | tuple[str, ...]) -> str:
    return f"^({'|'.join(map(re.escape, words))})$"


def _closing_lines(lines: list[str]) -> list[str]:
    """The verdict of ctest, its time, and the names of the tests that failed."""
    closing = [line for line in lines if re.match(r"\d+% tests passed|Total Test time", line)]
    if "The following tests FAILED:" in lines:
        start = lines.index("The following tests FAILED:")
        closing += [line for line in lines[start:] if line.strip()]
    return closing


def _took_s() -> dict[str, float]:
    cases = ElementTree.parse(_JUNIT).iter("testcase")
    return {case.get("name", ""): float(case.get("time", 0)) for case in cases}


def _skipped() -> dict[str, str]:
    """The tests that ctest skipped, with the reason that each one printed."""
    skipped = {}
    for case in ElementTree.parse(_JUNIT).iter("testcase"):
        mark = case.find("skipped")
        if mark is not None:
            output = case.findtext("system-out", "")
            skipped[case.get("name", "")] = find_reason(output) or mark.get("message", "")
    return skipped


def find_reason(output: str) -> str:
    """GoogleTest prints `file:line: Skipped` and then the reason; others end with the reason."""
    if match := re.search(
        r"^\S+:\d+: Skipped\n(.*?)\n?(?=^\[|\Z)", output, re.DOTALL | re.MULTILINE
    ):
        return " ".join(match[1].split())
    lines = output.strip().splitlines()
    return lines[-1] if lines else ""
