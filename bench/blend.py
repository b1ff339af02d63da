"""Measures what it costs to put known chunks of text into a prompt in any order.

The shipped model in float32; chunks of its document, shuffled, each with a needle inside, and one
across each border. Beside it: a full prefill, and reuse of the first chunk alone.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import DynamicCache

from bench import Context
from bench.timing import interleave
from nearkv.blend import ChunkBlender, Rule
from nearkv.demo.prompt import Needle, draw_needle, read_document
from nearkv.demo.runs import load_model
from nearkv.results import Result, Samples
from nearkv.store import ObjectStore

_MODELS = Path(__file__).parents[1] / "engine_integration" / "models"
_TAIL_TOKENS = 64
_STORE = "cpu:?memory=256MiB"


@dataclass(frozen=True)
class ChunkedPrompt:
    """Chunks, and what the text goes on with behind the last one."""

    chunks: list[list[int]]
    tail: list[int]
    needles: dict[str, list[Needle]]
    """Those inside a chunk, and those across the border of two."""

    @property
    def tokens(self) -> list[int]:
        return list(chain.from_iterable(self.chunks))


@dataclass
class PrefillQuality:
    """Of one way to prefill, over all prompts."""

    found: dict[str, int] = field(default_factory=lambda: {"inside": 0, "across": 0})
    losses: list[float] = field(default_factory=list)
    divergences: list[float] = field(default_factory=list)


Prefill = Callable[[ChunkedPrompt], Any]
"""Makes a cache of a prompt's chunks."""


def run(context: Context) -> Iterator[Result]:
    """Yields what each way to prefill recalls and predicts, then how long it takes."""
    model, tokenizer = load_model(_MODELS / "recall_3m", "float32")
    text = _Text(tokenizer)
    prompts, chunks, chunk_tokens = (1, 3, 64) if context.tiny else (6, 8, 512)
    if context.long:
        prompts = 24
    drawn = [text.prompt(seed, chunks, chunk_tokens) for seed in range(prompts)]
    ratios = (0.15,) if context.tiny else (0.05, 0.10, 0.15, 0.30)
    with ObjectStore.create(_STORE) as store:
        blender = ChunkBlender(model, store)
        ways: dict[str, Prefill] = {"full": partial(_prefill, model)}
        ways["ratio_0"] = partial(_blend, blender, ratio=0.0)
        for rule in Rule:
            for ratio in ratios:
                name = f"{rule.value}_{round(100 * ratio)}"
                ways[name] = partial(_blend, blender, ratio=ratio, rule=rule)
        ways["ratio_100"] = partial(_blend, blender, ratio=1.0)
        yield from _quality(context, model, tokenizer, drawn, ways)
        yield from _times(context, model, tokenizer, drawn[0], ways)


def _prefill(model: Any, prompt: ChunkedPrompt) -> Any:
    cache = DynamicCache()
    model.get_decoder()(torch.tensor([prompt.tokens]), past_key_values=cache)
    return cache


def _blend(blender: ChunkBlender, prompt: ChunkedPrompt, **options: Any) -> Any:
    return blender.blend(prompt.chunks, **options).cache


class _Text:
    """The document, from which prompts are drawn."""

    def __init__(self, tokenizer: Any) -> None:
        self._encode = lambda text: tokenizer(text, add_special_tokens=False).input_ids
        self._text = read_document(_MODELS / "documents" / "postgresql-high-availability.txt")
        self._lines = [self._encode(line) for line in self._text.splitlines(keepends=True)]

    def prompt(self, seed: int, count: int, chunk_tokens: int) -> ChunkedPrompt:
        """`count` chunks of about so many tokens, from anywhere, in random order."""
        rng = random.Random(seed)
        pieces = self._pieces(chunk_tokens)
        drawn = rng.sample(range(len(pieces) - 1), count)
        inside, across = (
            [draw_needle(self._text, 1000 * seed + place + i) for i in range(count)]
            for place in (0, 500)
        )
        chunks = [
            self._plant(pieces[piece], needle, rng)
            for piece, needle in zip(drawn, inside, strict=True)
        ]
        # Of a needle across a border the first digits end a chunk, and the others begin the next.
        across = across[: count - 1]
        for number, needle in enumerate(across):
            digits = rng.randrange(1, len(needle.value))
            chunks[number] += self._encode(f"{needle.question}{needle.value[:digits]}")
            rest = self._encode(f"{needle.value[digits:]};\n")
            chunks[number + 1] = rest + chunks[number + 1]
        tail = list(chain.from_iterable(pieces[drawn[-1] + 1]))[:_TAIL_TOKENS]
        return ChunkedPrompt(chunks, tail, {"inside": inside, "across": across})

    def _pieces(self, chunk_tokens: int) -> list[list[list[int]]]:
        """Runs of whole lines."""
        pieces: list[list[list[int]]] = [[]]
        for line in self._lines:
            if sum(map(len, pieces[-1])) >= chunk_tokens:
                pieces.append([])
            pieces[-1].append(line)
        return pieces

    def _plant(self, lines: list[list[int]], needle: Needle, rng: random.Random) -> list[int]:
        at = rng.randrange(len(lines))
        planted = [*lines[:at], self._encode(f"{needle.line}\n"), *lines[at:]]
        return list(chain.from_iterable(planted))


@torch.no_grad()
def _quality(
    context: Context,
    model: Any,
    tokenizer: Any,
    prompts: list[ChunkedPrompt],
    ways: dict[str, Prefill],
) -> Iterator[Result]:
    qualities = {name: PrefillQuality() for name in ways}
    for number, prompt in enumerate(prompts):
        context.progress(f"prompt {number + 1} of {len(prompts)}, {len(prompt.tokens)} tokens")
        exact = None
        for name, way in ways.items():
            cache, quality = way(prompt), qualities[name]
            tail = torch.tensor(prompt.tail)
            said = model(tail[None], past_key_values=cache).logits[0].log_softmax(-1)
            exact = said if exact is None else exact
            divergence = F.kl_div(said, exact, log_target=True, reduction="none").sum(-1).mean()
            quality.divergences.append(float(divergence))
            quality.losses.append(float(F.nll_loss(said[:-1], tail[1:])))
            for place, needles in prompt.needles.items():
                quality.found[place] += sum(
                    _answers(model, tokenizer, cache, len(prompt.tokens), needle)
                    for needle in needles
                )
    extra = {"prompts": len(prompts), "tokens": len(prompts[0].tokens)}
    extra["chunks"] = len(prompts[0].chunks)
    full = qualities["full"]
    for name, quality in qualities.items():
        beside = {} if name == "full" else {"peer": "full prefill"}

        def result(
            what: str, value: float, unit: str, peer: float | None, name=name, beside=beside
        ) -> Result:
            against = beside | {"peer_value": peer} if beside and peer else {}
            return Result(
                name=f"blend/{name}/{what}", value=value, unit=unit, extra=extra, **against
            )

        for place, found in quality.found.items():
            asked = sum(len(prompt.needles[place]) for prompt in prompts)
            yield result(f"recall_{place}", found / asked, "of needles", full.found[place] / asked)
        mean = sum(quality.losses) / len(prompts)
        yield result("loss", mean, "nats a token", sum(full.losses) / len(prompts))
        if name != "full":
            mean = sum(quality.divergences) / len(prompts)
            yield result("divergence", mean, "nats a token", None)


def _answers(model: Any, tokenizer: Any, cache: Any, tokens: int, needle: Needle) -> bool:
    """Whether greedy decoding of a question behind the chunks gives the needle's value.

    All of its tokens at once: it does if, behind the right ones so far, each is the likeliest.
    """
    cache.crop(tokens - cache.get_seq_length())
    asked, answer = (
        tokenizer(text, add_special_tokens=False).input_ids
        for text in (f"\n{needle.question}", f"{needle.value};")
    )
    said = model(torch.tensor([asked + answer[:-1]]), past_key_values=cache).logits[0].argmax(-1)
    return said[len(asked) - 1 :].tolist() == answer


@torch.no_grad()
def _times(
    context: Context, model: Any, tokenizer: Any, prompt: ChunkedPrompt, ways: dict[str, Prefill]
) -> Iterator[Result]:
    question = tokenizer(f"\n{prompt.needles['inside'][0].question}", add_special_tokens=False)
    asked = torch.tensor([question.input_ids])
    context.progress("time to the first token, in turns")

    def first_token(way: Prefill) -> None:
        model(asked, past_key_values=way(prompt), logits_to_keep=1)

    repeat = 1 if context.tiny else 21 if context.long else 7
    calls = {name: partial(first_token, way) for name, way in ways.items()}
    cpu_s = _cpu_times(calls, repeat=min(repeat, 3))
    rates = {
        name: samples.per_second(1)
        for name, samples in zip(
            calls, interleave(list(calls.values()), repeat=repeat), strict=True
        )
    }
    extra = {"tokens": len(prompt.tokens), "chunks": len(prompt.chunks)}
    for name in ways:
        for peer, title in (("full", "computing all"), ("ratio_100", "the first chunk reused")):
            if name in ("full", peer):
                continue
            for what, unit, samples in (("first_tokens", "1/s", rates), ("cpu", "s", cpu_s)):
                yield Result.of_samples(
                    f"blend/{name}/{what}_beside_{peer}",
                    samples[name],
                    unit,
                    beside=samples[peer],
                    peer=title,
                    extra=extra,
                )


def _cpu_times(calls: dict[str, Callable[[], None]], repeat: int) -> dict[str, Samples]:
    """Seconds of processors that each call takes, in turns: other jobs change them little."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            began_s = time.process_time()
            call()
            taken[name].append(time.process_time() - began_s)
    return {name: Samples(tuple(seconds)) for name, seconds in taken.items()}
