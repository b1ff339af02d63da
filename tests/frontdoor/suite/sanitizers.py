"""The C++ tests once more under each sanitizer, with the fuzz targets under libFuzzer."""

import shutil
import sys

from .stage import ROOT, Options, Outcome, stream

_AREAS = {"asan-ubsan": "codec|fuzz|host|parity|policy", "tsan": "host"}


def run(options: Options) -> Outcome:
    """Builds and tests the preset of each sanitizer; a part of --long."""
    outcome = Outcome("sanitizers", True, [])
    missing = None
    if not (ROOT / "CMakePresets.json").exists():
        missing = "no CMakePresets.json"
    elif shutil.which("clang++") is None:
        missing = "no clang++ (install clang, lld, libclang-rt-dev)"
    if missing:
        outcome.skipped = {"sanitizers": missing}
        return outcome
    jobs = str(options.jobs)
    for preset, areas in _AREAS.items():
        build = str(ROOT / "build" / preset)
        test = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error"]
        python = f"-DPython3_EXECUTABLE={sys.executable}"
        commands = [
            ["cmake", "-S", str(ROOT), "--preset", preset, python],
            ["cmake", "--build", build, "--parallel", jobs],
            [*test, "--parallel", jobs, "--label-regex", f"^({areas})$"],
        ]
        passed = all(stream(command)[0] == 0 for command in commands)
        outcome.closing.append(f"{preset}: {'passed' if passed else 'FAILED'}")
        outcome.ok = outcome.ok and passed
    return outcome
