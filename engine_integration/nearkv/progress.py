"""Lines on stderr about what takes long, with the time that is left where it is known."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PERIOD_S = 5.0
_TERMINAL_PERIOD_S = 0.5


class Progress:
    """What is going on. Set `detail` and `done`, the share of the work from 0 to 1, at any time."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.detail = ""
        self.done: float | None = None
        self._over = threading.Event()
        self._start_s = time.monotonic()
        self._in_place = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start_s

    def _say(self, text: str, end: str = "\n") -> None:
        line = f"nearkv: {self.label}: {text}"
        if self._in_place:
            # A terminal has one line for it, which a longer text would break.
            line = f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}"
        print(line, end=end, file=sys.stderr, flush=True)

    def _state(self) -> str:
        if not self.done:
            return f"{self.seconds:.0f} s  {self.detail}".rstrip()
        left_s = self.seconds * (1 - self.done) / self.done
        return f"{self.done:.0%}, about {left_s:.0f} s left  {self.detail}".rstrip()

    def _tell(self) -> None:
        while not self._over.wait(_TERMINAL_PERIOD_S if self._in_place else _PERIOD_S):
            self._say(self._state(), end="" if self._in_place else "\n")


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """Says now and then that `label` goes on, and at the end how long it took."""
    work = Progress(label)
    teller = threading.Thread(target=work._tell, daemon=True)
    teller.start()
    try:
        yield work
    finally:
        work._over.set()
        teller.join()
    work._say(f"done in {work.seconds:.1f} s")
