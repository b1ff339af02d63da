"""Commands of engines' READMEs, for tests that run them as a user pastes them."""

import re
import shlex
from pathlib import Path

from bench.engines.environment import ROOT

_PACKAGE = ROOT / "engine_integration" / "nearkv"


def commands(engine: str, program: str) -> list[list[str]]:
    """Those of an engine's README that begin so, in words, as a shell takes them apart."""
    text = (_PACKAGE / engine / "README.md").read_text()
    shown = re.findall(rf"^    ({re.escape(program)} .*(?:\n    .*)*)", text, re.MULTILINE)
    return [shlex.split(each.replace("\\\n", " ")) for each in shown]


def in_folder(words: list[str], folder: Path) -> list[str]:
    """The same with its files there, and stores and pools no larger than a test needs."""
    changed = []
    for word in words:
        word = word.replace("/var/lib/nearkv", str(folder))
        word = re.sub(r"memory=\d+GiB", "memory=256MiB", word)
        changed.append(re.sub(r'("cpu_bytes_to_use": )\d+', rf"\g<1>{256 << 20}", word))
    return changed
