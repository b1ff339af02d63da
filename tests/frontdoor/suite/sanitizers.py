"""The C++ tests once more under sanitizers: `./nearkv test --sanitize`."""

import os
import shutil
import sys
from dataclasses import replace

from .pytests import run_guest
from .stage import ROOT, Options, Outcome, Stage, stream

_CODE = ("daemon", "host", "media", "object", "policy", "remote", "router", "scheduler", "share")
_FOLDERS = {"asan-ubsan": (*_CODE, "codec", "fault", "fuzz", "parity"), "tsan": _CODE}
_FUZZ_S = 600
# A test expects that memory of others still faults. A process that races ends at once, for one that
# a test kills later tells nobody.
_ENVIRONMENT = {
    "ASAN_OPTIONS": "handle_sigbus=0",
    "TSAN_OPTIONS": "handle_sigbus=0 halt_on_error=1",
}


def stages(words: tuple[str, ...]) -> dict[str, Stage]:
    """What the words choose; without a word the C++ tests. ValueError for one that chooses none."""
    known: dict[str, Stage] = {
        "asan-ubsan": lambda options: _run_tests("asan-ubsan", options),
        "tsan": lambda options: _run_tests("tsan", options),
        "fuzz": _run_fuzzers,
        "guest": lambda options: run_guest(replace(options, size="default"), ["--debug-kernel"]),
    }
    if unknown := [word for word in words if word not in known]:
        raise ValueError(f"nothing is called {unknown[0]}; there are: {', '.join(known)}")
    return {name: run for name, run in known.items() if name in (words or _FOLDERS)}


def _run_tests(preset: str, options: Options) -> Outcome:
    """Builds the tests of the preset's folders, and runs those of the default size."""
    outcome = _build(preset, [f"tests/{folder}/all" for folder in _FOLDERS[preset]], options)
    if outcome.ok and not outcome.skipped:
        command = ["ctest", "--test-dir", _folder(preset), "--output-on-failure"]
        command += ["--no-tests=error", "--parallel", str(options.jobs), "--label-exclude", "long"]
        command += ["--label-regex", f"^({'|'.join(_FOLDERS[preset])})$"]
        status, lines = stream(command, _ENVIRONMENT, options.see)
        outcome.ok = status == 0
        outcome.closing = [f"{preset}: {line}" for line in lines if "tests passed" in line]
    return outcome


def _run_fuzzers(options: Options) -> Outcome:
    """Runs each target of libFuzzer for ten minutes, as many at a time as there are jobs."""
    outcome = _build("asan-ubsan", ["tests/fuzz/all"], options)
    if outcome.ok and not outcome.skipped:
        command = ["ctest", "--test-dir", _folder("asan-ubsan"), "--output-on-failure"]
        command += ["--no-tests=error", "--parallel", str(options.jobs), "--label-regex", "^fuzz$"]
        command += ["--tests-regex", "^fuzz_[a-z]+$"]
        status, lines = stream(command, {"NEARKV_FUZZ_S": str(_FUZZ_S)}, options.see)
        outcome.ok = status == 0
        outcome.closing = [f"fuzz: {line}" for line in lines if "tests passed" in line]
    return outcome


def _build(preset: str, targets: list[str], options: Options) -> Outcome:
    if shutil.which("clang++") is None:
        why = "no clang++; ./nearkv setup sanitize installs it"
        return Outcome(preset, True, [], skipped={preset: why})
    python = f"-DPython3_EXECUTABLE={sys.executable}"
    build = ["cmake", "--build", _folder(preset), "--parallel", str(options.jobs), "--target"]
    commands = (["cmake", "-S", str(ROOT), "--preset", preset, python], [*build, *targets])
    ok = all(stream(command, see=options.see)[0] == 0 for command in commands)
    return Outcome(preset, ok, [] if ok else [f"{preset}: the build FAILED"])


def _folder(preset: str) -> str:
    return os.fspath(ROOT / "build" / preset)
