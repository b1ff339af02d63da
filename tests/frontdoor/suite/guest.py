"""The guest's tests once more, on a kernel that finds its own errors; a part of --long."""

import sys

from .stage import Options, Outcome, stream


def run(_options: Options) -> Outcome:
    """Fails with the tests, of which each fails when the kernel complains."""
    status, lines = stream(
        [sys.executable, "-m", "emulator.qemu", "--test", "--debug-kernel"],
    )
    return Outcome("guest with KASAN and lockdep", status == 0, lines[-1:])
