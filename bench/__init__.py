"""Benches: each module here that has a `run` function measures one part of NearKV.

`run(context)` yields Results as it gets them, so that an interrupted bench keeps what it has.
The first line of the module's docstring is its line in the list of benches.
"""

import sys
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Context:
    """What a bench is told: the device to measure, and whether it may take hours."""

    device: str = "cpu:"
    long: bool = False
    _start_s: float = field(default_factory=time.monotonic)

    def progress(self, text: str) -> None:
        """Tells the person who waits what is being measured; call it every few seconds."""
        elapsed_s = time.monotonic() - self._start_s
        print(f"  {elapsed_s:6.1f} s  {text}", file=sys.stderr, flush=True)
