"""How far a run is, and what it spent its time on.

The time left comes from what the stages usually take (`usual_s.json`, measured on two cores) and
from how fast those that have ended were beside that.
"""

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .stage import BUILD

_USUAL = Path(__file__).with_name("usual_s.json")
_PERIOD_S = 60.0
_SHOWN = 10
# "12/324 Test #5: ..." of ctest, "... [ 43%]" of pytest.
_COUNTED = re.compile(r"^\s*(\d+)/(\d+) Test\s")
_PERCENT = re.compile(r"\[\s*(\d+)%\]")


class StageClock:
    """The stages of a run. Says every minute, on standard error, how long it will still take."""

    def __init__(self, size: str, stages: list[str]) -> None:
        """`stages`: those that will run, in their order."""
        usual = json.loads(_USUAL.read_text(encoding="utf-8")).get(size, {})
        self._usual_s = {stage: usual.get(stage, 60.0) for stage in stages}
        self._took_s: dict[str, float] = {}
        self._stage = ""
        self._start_s = time.monotonic()
        self._share = 0.0

    @property
    def took_s(self) -> dict[str, float]:
        """Seconds of each stage that has ended."""
        return dict(self._took_s)

    def see(self, line: str) -> None:
        """Reads from a line of a stage's program which share of the stage is done."""
        if match := _COUNTED.match(line):
            self._share = int(match[1]) / int(match[2])
        elif match := _PERCENT.search(line):
            self._share = int(match[1]) / 100

    def left_s(self) -> float:
        """Seconds that the rest is expected to take."""
        usual_s = sum(self._usual_s[stage] for stage in self._took_s)
        pace = sum(self._took_s.values()) / usual_s if usual_s else 1.0
        ahead = [stage for stage in self._usual_s if stage not in self._took_s]
        rest_s = pace * sum(self._usual_s[stage] for stage in ahead if stage != self._stage)
        if not self._stage:
            return rest_s
        here_s = time.monotonic() - self._start_s
        whole_s = pace * self._usual_s[self._stage]
        if self._share > 0.1:  # Early on a share says little.
            whole_s = (whole_s + here_s / self._share) / 2
        return rest_s + max(whole_s - here_s, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts what happens inside as a stage."""
        self._stage, self._start_s, self._share = name, time.monotonic(), 0.0
        done = threading.Event()
        teller = threading.Thread(target=self._tell, args=(done,), daemon=True)
        teller.start()
        try:
            yield
        finally:
            done.set()
            teller.join()
            self._took_s[name] = time.monotonic() - self._start_s
            self._stage = ""

    def _tell(self, done: threading.Event) -> None:
        while not done.wait(_PERIOD_S):
            minutes = self.left_s() / 60
            left = f"about {minutes:.0f} min left" if minutes >= 1.5 else "a minute or less left"
            share = f", {self._share:.0%} done" if self._share else ""
            print(f"nearkv test: {self._stage}{share}; {left}", file=sys.stderr, flush=True)


def slowest(seconds: dict[str, float], title: str) -> list[str]:
    """Lines for the longest of what took these seconds."""
    longest = sorted(seconds.items(), key=lambda entry: -entry[1])[:_SHOWN]
    return [title, *(f"  {taken_s:7.1f} s  {name}" for name, taken_s in longest)] if longest else []


def build_steps(since_s: float) -> dict[str, float]:
    """Seconds of each step of the build whose output is newer than a moment (of time.time())."""
    steps = {}
    log = BUILD / ".ninja_log"
    for line in log.read_text(encoding="utf-8").splitlines()[1:] if log.exists() else ():
        start_ms, end_ms, _, output, _ = line.split("\t")
        path = BUILD / output
        if path.exists() and path.stat().st_mtime >= since_s:
            # Steps with several outputs stand there once for each.
            steps[Path(output).name] = (int(end_ms) - int(start_ms)) / 1000
    return steps
