"""Measures needle recall and bits per byte of a causal language model on a text."""

import copy
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import DynamicCache, PreTrainedModel

from evaluation.needles import draw_needles, plant
from nearkv.demo.prompt import Needle

VALUE_DIGITS = 5
# The longest question and its answer: "@", six letters, "=", five digits, ";".
_ASKED_TOKENS = 16
_MOST_BYTES_PER_TOKEN = 5


@dataclass(frozen=True)
class Prompt:
    """A tokenized text that ends with a newline, and the needles in it.

    `depths` says where their lines stand, from 0 (start) to 1 (end).
    """

    tokens: list[int]
    needles: list[Needle]
    depths: list[float]


@dataclass(frozen=True)
class Outcome:
    """Whether a needle at a depth of a prompt of a length was recalled to the last digit."""

    length: int
    depth: float
    correct: bool


def make_prompt(
    tokenizer: Tokenizer, text: str, length: int, needle_count: int, rng: random.Random
) -> Prompt:
    """A random piece of `text` with needles, `length` tokens at most with question and answer."""
    needles = draw_needles(needle_count, (VALUE_DIGITS,), rng)
    # Two tokens a line for its newline and for what its neighbours tokenize differently.
    line_tokens = sum(len(tokenizer.encode(needle.line).ids) + 2 for needle in needles)
    body_tokens = length - line_tokens - _ASKED_TOKENS
    chars = length * _MOST_BYTES_PER_TOKEN
    if chars >= len(text):
        raise ValueError(f"the text is too short for prompts of {length} tokens")
    start = rng.randrange(len(text) - chars)
    piece = text[start : start + chars]
    end = tokenizer.encode(piece).offsets[body_tokens - 1][1]
    planted, spans = plant(piece[:end], needles, rng)
    depths = [start / len(planted) for start, _ in spans]
    return Prompt(tokenizer.encode(planted).ids, needles, depths)


@torch.inference_mode()
def answers(model: PreTrainedModel, tokenizer: Tokenizer, prompt: Prompt) -> Iterator[str]:
    """The greedy continuation of the prompt and the question, for each of its needles."""
    cache = DynamicCache(config=model.config)
    model(torch.tensor([prompt.tokens]), past_key_values=cache, logits_to_keep=1)
    for needle in prompt.needles:
        # Windows and states cannot be cut back to the prompt.
        asked = copy.deepcopy(cache)
        feed = tokenizer.encode(needle.question).ids
        generated: list[int] = []
        for _ in tokenizer.encode(needle.answer).ids:
            logits = model(torch.tensor([feed]), past_key_values=asked, logits_to_keep=1).logits
            feed = [int(logits[0, -1].argmax())]
            generated += feed
        yield tokenizer.decode(generated)


def outcomes(
    model: PreTrainedModel, tokenizer: Tokenizer, length: int, prompt: Prompt
) -> list[Outcome]:
    """Asks for every needle of a prompt, one by one."""
    asked = zip(prompt.needles, prompt.depths, answers(model, tokenizer, prompt), strict=True)
    return [Outcome(length, depth, answer == needle.answer) for needle, depth, answer in asked]


@torch.inference_mode()
def bits_per_byte(
    model: PreTrainedModel, tokenizer: Tokenizer, text: str, windows: int, window_tokens: int
) -> tuple[float, int]:
    """Mean bits per UTF-8 byte over windows that start evenly over the text, and their bytes.

    The first token of every window only serves as context.
    """
    nats, size_bytes = 0.0, 0
    for index in range(windows):
        start = index * (len(text) // windows)
        piece = text[start : start + window_tokens * _MOST_BYTES_PER_TOKEN]
        encoding = tokenizer.encode(piece)
        tokens = torch.tensor([encoding.ids[: window_tokens + 1]])
        logits = model(tokens[:, :-1]).logits.float()
        nats += F.cross_entropy(logits[0], tokens[0, 1:], reduction="sum").item()
        first, last = encoding.offsets[1][0], encoding.offsets[tokens.shape[1] - 1][1]
        size_bytes += len(piece[first:last].encode())
    return nats / math.log(2) / size_bytes, size_bytes
