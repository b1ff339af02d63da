"""Texts that Debian and Python packages carry: one to calibrate by, others to judge on.

What a machine has of them depends on its packages and their versions, so a result names its texts.
"""

import gzip
import os
import re
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

NUMBERS = {"Lisbon": 731946, "Oslo": 482015, "Cairo": 905327, "Lima": 164738}
"""What needles say of cities' vaults."""
_NEEDLE_DEPTH = 0.37
_CHARACTERS_PER_TOKEN = 8
"""More than any of these texts has, so that what is cut off is never too short."""

_LICENCES = ("GPL-3", "LGPL-2.1", "MPL-2.0", "Apache-2.0", "GFDL-1.3", "Artistic", "GPL-2")
_SOURCES = ("argparse", "tarfile", "inspect", "typing", "doctest", "pydoc", "subprocess")


class TextMissing(Exception):
    """This machine lacks a text; the message says what to install."""


@dataclass(frozen=True)
class Text:
    """A text by name; `parts()` yields its pieces, as many as are wanted."""

    name: str
    parts: Callable[[], Iterator[str]]
    package: str
    has_needle: bool = False

    def tokens(self, tokenizer: Any, count: int) -> torch.Tensor:
        """The first `count` tokens, int64 [count]; TextMissing where there are not so many.

        A text with a needle has a sentence to remember in it, and ends by asking for it.
        """
        written = ""
        try:
            for part in self.parts():
                written += part
                if len(written) > _CHARACTERS_PER_TOKEN * count:
                    break
        except (OSError, subprocess.CalledProcessError) as error:
            raise TextMissing(f"no text {self.name}: {error} ({self.package})") from error
        ids = tokenizer(written, return_tensors="pt").input_ids[0]
        if ids.numel() < count:
            raise TextMissing(
                f"the text {self.name} has {ids.numel()} of {count} tokens ({self.package})"
            )
        if not self.has_needle:
            return ids[:count]
        hidden = ((_NEEDLE_DEPTH, needle("Lisbon")),)
        return with_hidden(ids[:count], hidden, question("Lisbon"), tokenizer)


def needle(city: str) -> str:
    """A sentence to remember."""
    return f"\n\nRemember this: the secret number of the vault in {city} is {NUMBERS[city]}.\n\n"


def question(city: str) -> str:
    """What asks for it, up to the number."""
    what = f"the secret number of the vault in {city} is"
    return f"\n\nQuestion: what is {what.removesuffix(' is')}?\nAnswer: {what}"


def with_hidden(
    ids: torch.Tensor, hidden: Sequence[tuple[float, str]], last: str, tokenizer: Any
) -> torch.Tensor:
    """As many tokens as `ids` has: these, cut off where others need room.

    `hidden` are parts between them, each at its depth from 0 to 1, in order; `last` is the end.
    """
    depths = [depth for depth, _ in hidden]
    *parts, end = (
        tokenizer(part, add_special_tokens=False, return_tensors="pt").input_ids[0]
        for part in (*(part for _, part in hidden), last)
    )
    room = ids.numel() - sum(part.numel() for part in (*parts, end))
    pieces, begin = [], 0
    for depth, part in zip(depths, parts, strict=True):
        place = int(depth * room)
        pieces += [ids[begin:place], part]
        begin = place
    return torch.cat([*pieces, ids[begin:room], end])


def _read(path: Path) -> str:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", errors="replace") as file:
        return file.read()


def _manual_page() -> Iterator[str]:
    environment = os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    shown = subprocess.run(
        ["man", "bash"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    yield re.sub(r" {3,}", "  ", re.sub(r".\x08", "", shown))


def _licences() -> Iterator[str]:
    for name in _LICENCES:
        yield _read(Path("/usr/share/common-licenses", name))


def _sources() -> Iterator[str]:
    for name in _SOURCES:
        yield _read(Path(sysconfig.get_path("stdlib"), f"{name}.py"))


def _history() -> Iterator[str]:
    for path in sorted(Path("/usr/share/doc").glob("python3.*/HISTORY.gz")):
        yield _read(path)


def _later_history() -> Iterator[str]:
    for part in _history():
        yield part[len(part) // 2 :]


def _copyrights() -> Iterator[str]:
    yield from map(_read, sorted(Path("/usr/share/doc").glob("[c-p]*/copyright"))[::20])


CALIBRATION = Text("man_bash", _manual_page, "Debian's man-db and bash")
JUDGED = (
    Text("licences", _licences, "Debian's base-files"),
    Text("python_sources", _sources, "Python's standard library"),
    Text("python_history", _history, "Debian's python3 and its documentation"),
    Text("copyrights", _copyrights, "Debian's packages"),
    Text("needle", _later_history, "Debian's python3 and its documentation", has_needle=True),
)
