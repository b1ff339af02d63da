"""Benches: each module here that has a `run` function measures one part of NearKV.

`run(context)` yields Results as it gets them, so that an interrupted bench keeps what it has. It
raises Skipped for what this machine lacks; what it yielded before counts.
The first line of the module's docstring is its line in the list of benches.
"""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path


class Skipped(Exception):
    """A bench's, or a part's of it, that cannot be measured here; says what is missing."""


@dataclass(frozen=True)
class Context:
    """What a bench is told: the device to measure, how long it may take, and what it may use."""

    device: str = "cpu:"
    long: bool = False  # it may take hours
    tiny: bool = False  # sizes at which it only shows that it runs, for tests
    traces: Path | None = None  # a folder of request traces
    model: Path | None = None  # a folder with a checkpoint, in place of the shipped model
    install_peers: bool = False  # what it compares with may be installed
    _start_s: float = field(default_factory=time.monotonic)

    def progress(self, text: str) -> None:
        """Tells the person who waits what is being measured; call it every few seconds."""
        elapsed_s = time.monotonic() - self._start_s
        print(f"  {elapsed_s:6.1f} s  {text}", file=sys.stderr, flush=True)
