"""Training sequences: plain text, text with repeated spans, and text with needles and questions.

All randomness comes from the generator that the caller passes.
"""

import random
from dataclasses import astuple, dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.long_context import skipping_positions
from training.needles import draw_needles, plant
from training.schedule import Phase
from training.tokenizer import SPECIAL_TOKENS

NO_SOURCE = -1

TEXT_WEIGHT = 1.0
COPY_WEIGHT = 1.5
ANSWER_WEIGHT = 3.0

_CHARS_PER_TOKEN = 3
_SHORTEST_SPAN = 10
_LONGEST_SPAN = 100
# A span can only be recognised as a repetition after a few of its tokens.
_UNANNOUNCED_TOKENS = 4
_RANDOM_SPAN_SHARE = 0.25
_MOST_NEEDLES = 24
_TOKENS_PER_NEEDLE = 48
_VALUE_DIGITS = (4, 5, 5, 6)


@dataclass
class TrainingSequence:
    """Predictions of every next token, each field with one entry a prediction.

    tokens      what is seen
    targets     what is to be predicted: the next token
    weights     loss weight of the prediction
    sources     index of the earlier token that the target repeats, or NO_SOURCE
    salient     the token belongs to a needle, a question or a repeated span
    """

    tokens: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    sources: np.ndarray
    salient: np.ndarray


@dataclass
class Batch:
    """Training sequences, stacked to (batch, length), and their position ids."""

    tokens: Tensor
    targets: Tensor
    weights: Tensor
    sources: Tensor
    salient: Tensor
    positions: Tensor


def make_batch(
    tokenizer: Tokenizer, text: str, phase: Phase, position_limit: int, rng: random.Random
) -> Batch:
    """Draws the sequences of one step and places them below `position_limit`."""
    line_end = tokenizer.encode("\n").ids[0]
    rows = []
    for make in rng.choices(
        (text_sequence, copy_sequence, needle_sequence), phase.mix, k=phase.batch
    ):
        sequence = make(tokenizer, text, phase.length, rng)
        positions = skipping_positions(sequence.tokens, line_end, position_limit, rng)
        rows.append((*astuple(sequence), positions))
    return Batch(*(torch.from_numpy(np.stack(field)) for field in zip(*rows, strict=True)))


def text_sequence(
    tokenizer: Tokenizer, text: str, length: int, rng: random.Random
) -> TrainingSequence:
    """A piece of the text."""
    tokens, _ = _draw_text(tokenizer, text, length + 1, rng)
    return _unlabelled(np.array(tokens))


def copy_sequence(
    tokenizer: Tokenizer, text: str, length: int, rng: random.Random
) -> TrainingSequence:
    """A piece of the text in which parts are overwritten with spans that stand before them."""
    tokens = np.array(_draw_text(tokenizer, text, length + 1, rng)[0])
    sequence = _unlabelled(tokens)
    longest = max(_SHORTEST_SPAN + 2, min(_LONGEST_SPAN, length // 5))
    salient = np.zeros(length + 1, bool)
    at = length // 8
    while at < length - 16:
        size = min(rng.randrange(_SHORTEST_SPAN, longest), at, length + 1 - at)
        origin = rng.randrange(at - size + 1)
        span, repeat = slice(origin, origin + size), slice(at, at + size)
        if not salient[span].any() and rng.random() < _RANDOM_SPAN_SHARE:
            some = range(len(SPECIAL_TOKENS), tokenizer.get_vocab_size())
            tokens[span] = rng.choices(some, k=size)
            sequence.weights[max(0, origin - 1) : origin + size - 1] = 0.0
        tokens[repeat] = tokens[span]
        salient[span] = salient[repeat] = True
        announced = at - 1 + _UNANNOUNCED_TOKENS
        sequence.weights[at - 1 : announced] = 0.0
        sequence.weights[announced : at + size - 1] = COPY_WEIGHT
        sequence.sources[announced : at + size - 1] = np.arange(
            origin + _UNANNOUNCED_TOKENS, origin + size
        )
        at += size + rng.randrange(4, max(5, length // 10))
    sequence.salient[:] = salient[:-1]
    return sequence


def needle_sequence(
    tokenizer: Tokenizer, text: str, length: int, rng: random.Random
) -> TrainingSequence:
    """A piece of the text with needles, followed by their questions and answers among more text."""
    count = rng.randint(2, max(3, min(_MOST_NEEDLES, length // _TOKENS_PER_NEEDLE)))
    needles = draw_needles(count, _VALUE_DIGITS, rng)
    body_tokens = max(32, int(length * rng.uniform(0.6, 0.9)) - 14 * count)
    written, definitions = plant(_draw_text(tokenizer, text, body_tokens, rng)[1], needles, rng)
    filler = _draw_text(tokenizer, text, length // 4, rng)[1].splitlines()

    # Spans of characters: whole questions with their answers, and (answer, where it stands above).
    questions: list[tuple[int, int]] = []
    repeats: list[tuple[int, int, int]] = []
    while len(written) < length * _CHARS_PER_TOKEN * 2:
        needle, (_, definition_end) = rng.choice(list(zip(needles, definitions, strict=True)))
        end = len(written) + len(needle.line)
        questions.append((len(written), end))
        repeats.append((end - len(needle.answer), end, definition_end - len(needle.answer)))
        written += needle.line + "\n"
        if rng.random() < 0.4:
            written += rng.choice(filler) + "\n"

    encoding = tokenizer.encode(written)
    starts = np.array([start for start, _ in encoding.offsets])
    weights = np.full(len(starts), TEXT_WEIGHT, np.float32)
    sources = np.full(len(starts), NO_SOURCE)
    salient = np.zeros(len(starts), bool)
    # Entry t of weights and sources is about predicting token t + 1.
    for first, end in np.searchsorted(starts, (*definitions, *questions)):
        salient[first:end] = True
        weights[max(0, first - 1) : end - 1] = 0.0
    for first, end, source in np.searchsorted(starts, repeats):
        weights[first - 1 : end - 1] = ANSWER_WEIGHT
        sources[first - 1 : end - 1] = np.arange(source, source + end - first)
    sequence = _unlabelled(np.array(encoding.ids[: length + 1]))
    sequence.weights[:], sequence.sources[:] = weights[:length], sources[:length]
    sequence.salient[:] = salient[:length]
    return sequence


def _unlabelled(tokens: np.ndarray) -> TrainingSequence:
    """A sequence over tokens (length + 1), as if it were plain text."""
    length = len(tokens) - 1
    return TrainingSequence(
        tokens=tokens[:-1],
        targets=tokens[1:],
        weights=np.full(length, TEXT_WEIGHT, np.float32),
        sources=np.full(length, NO_SOURCE),
        salient=np.zeros(length, bool),
    )


def _draw_text(
    tokenizer: Tokenizer, text: str, count: int, rng: random.Random
) -> tuple[list[int], str]:
    """`count` tokens of text from a random place, and their characters."""
    chars = min(count * _CHARS_PER_TOKEN, len(text) - 1)
    while True:
        start = rng.randrange(len(text) - chars)
        piece = text[start : start + chars]
        encoding = tokenizer.encode(piece)
        if len(encoding.ids) >= count:
            return encoding.ids[:count], piece[: encoding.offsets[count - 1][1]]
        if chars == len(text) - 1:
            raise ValueError(f"the text is shorter than {count} tokens")
        chars = min(chars * 2, len(text) - 1)
