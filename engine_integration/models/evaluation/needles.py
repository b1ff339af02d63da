"""Needles: one-line facts planted in a text, and the questions that ask for them.

A needle is the line `@key=12345;`. Its question is the line up to the value, at the start of a new
line; a model that recalls the needle continues with the rest of the line.
"""

import random
import string
from collections.abc import Sequence

from nearkv.demo.prompt import Needle

KEY_LETTERS = (4, 5, 6)


def draw_needles(count: int, digits: Sequence[int], rng: random.Random) -> list[Needle]:
    """Needles with distinct random keys; a value has one of the given numbers of digits."""
    keys: dict[str, None] = {}
    while len(keys) < count:
        keys["".join(rng.choices(string.ascii_lowercase, k=rng.choice(KEY_LETTERS)))] = None
    return [Needle(key, "".join(rng.choices(string.digits, k=rng.choice(digits)))) for key in keys]


def plant(
    text: str, needles: Sequence[Needle], rng: random.Random
) -> tuple[str, list[tuple[int, int]]]:
    """Inserts the lines of needles into a text, the i-th in the i-th of equal slices.

    Every line goes between two lines of the text. Returns the new text, which ends with a newline,
    and the span (start, end) in characters of every planted line.
    """
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    copied = length = 0

    def copy_until(end: int) -> None:
        nonlocal copied, length
        piece = text[copied:end]
        if piece and not piece.endswith("\n"):
            piece += "\n"
        pieces.append(piece)
        copied, length = end, length + len(piece)

    for index, needle in enumerate(needles):
        wanted = int(len(text) * (index + rng.random()) / len(needles))
        copy_until(max(copied, text.find("\n", wanted) + 1))
        spans.append((length, length + len(needle.line)))
        pieces.append(needle.line + "\n")
        length += len(needle.line) + 1
    copy_until(len(text))
    return "".join(pieces), spans
