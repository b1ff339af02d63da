"""What public benchmarks of KV caches ask for: prompts that begin as earlier ones did.

The shapes of vLLM's `prefix_repetition` and of LMCache's `multi-round-qa` and `long_doc_qa`, with
tokens of a text instead of random ones.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.engines.environment import ROOT

MODELS = ROOT / "engine_integration" / "models"
DOCUMENT = MODELS / "documents" / "postgresql-high-availability.txt"


@dataclass(frozen=True)
class Ask:
    """A prompt, and how many of its first tokens an earlier one of the shape began with."""

    tokens: tuple[int, ...]
    known_tokens: int


@dataclass(frozen=True)
class WorkloadSizes:
    """How long a context is, how many there are, and how often each is come back to."""

    context_tokens: int
    question_tokens: int
    contexts: int
    repeats: int


def prefix_repetition(text: Sequence[int], sizes: WorkloadSizes) -> Iterator[Ask]:
    """Prompts of few system prompts, each with another ending, one system prompt at a time."""
    for prefix in range(sizes.contexts):
        for repeat in range(1 + sizes.repeats):
            yield _ask(text, sizes, prefix, prefix * (1 + sizes.repeats) + repeat, repeat > 0)


def long_document_qa(text: Sequence[int], sizes: WorkloadSizes) -> Iterator[Ask]:
    """Every document once, then questions about documents in random order."""
    order = [document for document in range(sizes.contexts) for _ in range(sizes.repeats)]
    random.Random(1).shuffle(order)
    for document in range(sizes.contexts):
        yield _ask(text, sizes, document, document, False)
    for number, document in enumerate(order, sizes.contexts):
        yield _ask(text, sizes, document, number, True)


def multi_round_qa(text: Sequence[int], sizes: WorkloadSizes) -> Iterator[Ask]:
    """Users in turns; each round's prompt is all that was said, and a new question."""
    users = [slice_of(text, user, sizes.context_tokens) for user in range(sizes.contexts)]
    for round_number in range(1 + sizes.repeats):
        for user, said in enumerate(users):
            question = slice_of(text, 1000 + user + 31 * round_number, sizes.question_tokens)
            users[user] = said + question
            yield Ask(users[user], len(said) if round_number else 0)


SHAPES: dict[str, Callable[[Sequence[int], WorkloadSizes], Iterator[Ask]]] = {
    "prefix_repetition": prefix_repetition,
    "long_document_qa": long_document_qa,
    "multi_round_qa": multi_round_qa,
}


def _ask(
    text: Sequence[int], sizes: WorkloadSizes, context: int, question: int, is_known: bool
) -> Ask:
    begin = slice_of(text, context, sizes.context_tokens)
    end = slice_of(text, 1000 + question, sizes.question_tokens)
    return Ask(begin + end, len(begin) if is_known else 0)


def slice_of(text: Sequence[int], number: int, tokens: int) -> tuple[int, ...]:
    """Tokens of a text that begin elsewhere for each number; the text goes round."""
    first = number * 7919 % len(text)
    return tuple(text[(first + i) % len(text)] for i in range(tokens))


def tokens_of_the_document(model: Path) -> list[int]:
    """DOCUMENT, by a model's tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)(DOCUMENT.read_text(encoding="utf-8")).input_ids
