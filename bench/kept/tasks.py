"""What is asked of a model whose cache was cut: to go on with a text, and to recall its needles."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkv.demo.prompt import Needle, draw_needle, read_document

_DOCUMENT = (
    Path(__file__).parents[2]
    / "engine_integration"
    / "models"
    / "documents"
    / "postgresql-high-availability.txt"
)
NEEDLES = 8
CONTINUED_TOKENS = 128


@dataclass(frozen=True)
class Question:
    """A needle, and how far behind the text's beginning it stands, as a share."""

    asked: list[int]
    answer: list[int]
    depth: float


@dataclass(frozen=True)
class Task:
    """A text with needles in it, and what it goes on with."""

    prompt: list[int]
    continued: list[int]
    questions: list[Question]


class Tasks:
    """Draws tasks from the shipped document."""

    def __init__(self, tokenizer: Any) -> None:
        self._text = read_document(_DOCUMENT)
        self._encode = lambda text: tokenizer(text, add_special_tokens=False, verbose=False)[
            "input_ids"
        ]
        self._lines = [self._encode(line) for line in self._text.splitlines(keepends=True)]

    def draw(self, seed: int, tokens: int) -> Task:
        """A text of about so many tokens from anywhere; needles stand at equal distances."""
        rng = random.Random(seed)
        needles = [draw_needle(self._text, 100 * seed + i) for i in range(NEEDLES)]
        planted = [self._encode(f"{needle.line}\n") for needle in needles]
        room = tokens - sum(map(len, planted))
        sizes = [len(line) for line in self._lines]
        last = len(sizes) - 1
        while last and sum(sizes[last:]) < room + CONTINUED_TOKENS:
            last -= 1
        lines = self._lines[rng.randint(0, last) :]
        prompt: list[int] = []
        depths: list[int] = []
        used = 0
        while sum(map(len, lines[:used])) < room:
            wanted = (len(depths) + 0.5) / NEEDLES * tokens
            if len(depths) < NEEDLES and len(prompt) >= wanted:
                depths.append(len(prompt))
                prompt += planted[len(depths) - 1]
            prompt += lines[used]
            used += 1
        while len(depths) < NEEDLES:
            depths.append(len(prompt))
            prompt += planted[len(depths) - 1]
        continued = [token for line in lines[used:] for token in line][:CONTINUED_TOKENS]
        questions = [
            self._question(needle, depth / len(prompt))
            for needle, depth in zip(needles, depths, strict=True)
        ]
        return Task(prompt, continued, questions)

    def _question(self, needle: Needle, depth: float) -> Question:
        asked, answer = (
            self._encode(text) for text in (f"\n{needle.question}", f"{needle.value};")
        )
        return Question(asked, answer, depth)
