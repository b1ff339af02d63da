"""What an interrupted run has passed already, for the run that goes on behind it."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict

from .stage import ROOT, Options, Outcome, our_files

_FILE = ROOT / "build" / "interrupted-test.json"


class Resumption:
    """The stages that passed of the same tests on the same files. `outcomes` are theirs."""

    def __init__(self, options: Options) -> None:
        self._key = _digest(options)
        self.outcomes: list[Outcome] = []
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(_FILE.read_text(encoding="utf-8"))
            if kept["key"] == self._key:
                self.outcomes = [Outcome(**outcome) for outcome in kept["outcomes"]]

    def keep(self) -> None:
        """Notes what has passed so far."""
        passed = [asdict(outcome) for outcome in self.outcomes if outcome.ok]
        _FILE.parent.mkdir(parents=True, exist_ok=True)
        _FILE.write_text(json.dumps({"key": self._key, "outcomes": passed}), encoding="utf-8")

    def forget(self) -> None:
        """For a run that came to its end: the next one begins anew."""
        _FILE.unlink(missing_ok=True)


def _digest(options: Options) -> str:
    """Of the size, the filters, and the names and contents of all our files."""
    digest = hashlib.sha256(f"{options.size} {options.filters}".encode())
    for path in our_files():
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
