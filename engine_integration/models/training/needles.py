"""Needles: one-line facts (key, value) planted in a text, and the questions that ask for them.

A definition is one line of text. Its question repeats the line up to the value, without a trailing
space, at the start of a new line; a model that recalls the needle continues with the value.
"""

import random
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"\b[a-z]{4,9}\b")
_WORD_SAMPLE_CHARS = 4_000


@dataclass(frozen=True)
class LineFormat:
    """How a needle is written: `opening` key `separator` value `closing`."""

    name: str
    opening: str
    separator: str
    closing: str

    def question(self, key: str) -> str:
        """Text to end a prompt with (the prompt must end with a newline before it)."""
        return f"{self.opening}{key}{self.separator}".rstrip(" ")

    def answer(self, key: str, value: str) -> str:
        """What follows the question in the definition, without the newline."""
        return self.line(key, value)[len(self.question(key)) :]

    def line(self, key: str, value: str) -> str:
        """The definition, without the newline."""
        return f"{self.opening}{key}{self.separator}{value}{self.closing}"


TRAINED_FORMATS = (
    LineFormat("assignment", "@", "=", ";"),
    LineFormat("colon", "", ": ", ""),
    LineFormat("json", '"', '": "', '",'),
    LineFormat("sentence", "The code for ", " is ", "."),
    LineFormat("table", "| ", " | ", " |"),
    LineFormat("comment", "# ", " -> ", ""),
)
# Never seen in training: they show what carries over to a new way of writing a needle.
UNSEEN_FORMATS = (
    LineFormat("export", "export ", "=", ""),
    LineFormat("room", "Room ", " has number ", "."),
)

# A trace follows definitions in the assignment format from key to key until the value is a number:
# with @a=b; and @b=123; planted, the question "@a=>" is answered by "b=>123;".
TRACE_ARROW = "=>"


@dataclass(frozen=True)
class Needle:
    """A fact: `value` is what a definition in `line_format` gives for `key`."""

    line_format: LineFormat
    key: str
    value: str

    @property
    def line(self) -> str:
        """The definition, without the newline."""
        return self.line_format.line(self.key, self.value)


def draw_key(rng: random.Random, text: str) -> str:
    """A key: four to six random letters, or (as often) a word of the surrounding text."""
    if rng.random() < 0.5:
        start = rng.randrange(max(1, len(text) - _WORD_SAMPLE_CHARS))
        words = _WORD.findall(text, start, start + _WORD_SAMPLE_CHARS)
        if words:
            return rng.choice(words)
    return "".join(rng.choices(string.ascii_lowercase, k=rng.choice((4, 5, 6))))


def draw_keys(rng: random.Random, text: str, count: int) -> list[str]:
    """Distinct keys."""
    keys: dict[str, None] = {}
    while len(keys) < count:
        keys[draw_key(rng, text)] = None
    return list(keys)


def draw_number(rng: random.Random, digits: int) -> str:
    """A value of the given number of random digits."""
    return "".join(rng.choices(string.digits, k=digits))


def plant(text: str, lines: Sequence[str], rng: random.Random) -> tuple[str, list[tuple[int, int]]]:
    """Inserts lines into a text, the i-th at a line start in the i-th of equal slices.

    Returns the new text and the span (start, end) in characters of every planted line.
    """
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    copied = length = 0
    for index, line in enumerate(lines):
        wanted = int(len(text) * (index + rng.random()) / len(lines))
        at = max(copied, text.find("\n", wanted) + 1)
        before = text[copied:at]
        if before and not before.endswith("\n"):
            before += "\n"
        pieces += [before, line, "\n"]
        spans.append((length + len(before), length + len(before) + len(line)))
        length += len(before) + len(line) + 1
        copied = at
    pieces.append(text[copied:])
    return "".join(pieces), spans
