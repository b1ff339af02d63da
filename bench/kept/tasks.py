"""What is asked of a model whose cache was cut: to go on with a text, and to recall its needles."""

import random
import string
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
HOPS = 3
CONTINUED_TOKENS = 128
_LETTERS = str.maketrans("0123456789", "abcdefghij")


@dataclass(frozen=True)
class NeedleQuestion:
    """A needle, and how far behind the text's beginning it stands, as a share."""

    asked: list[int]
    answer: list[int]
    depth: float


@dataclass(frozen=True)
class Task:
    """A text with needles in it, and what it goes on with."""

    prompt: list[int]
    continued: list[int]
    questions: list[NeedleQuestion]
    chain: list[NeedleQuestion]
    """One after the other in one text; the digits of an answer spell the key asked for next."""


class Tasks:
    """Draws tasks from the shipped document."""

    def __init__(self, tokenizer: Any) -> None:
        self._text = read_document(_DOCUMENT)
        self._encode = lambda text: tokenizer(text, add_special_tokens=False, verbose=False)[
            "input_ids"
        ]
        self._lines = [self._encode(line) for line in self._text.splitlines(keepends=True)]

    def draw(self, seed: int, tokens: int) -> Task:
        """A text of about so many tokens from anywhere; needles stand at equal distances.

        The chain's stand half way between those, in any order.
        """
        rng = random.Random(seed)
        needles = [draw_needle(self._text, 100 * seed + i) for i in range(NEEDLES)]
        chain = self._draw_chain(rng)
        places = [((i + 0.5) / NEEDLES, needle) for i, needle in enumerate(needles)]
        between = rng.sample(range(1, NEEDLES), HOPS)
        places += [(i / NEEDLES, hop) for i, hop in zip(between, chain, strict=True)]
        planted = [
            (share * tokens, needle, self._encode(f"{needle.line}\n"))
            for share, needle in sorted(places, key=lambda place: place[0])
        ]
        room = tokens - sum(len(line) for *_, line in planted)
        lines = self._lines_from_anywhere(rng, room)
        prompt: list[int] = []
        depths: dict[Needle, int] = {}
        used = taken = 0
        while taken < room or planted:
            if planted and (len(prompt) >= planted[0][0] or taken >= room):
                _, needle, line = planted.pop(0)
                depths[needle] = len(prompt)
                prompt += line
            else:
                prompt += lines[used]
                taken += len(lines[used])
                used += 1
        continued = [token for line in lines[used:] for token in line][:CONTINUED_TOKENS]
        questions, asked = (
            [self._question(needle, depths[needle] / len(prompt)) for needle in some]
            for some in (needles, chain)
        )
        return Task(prompt, continued, questions, asked)

    def _draw_chain(self, rng: random.Random) -> list[Needle]:
        """Needles that each lead to the next one."""
        chain = [draw_needle(self._text, rng.getrandbits(32))]
        while len(chain) < HOPS:
            key = chain[-1].value.translate(_LETTERS)
            if key in self._text:
                chain = [draw_needle(self._text, rng.getrandbits(32))]
            else:
                chain.append(Needle(key, "".join(rng.choices(string.digits, k=5))))
        return chain

    def _lines_from_anywhere(self, rng: random.Random, room: int) -> list[list[int]]:
        """Lines that fill a prompt's room and what it goes on with."""
        sizes = [len(line) for line in self._lines]
        last = len(sizes) - 1
        while last and sum(sizes[last:]) < room + CONTINUED_TOKENS:
            last -= 1
        if sum(sizes[last:]) < room + CONTINUED_TOKENS:
            most = sum(sizes) - CONTINUED_TOKENS
            raise ValueError(f"the document has but {most} tokens, and a text needs {room}")
        return self._lines[rng.randint(0, last) :]

    def _question(self, needle: Needle, depth: float) -> NeedleQuestion:
        asked, answer = (
            self._encode(text) for text in (f"\n{needle.question}", f"{needle.value};")
        )
        return NeedleQuestion(asked, answer, depth)
