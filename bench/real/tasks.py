"""Tasks of RULER's kinds: a long text hides what its last question asks for.

They are generated, so that there is nothing to download. An answer counts as right if each of its
tokens is the likeliest behind those before it, which is what greedy decoding would write.
"""

from dataclasses import dataclass
from typing import Any

import torch

from bench.real.texts import JUDGED, NUMBERS, needle, question, with_hidden

_HAYSTACK = next(text for text in JUDGED if text.name == "licences")
_DEPTHS = (0.02, 0.25, 0.5, 0.75, 0.98)


@dataclass(frozen=True)
class Task:
    """`hidden` are sentences at depths of the text, from 0 to 1; `question` wants `answer`."""

    kind: str
    hidden: tuple[tuple[float, str], ...]
    question: str
    answer: str

    def tokens(self, tokenizer: Any, count: int) -> tuple[torch.Tensor, int]:
        """All tokens, int64 [count], and how many at their end are the answer.

        TextMissing where this machine lacks the text.
        """
        around = _HAYSTACK.tokens(tokenizer, count)
        answer = tokenizer(self.answer, add_special_tokens=False, return_tensors="pt").input_ids
        last = self.question + self.answer
        return with_hidden(around, self.hidden, last, tokenizer), answer.numel()


def _needles() -> list[Task]:
    """One sentence, at each depth."""
    asked, answer = question("Lisbon"), f" {NUMBERS['Lisbon']}"
    return [Task("needle", ((depth, needle("Lisbon")),), asked, answer) for depth in _DEPTHS]


def _keys() -> list[Task]:
    """Several sentences that are alike, of which one is asked for."""
    hidden = tuple((depth, needle(city)) for depth, city in zip(_DEPTHS[:4], NUMBERS, strict=True))
    return [Task("keys", hidden, question(city), f" {NUMBERS[city]}") for city in NUMBERS]


def _traces() -> list[Task]:
    """A number that is told by names of names."""
    tasks = []
    for number, depths in ((47193, _DEPTHS[:3]), (80526, _DEPTHS[1:4]), (31867, _DEPTHS[2:])):
        chain = (f"VAR X1 = {number}.", "VAR X2 = VAR X1.", "VAR X3 = VAR X2.")
        hidden = tuple((at, f"\n\n{part}\n\n") for at, part in zip(depths, chain, strict=True))
        asked = "\n\nQuestion: which number is VAR X3?\nAnswer: VAR X3 is the number"
        tasks.append(Task("trace", hidden, asked, f" {number}"))
    return tasks


TASKS = (*_needles(), *_keys(), *_traces())
