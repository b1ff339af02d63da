"""Ends a process group when whoever started it has gone: python guard.py GROUP < PIPE.

The starter holds the pipe's other end, and never writes: it closes when the starter ends, however
that happens. A program of its own, of the standard library alone.
"""

import contextlib
import os
import signal
import sys
import time

_PATIENCE_S = 5.0
_LOOK_S = 0.05


def end_group(group: int, patience_s: float = _PATIENCE_S) -> None:
    """SIGTERM, and SIGKILL for what is left after a while. A group that has ended is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s:
            os.killpg(group, 0)
            time.sleep(_LOOK_S)
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    """Nobody's child, so that who ends the starter's children does not end it."""
    if os.fork():
        return
    while os.read(sys.stdin.fileno(), 1):
        pass
    end_group(int(sys.argv[1]))


if __name__ == "__main__":
    main()
