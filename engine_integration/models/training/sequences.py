"""Training sequences: plain text, repeated spans, and texts with needles and questions.

All randomness comes from the generator that the caller passes, so a step number is enough to
rebuild a batch.
"""

import random
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from training.needles import (
    TRACE_ARROW,
    TRAINED_FORMATS,
    Needle,
    draw_key,
    draw_keys,
    draw_number,
    plant,
)
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
_RANDOM_SPAN_SHARE = 0.35
_MOST_NEEDLES = 24
_TOKENS_PER_NEEDLE = 48
_WORD_VALUE_SHARE = 0.2
_TRACE_SHARE = 0.2
_FORMATS_PER_TEXT = 3


@dataclass
class TrainingSequence:
    """`length` predictions over `length` + 1 tokens.

    weights[t]   loss weight of predicting tokens[t + 1]
    sources[t]   index of the earlier token that tokens[t + 1] repeats, or NO_SOURCE
    salient[t]   token t belongs to a needle, a question or a repeated span
    """

    tokens: np.ndarray
    weights: np.ndarray
    sources: np.ndarray
    salient: np.ndarray


class SequenceMaker:
    """Makes sequences of one length from one text."""

    def __init__(self, tokenizer: Tokenizer, text: str, length: int) -> None:
        self._tokenizer = tokenizer
        self._text = text
        self._length = length
        self._vocab_size = tokenizer.get_vocab_size()

    def make(self, kind: str, rng: random.Random) -> TrainingSequence:
        """A sequence of kind "text", "copy" or "needle"."""
        if kind == "needle":
            return self._needles(rng)
        sequence = self._plain(rng)
        if kind == "copy":
            self._repeat_spans(sequence, rng)
        return sequence

    def _plain(self, rng: random.Random) -> TrainingSequence:
        tokens = np.array(self._encode_text(rng, self._length + 1)[0], dtype=np.int64)
        return TrainingSequence(
            tokens=tokens,
            weights=np.full(self._length, TEXT_WEIGHT, np.float32),
            sources=np.full(self._length, NO_SOURCE, np.int64),
            salient=np.zeros(self._length, bool),
        )

    def _encode_text(self, rng: random.Random, count: int) -> tuple[list[int], str]:
        """`count` tokens of text from a random place, and their characters."""
        chars = min(count * _CHARS_PER_TOKEN, len(self._text) - 1)
        while True:
            start = rng.randrange(len(self._text) - chars)
            piece = self._text[start : start + chars]
            encoding = self._tokenizer.encode(piece)
            if len(encoding.ids) >= count:
                return encoding.ids[:count], piece[: encoding.offsets[count - 1][1]]
            if chars == len(self._text) - 1:
                raise ValueError(f"the text is shorter than {count} tokens")
            chars = min(chars * 2, len(self._text) - 1)

    def _repeat_spans(self, sequence: TrainingSequence, rng: random.Random) -> None:
        """Overwrites parts of the sequence with earlier spans of it."""
        length = self._length
        longest = max(_SHORTEST_SPAN + 2, min(_LONGEST_SPAN, length // 5))
        at = length // 8
        while at < length - 16:
            size = min(rng.randrange(_SHORTEST_SPAN, longest), at, length + 1 - at)
            origin = rng.randrange(at - size + 1)
            fresh = not sequence.salient[origin : origin + size].any()
            if fresh and rng.random() < _RANDOM_SPAN_SHARE:
                for index in range(origin, origin + size):
                    sequence.tokens[index] = rng.randrange(len(SPECIAL_TOKENS), self._vocab_size)
                sequence.weights[max(0, origin - 1) : origin + size - 1] = 0.0
            sequence.tokens[at : at + size] = sequence.tokens[origin : origin + size]
            sequence.salient[origin : origin + size] = True
            sequence.salient[at : at + size] = True
            announced = at - 1 + _UNANNOUNCED_TOKENS
            sequence.weights[at - 1 : announced] = 0.0
            sequence.weights[announced : at + size - 1] = COPY_WEIGHT
            sequence.sources[announced : at + size - 1] = np.arange(
                origin + _UNANNOUNCED_TOKENS, origin + size
            )
            at += size + rng.randrange(4, max(5, length // 10))

    def _needles(self, rng: random.Random) -> TrainingSequence:
        needles, traces = self._draw_needles(rng)
        body_share = rng.uniform(0.6, 0.9)
        definition_tokens = 14 * len(needles)
        body_tokens = max(32, int(self._length * body_share) - definition_tokens)
        body = self._encode_text(rng, body_tokens)[1]
        text, definitions = plant(body, [needle.line for needle in needles], rng)
        if not text.endswith("\n"):
            text += "\n"

        writer = _QuestionWriter(text)
        filler = self._encode_text(rng, self._length // 4)[1].splitlines(keepends=True)
        while len(writer) < self._length * _CHARS_PER_TOKEN * 2:
            if traces and rng.random() < 0.3:
                writer.ask_trace(rng.choice(traces), needles, definitions)
            else:
                index = rng.randrange(len(needles))
                writer.ask(needles[index], definitions[index])
            if filler and rng.random() < 0.4:
                start = rng.randrange(len(filler))
                writer.write("".join(filler[start : start + rng.choice((1, 1, 2, 3))]))
        return self._annotate(writer, needles, definitions)

    def _draw_needles(self, rng: random.Random) -> tuple[list[Needle], list[list[int]]]:
        """Needles in random order, and traces: lists of indices to follow one after the other."""
        count = rng.randrange(2, max(3, min(_MOST_NEEDLES, self._length // _TOKENS_PER_NEEDLE)) + 1)
        keys = draw_keys(rng, self._text, count)
        if rng.random() < _TRACE_SHARE:
            return _chained_needles(rng, keys)
        formats = rng.sample(TRAINED_FORMATS, rng.randint(1, _FORMATS_PER_TEXT))
        needles = []
        for key in keys:
            word = rng.random() < _WORD_VALUE_SHARE
            value = (
                draw_key(rng, self._text) if word else draw_number(rng, rng.choice((4, 5, 5, 6)))
            )
            needles.append(Needle(rng.choice(formats), key, value))
        return needles, []

    def _annotate(
        self,
        writer: "_QuestionWriter",
        needles: list[Needle],
        definitions: list[tuple[int, int]],
    ) -> TrainingSequence:
        """Encodes the written text and marks what is salient, unpredictable or to be recalled."""
        encoding = self._tokenizer.encode(writer.text)
        count = self._length + 1
        tokens = np.array(encoding.ids[:count], dtype=np.int64)
        starts = np.array([start for start, _ in encoding.offsets[:count]])
        weights = np.full(self._length, TEXT_WEIGHT, np.float32)
        sources = np.full(self._length, NO_SOURCE, np.int64)
        salient = np.zeros(count, bool)

        def token_range(span: tuple[int, int]) -> tuple[int, int]:
            first, end = np.searchsorted(starts, span)
            return int(first), int(end)

        for span in (*definitions, *writer.questions):
            first, end = token_range(span)
            salient[first:end] = True
            weights[max(0, first - 1) : max(0, end - 1)] = 0.0
        for answer, origin in writer.answers:
            first, end = token_range(answer)
            from_first, from_end = token_range(origin)
            if end > first and np.array_equal(tokens[first:end], tokens[from_first:from_end]):
                weights[first - 1 : end - 1] = ANSWER_WEIGHT
                sources[first - 1 : end - 1] = np.arange(from_first, from_end)
        for arrow in writer.arrows:
            first, end = token_range(arrow)
            weights[first - 1 : max(first - 1, end - 1)] = ANSWER_WEIGHT
        return TrainingSequence(tokens, weights, sources, salient[: self._length])


class _QuestionWriter:
    """Appends questions with their answers to a text and keeps the spans of both."""

    def __init__(self, text: str) -> None:
        self._pieces = [text]
        self._length = len(text)
        self.questions: list[tuple[int, int]] = []
        self.answers: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self.arrows: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self._length

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def write(self, piece: str) -> tuple[int, int]:
        start = self._length
        self._pieces.append(piece)
        self._length += len(piece)
        return start, self._length

    def ask(self, needle: Needle, definition: tuple[int, int]) -> None:
        """Writes a question and its answer on a line of its own."""
        answer = needle.line_format.answer(needle.key, needle.value)
        question, _ = self.write(needle.line_format.question(needle.key))
        span = self.write(answer)
        self.questions.append((question, span[1]))
        self.answers.append((span, (definition[1] - len(answer), definition[1])))
        self.write("\n")

    def ask_trace(
        self, trace: list[int], needles: list[Needle], definitions: list[tuple[int, int]]
    ) -> None:
        """Writes a trace: the first key, then every value with an arrow before it."""
        first = needles[trace[0]]
        start, _ = self.write(f"{first.line_format.opening}{first.key}{TRACE_ARROW}")
        for step, index in enumerate(trace):
            if step > 0:
                self.arrows.append(self.write(TRACE_ARROW))
            needle, definition = needles[index], definitions[index]
            closing = len(needle.line_format.closing)
            value_end = definition[1] - closing
            last = step == len(trace) - 1
            span = self.write(needle.value + (needle.line_format.closing if last else ""))
            origin_end = definition[1] if last else value_end
            self.answers.append((span, (value_end - len(needle.value), origin_end)))
        self.questions.append((start, self._length))
        self.write("\n")


def _chained_needles(rng: random.Random, keys: list[str]) -> tuple[list[Needle], list[list[int]]]:
    """Needles in the assignment format whose values are other keys or, at the end, numbers."""
    line_format = TRAINED_FORMATS[0]
    order = list(range(len(keys)))
    rng.shuffle(order)
    needles: list[Needle | None] = [None] * len(keys)
    traces: list[list[int]] = []
    while order:
        size = min(len(order), rng.choice((1, 2, 2, 3)))
        trace, order = order[:size], order[size:]
        values = [keys[index] for index in trace[1:]] + [draw_number(rng, rng.choice((4, 5, 6)))]
        for index, value in zip(trace, values, strict=True):
            needles[index] = Needle(line_format, keys[index], value)
        traces.append(trace)
    return [needle for needle in needles if needle is not None], traces
