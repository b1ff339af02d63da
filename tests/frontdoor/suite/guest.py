"""The guest's tests once more, on a kernel that finds its own errors; a part of --long."""

import sys

from .stage import Outcome, stream


def run() -> Outcome:
    """Fails with the tests, of which each fails when the kernel complains."""
    command = [sys.executable, "-m", "emulator.qemu", "--test", "--debug-kernel"]
    status, lines = stream(command)
    return Outcome("guest with KASAN and lockdep", status == 0, lines[-1:])
