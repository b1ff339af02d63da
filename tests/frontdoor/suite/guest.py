"""The guest's tests once more, on a kernel that finds its own errors; a part of --long."""

import sys

from .stage import ROOT, Outcome, stream

_NAME = "guest with KASAN and lockdep"
_FOLDER = ROOT / "tests" / "guest"


def run() -> Outcome:
    """Fails with the tests, of which each fails when the kernel complains."""
    if not _FOLDER.exists():
        return Outcome(_NAME, True, [], skipped={_NAME: f"no {_FOLDER.relative_to(ROOT)}"})
    command = [sys.executable, "-m", "emulator.qemu", "--test", "--debug-kernel"]
    status, lines = stream(command)
    return Outcome(_NAME, status == 0, lines[-1:])
