"""Lines on stderr about what takes long."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PERIOD_S = 5.0


class Progress:
    """What is going on. Set `detail` as often as you like."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.detail = ""
        self._done = threading.Event()
        self._start_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start_s

    def _say(self, text: str) -> None:
        print(f"nearkv demo: {self.label}: {text}", file=sys.stderr, flush=True)

    def _tell(self) -> None:
        while not self._done.wait(_PERIOD_S):
            self._say(f"{self.seconds:.0f} s  {self.detail}".rstrip())


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """Says every five seconds that `label` goes on, and at the end how long it took."""
    work = Progress(label)
    teller = threading.Thread(target=work._tell, daemon=True)
    teller.start()
    try:
        yield work
    finally:
        work._done.set()
        teller.join()
    work._say(f"done in {work.seconds:.1f} s")
