"""What the demo asks: a document, a question about it, and what a right answer holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkv.demo import DemoError
from nearkv.demo.prompt import Needle, draw_needle, make_prompt

QUESTION = "What was the name of the trawler that called for help?"
ANSWER = "Dorothea"
"""A right answer to QUESTION about the built-in document has this word in it."""


@dataclass(frozen=True)
class Question:
    """A question about a text. `answer` is what its answer has to hold; None: nobody knows.

    With a needle the question is its beginning, planted in the text for a model that can do no
    more than recall such lines.
    """

    text: str
    answer: str | None
    needle: Needle | None = None

    def is_right(self, text: str) -> bool | None:
        """Whether an answer is right; None if nobody knows."""
        if self.needle:
            return text.strip() == self.needle.value
        return None if self.answer is None else self.answer.casefold() in text.casefold()


@dataclass(frozen=True)
class DocumentPrompt:
    """The tokens of a document, which are worth keeping, and those of the question behind it."""

    document: list[int]
    question: list[int]
    cut: bool

    @property
    def tokens(self) -> list[int]:
        """All of them."""
        return self.document + self.question


def plant(document: str) -> Question:
    """A needle for a text, always the same one."""
    needle = draw_needle(document, seed=0)
    return Question(needle.question, needle.value, needle)


def make_question_prompt(
    tokenizer: Any, document: str, question: Question, most: int
) -> DocumentPrompt:
    """The document first, then the question, in the model's own form of a chat if it has one.

    A document that does not fit into `most` tokens is cut at its end. DemoError if the question
    alone does not fit.
    """
    if question.needle:
        planted = make_prompt(tokenizer, document, question.needle, 0.5, most)
        end = len(planted.tokens) - planted.question_tokens
        return DocumentPrompt(planted.tokens[:end], planted.tokens[end:], planted.cut)

    def encode(text: str, special: bool = False) -> list[int]:
        return tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"]

    start: list[int] = []
    if tokenizer.chat_template:
        content = f"{document.rstrip()}\n\n{question.text}"
        turns = [{"role": "user", "content": content}]
        text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        at = text.rindex(question.text)
        before, asked = text[:at], encode(text[at:])
    else:
        start = encode("", special=True)
        before, asked = document.rstrip() + "\n\n", encode(f"Question: {question.text}\nAnswer:")
    kept = start + encode(before)
    room = most - len(asked)
    if room < 1:
        raise DemoError(f"the question alone has {len(asked)} tokens; {most} fit into the model")
    return DocumentPrompt(kept[:room], asked, len(kept) > room)


def built_in_document() -> Path:
    """The log of a lighthouse, in a source tree. DemoError where there is none."""
    models = Path(__file__).resolve().parents[2] / "models"
    path = models / "documents" / "skarholm-log.txt"
    if not path.is_file():
        raise DemoError("the demo's document is in the source tree alone; name a text with --file")
    return path
