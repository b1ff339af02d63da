"""A document with a needle in it, and the question at its end."""

import random
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkv.demo import DemoError


@dataclass(frozen=True)
class Needle:
    """A line `@key=value;` that the document does not hold by itself."""

    key: str
    value: str

    @property
    def line(self) -> str:
        """What is planted."""
        return self.question + self.answer

    @property
    def question(self) -> str:
        """What the prompt ends with, at the start of a line."""
        return f"@{self.key}="

    @property
    def answer(self) -> str:
        """The rest of the line, with which a model goes on that recalls it."""
        return f"{self.value};"


@dataclass(frozen=True)
class NeedlePrompt:
    """What the model reads; the question is its last tokens.

    `needle_at` is the needle's share of the way through.
    """

    tokens: list[int]
    question_tokens: int
    needle: Needle
    needle_at: float
    cut: bool


def read_document(path: Path) -> str:
    """A text file; DemoError where it is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror}") from error
    if b"\0" in data:
        raise DemoError(f"{path} is a binary file; give a plain text in UTF-8")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DemoError(
            f"{path} is not UTF-8 (byte {error.start}); convert it, for instance: "
            f"iconv -f latin1 -t utf-8 {path}"
        ) from error
    if not text.strip():
        raise DemoError(f"{path} is empty; give a text, best of some thousand words")
    return text


def draw_needle(document: str, seed: int) -> Needle:
    """A needle at random whose key is not in the document."""
    rng = random.Random(seed)
    while True:
        key = "".join(rng.choices(string.ascii_lowercase, k=6))
        if key not in document:
            return Needle(key, "".join(rng.choices(string.digits, k=5)))


def make_prompt(
    tokenizer: Any, document: str, needle: Needle, depth: float, most: int
) -> NeedlePrompt:
    """Plants the needle between two lines at `depth` (0 start, 1 end) and asks for it at the end.

    A document that does not fit into `most` tokens is cut at its end.
    """

    def encode(text: str, special: bool = False) -> list[int]:
        return tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"]

    line, question = encode(f"\n{needle.line}\n"), encode(f"\n{needle.question}")
    start = encode("", special=True)
    room = most - len(start) - len(line) - len(question)
    kept = encode(document)
    cut = len(kept) > room
    if cut:
        document = tokenizer.decode(kept[:room], clean_up_tokenization_spaces=False)
    wanted = int(depth * len(document))
    place = max(document.rfind("\n", 0, wanted), 0)
    before, after = encode(document[:place]), encode(document[place:].removeprefix("\n"))
    tokens = start + before + line + after[: max(room - len(before), 0)] + question
    return NeedlePrompt(
        tokens, len(question), needle, (len(start) + len(before)) / len(tokens), cut
    )
