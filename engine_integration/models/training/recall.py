"""Measures needle recall and bits per byte of a Llama on held-out text.

The model is transformers' LlamaForCausalLM, decoding greedily: nothing of the training code runs.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import DynamicCache, LlamaForCausalLM

from training.needles import (
    TRACE_ARROW,
    TRAINED_FORMATS,
    LineFormat,
    Needle,
    draw_keys,
    draw_number,
    plant,
)

VALUE_DIGITS = 5
TRACE = "two-hop trace"
# The longest answer is ` "12345",` or a six-letter key with `=>12345;`.
_ANSWER_TOKENS = 20
_QUESTION_TOKENS = 24
_PREFILL_CHUNK_TOKENS = 2048
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True)
class Question:
    """A question to ask at the end of a prompt.

    `depth` is where the (first) definition stands, from 0 (start of the prompt) to 1 (end).
    """

    style: str
    depth: float
    text: str
    answer: str


@dataclass(frozen=True)
class Outcome:
    """A question put at a context length, and whether the whole answer was right."""

    length: int
    question: Question
    correct: bool


@dataclass(frozen=True)
class Prompt:
    """A tokenized prompt that ends with a newline, and what to ask after it."""

    tokens: list[int]
    questions: list[Question]


def make_prompt(
    tokenizer: Tokenizer,
    text: str,
    length: int,
    styles: list[LineFormat],
    traces: int,
    rng: random.Random,
) -> Prompt:
    """A prompt of at most `length` tokens (questions and answers included) with its needles.

    One needle for each entry of `styles` and two for each trace are spread over the prompt in
    random order, one in each of equal slices of a piece of `text`. Questions that the text itself
    also answers do not occur.
    """
    while True:
        prompt = _draw_prompt(tokenizer, text, length, styles, traces, rng)
        if prompt is not None:
            return prompt


def _draw_prompt(
    tokenizer: Tokenizer,
    text: str,
    length: int,
    styles: list[LineFormat],
    traces: int,
    rng: random.Random,
) -> Prompt | None:
    """A prompt, or None if the definition of a needle is not the only line that looks like it."""
    single, chains = _draw_needles(text, styles, traces, rng)
    needles = [*single, *(needle for chain in chains for needle in chain)]
    rng.shuffle(needles)
    lines = [needle.line for needle in needles]
    body = _body(tokenizer, text, length - _QUESTION_TOKENS - _ANSWER_TOKENS, lines, rng)
    planted, spans = plant(body, lines, rng)
    if not planted.endswith("\n"):
        planted += "\n"
    if any(planted.count(n.line_format.question(n.key)) != 1 for n in needles):
        return None
    starts = zip(needles, spans, strict=True)
    depth = {needle.key: start / len(planted) for needle, (start, _) in starts}
    questions = [_question(needle, depth[needle.key]) for needle in single]
    questions += [_trace_question(*chain, depth[chain[0].key]) for chain in chains]
    return Prompt(tokenizer.encode(planted).ids, questions)


def _draw_needles(
    text: str, styles: list[LineFormat], traces: int, rng: random.Random
) -> tuple[list[Needle], list[tuple[Needle, Needle]]]:
    """A needle for each style, and pairs of needles of which the first has the other as value."""
    keys = iter(draw_keys(rng, text, len(styles) + 2 * traces))
    single = [Needle(style, next(keys), draw_number(rng, VALUE_DIGITS)) for style in styles]
    chains = []
    for _ in range(traces):
        last = Needle(TRAINED_FORMATS[0], next(keys), draw_number(rng, VALUE_DIGITS))
        chains.append((Needle(TRAINED_FORMATS[0], next(keys), last.key), last))
    return single, chains


def _question(needle: Needle, depth: float) -> Question:
    line_format = needle.line_format
    return Question(
        style=line_format.name,
        depth=depth,
        text=line_format.question(needle.key),
        answer=line_format.answer(needle.key, needle.value) + "\n",
    )


def _trace_question(first: Needle, last: Needle, depth: float) -> Question:
    line_format = first.line_format
    return Question(
        style=TRACE,
        depth=depth,
        text=f"{line_format.opening}{first.key}{TRACE_ARROW}",
        answer=f"{last.key}{TRACE_ARROW}{last.value}{line_format.closing}",
    )


def _body(
    tokenizer: Tokenizer, text: str, budget: int, lines: list[str], rng: random.Random
) -> str:
    """A piece of text that, with the lines, stays within `budget` tokens."""
    # Two tokens a line for its newline and for what its neighbours tokenize differently.
    for_lines = sum(len(tokenizer.encode(line).ids) + 2 for line in lines)
    chars = budget * _CHARS_PER_TOKEN
    if chars >= len(text):
        raise ValueError(f"the held-out text is too short for {budget} tokens")
    start = rng.randrange(len(text) - chars)
    encoding = tokenizer.encode(text[start : start + chars])
    end = encoding.offsets[min(budget - for_lines, len(encoding.ids)) - 1][1]
    return text[start : start + end]


@torch.inference_mode()
def ask(model: LlamaForCausalLM, tokenizer: Tokenizer, prompt: Prompt) -> Iterator[str]:
    """The greedy continuation of the prompt after each of its questions, asked one by one."""
    cache = DynamicCache(config=model.config)
    for start in range(0, len(prompt.tokens), _PREFILL_CHUNK_TOKENS):
        chunk = torch.tensor([prompt.tokens[start : start + _PREFILL_CHUNK_TOKENS]])
        model.model(chunk, past_key_values=cache, use_cache=True)
    for question in prompt.questions:
        feed = tokenizer.encode(question.text).ids
        generated: list[int] = []
        for _ in range(_ANSWER_TOKENS):
            logits = model(torch.tensor([feed]), past_key_values=cache, use_cache=True).logits
            feed = [int(logits[0, -1].argmax())]
            generated += feed
            if "\n" in tokenizer.decode(feed):
                break
        cache.crop(len(prompt.tokens) - cache.get_seq_length())
        yield tokenizer.decode(generated)


def outcomes(
    model: LlamaForCausalLM, tokenizer: Tokenizer, length: int, prompt: Prompt
) -> list[Outcome]:
    """Asks everything about a prompt."""
    return [
        Outcome(length, question, answer.startswith(question.answer))
        for question, answer in zip(prompt.questions, ask(model, tokenizer, prompt), strict=True)
    ]


@torch.inference_mode()
def bits_per_byte(
    model: LlamaForCausalLM, tokenizer: Tokenizer, text: str, windows: int, window_tokens: int
) -> tuple[float, int]:
    """Mean bits per UTF-8 byte over separate windows spread evenly over the text, and their bytes.

    The first token of every window only serves as context.
    """
    nats, size_bytes = 0.0, 0
    for index in range(windows):
        start = index * (len(text) // windows)
        piece = text[start : start + window_tokens * 2 * _CHARS_PER_TOKEN]
        encoding = tokenizer.encode(piece)
        tokens = torch.tensor([encoding.ids[: window_tokens + 1]])
        logits = model(tokens[:, :-1]).logits.float()
        nats += F.cross_entropy(logits[0], tokens[0, 1:], reduction="sum").item()
        first, last = encoding.offsets[1][0], encoding.offsets[tokens.shape[1] - 1][1]
        size_bytes += len(piece[first:last].encode())
    return nats / math.log(2) / size_bytes, size_bytes
