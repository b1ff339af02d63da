"""Benches: each module here that has a `run` function measures one part of NearKV.

`run(context)` yields Results as it gets them, so that an interrupted bench keeps what it has. It
raises Skipped for what this machine lacks; what it yielded before counts. Where others of its parts
can be measured all the same, each_part runs them.
The first line of the module's docstring is its line in the list of benches.

Importing any bench imports this package first, which makes waiting threads sleep (see `quiet`).
"""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.quiet import make_quiet
from nearkv.results import Result

make_quiet()


class Skipped(Exception):
    """A bench, or parts of it, cannot be measured here; each argument says what one lacks."""


def each_part(parts: Iterable[Iterator[Result]]) -> Iterator[Result]:
    """Yields what each part of a bench yields; where one raises Skipped, the next one goes on.

    Raises Skipped at the end for all of those together.
    """
    lacking: list[str] = []
    for part in parts:
        try:
            yield from part
        except Skipped as skipped:
            lacking += skipped.args
    if lacking:
        raise Skipped(*lacking)


@dataclass(frozen=True)
class Context:
    """What a bench is told: the device to measure, how long it may take, and what it may use."""

    device: str = "cpu:"
    long: bool = False  # it may take hours
    tiny: bool = False  # sizes at which it only shows that it runs, for tests
    traces: Path | None = None  # a folder of request traces
    model: Path | None = None  # a folder with a checkpoint, in place of a bench's own models
    install_peers: bool = False  # what it compares with may be installed
    _start_s: float = field(default_factory=time.monotonic)

    def progress(self, text: str) -> None:
        """Tells the person who waits what is being measured; call it every few seconds."""
        elapsed_s = time.monotonic() - self._start_s
        print(f"  {elapsed_s:6.1f} s  {text}", file=sys.stderr, flush=True)
