"""Measures how accurate attention and search by codes are on real models, and what they read.

Keys, values and queries of SmolLM2 and Gemma 3 are captured while they read texts of Debian and
Python packages, once, and go to the device under test in pages with codes, whose gains come of
another text. Answers are compared with attention in float64 over the same K and V in bf16. Other
ways to read or keep less of K and V, written anew from what their makers describe, get the same
queries. Then the models predict the last tokens of each text with their attention replaced, and
answer what is hidden in long texts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import exp
from statistics import mean
from typing import Any

from bench import Context, Skipped, each_part
from bench.real.caches import CACHES
from bench.real.captures import SMOLLM2, CaptureSource, LayerCapture, Subject, joined
from bench.real.measures import (
    ERRORS,
    SEARCH_Z16,
    SEARCHED_TOKENS,
    TAIL,
    TAIL_TOKENS,
    Measures,
)
from bench.real.predictions import REFERENCE, Coded, Kept, Predictions
from bench.real.tally import rms
from bench.real.tasks import TASKS, Task
from bench.real.texts import JUDGED, Text, TextMissing
from nearkv.core import AttendMode
from nearkv.real_models import ModelError, fetch_model
from nearkv.results import Goal, Result

_GEMMA3 = Subject("gemma3", (4096, 8192, 16384), 176)
_GEMMA3_LONG = Subject("gemma3", (8192, 16384, 32768), 176)

_MISSES = Goal("<=", 0.003)
_FAR_MISSES = Goal("<=", 0)
_BYTES = {
    ("smollm2", "error_10"): 0.08,
    ("smollm2", "error_05"): 0.10,
    ("gemma3", "error_10"): 0.07,
    ("gemma3", "error_05"): 0.09,
}
"""Goals by model and error."""
_K_BYTES = 0.4
_EQUAL = 0.999
_DIVERGENCE = 0.001
_PERPLEXITY = 1.005
_JOINED = "_joined"
_JOINED_DIM = 64
"""Layers of this head_dim are also measured two by two, as one of 128."""
_ANSWERING = 0.5
"""A task of which exact attention answers this share is one that the model can do."""


@dataclass(frozen=True)
class _Plan:
    """How much is measured of each text.

    `places`: queries of a layer that other methods get of each subject; the device gets all.
    """

    subjects: tuple[Subject, ...] = (SMOLLM2, _GEMMA3)
    places: tuple[int, ...] = (4, 24)
    texts: tuple[Text, ...] = JUDGED
    predicted_tokens: int = 32
    tasks: tuple[Task, ...] = TASKS
    task_tokens: int = 4096


_LONG = _Plan(
    (SMOLLM2, _GEMMA3, _GEMMA3_LONG), (24, 176, 32), predicted_tokens=64, task_tokens=8192
)
_TINY = _Plan(
    (Subject("smollm2", (2304,), 2, layers=2),), (1,), JUDGED[:1], 8, TASKS[2:3], task_tokens=2304
)


def run(context: Context) -> Iterator[Result]:
    """Yields the figures of one model after the other."""
    plan = _TINY if context.tiny else _LONG if context.long else _Plan()
    if context.model is not None:
        own = replace(plan.subjects[0], model=context.model.name)
        plan = replace(plan, subjects=(own,), places=plan.places[:1])
    yield from each_part(
        _measured(context, plan, subject, places)
        for subject, places in zip(plan.subjects, plan.places, strict=True)
    )


def _measured(context: Context, plan: _Plan, subject: Subject, places: int) -> Iterator[Result]:
    try:
        folder = context.model or fetch_model(subject.model)
    except ModelError as error:
        raise Skipped(f"{subject.name}: no real model: {error}") from error
    source = CaptureSource(subject, folder, context.progress)
    measures, of_joined = Measures(subject), Measures(subject, _JOINED)
    predictions: Predictions | None = None
    lacking = []
    try:
        for text in plan.texts:
            try:
                captures = source.layers_of(text)
                _measure(context, text, captures, places, measures)
                if captures[0].keys.shape[-1] == _JOINED_DIM:
                    _measure(context, text, joined(captures), places, of_joined)
                predictions = predictions or _predictions(context, plan, source)
                predictions.predict(text, _saying(context, subject.name, text.name))
            except TextMissing as missing:
                lacking.append(f"{subject.name}: {missing}")
        for task in plan.tasks if predictions else ():
            try:
                predictions.ask(task, plan.task_tokens, _saying(context, subject.name, task.kind))
            except TextMissing as missing:
                lacking.append(f"{subject.name}: {missing}")
    finally:
        for each in measures, of_joined:
            if each.searched:
                yield from _Figures(context, each).results()
        if predictions is not None:
            yield from _predicted(context, subject, predictions)
            yield from _answered(context, subject, plan.task_tokens, predictions)
    if lacking:
        raise Skipped(*lacking)


def _saying(context: Context, subject: str, text: str) -> Callable[[str], None]:
    return lambda what: context.progress(f"{subject}, {text}: {what}")


def _measure(
    context: Context, text: Text, captures: list[LayerCapture], places: int, measures: Measures
) -> None:
    measures.texts.append(text.name)
    for capture in captures:
        say = _saying(context, measures.name, text.name)
        measures.measure(capture, context.device, places, say)


def _predictions(context: Context, plan: _Plan, source: CaptureSource) -> Predictions:
    device, gains = context.device, source.gains
    ways = {REFERENCE: Kept(REFERENCE)}
    ways |= {
        name: Coded(device, gains, AttendMode.BOUNDED, error=error)
        for name, error in ERRORS.items()
    }
    ways[TAIL] = Coded(device, gains, AttendMode.TAIL, top_k=TAIL_TOKENS)
    ways |= {name: Kept(name) for name in CACHES}
    return Predictions(source, plan.predicted_tokens, ways)


class _Figures:
    """The results of one subject's measures."""

    def __init__(self, context: Context, measures: Measures) -> None:
        self._device = context.device
        self._measures = measures
        self._name = f"quality/{measures.name}"
        self._about = {"texts": measures.texts, "tokens": measures.subject.tokens}

    def results(self) -> Iterator[Result]:
        """The device's, then those of the methods beside it."""
        for name in ERRORS:
            yield from self._bounded(name)
        yield from self._tail()
        yield from self._search()
        for name in self._measures.methods:
            if name not in (*ERRORS, TAIL):
                yield self._other(name)

    def _bounded(self, name: str) -> Iterator[Result]:
        tally, error = self._measures.methods[name], ERRORS[name]
        extra = tally.summary() | {"dense_commands": self._measures.dense[name]}
        most = _BYTES.get((self._measures.subject.model + self._measures.form, name))
        goal = None if most is None else Goal("<=", most)
        yield self._result(f"{name}/bytes", tally.bytes, "of bf16 K and V", extra, goal)
        for what, limit, goal in (
            ("misses", error, _MISSES),
            ("misses_beyond_twice", 2 * error, _FAR_MISSES),
        ):
            missed, pairs = tally.beyond(limit), extra["pairs"]
            counts = {"missed": missed, "pairs": pairs}
            yield self._result(f"{name}/{what}", missed / pairs, "of pairs", counts, goal)
        claims = self._measures.claims[name]
        for what, groups in (("layer", claims.by_layer), ("tokens", claims.by_length)):
            if not groups:
                continue
            curve = {
                "plot": f"error of {self._measures.name}, as claimed, by {what}",
                "line": name,
                "x_label": what,
                "x": list(groups),
                "y": [rms(parts) for parts in groups.values()],
            }
            value = rms([part for parts in groups.values() for part in parts])
            unit = "of the claimed bound, rms"
            yield self._result(f"{name}/error_by_{what}", value, unit, {"curve": curve})

    def _tail(self) -> Iterator[Result]:
        tally = self._measures.methods[TAIL]
        extra = tally.summary()
        yield self._result(f"{TAIL}/bytes", tally.bytes, "of bf16 K and V", extra)
        for what in "median_error", "p99_error":
            yield self._result(f"{TAIL}/{what}", extra[what], "of |O|", extra)

    def _search(self) -> Iterator[Result]:
        measures, name = self._measures, f"statistical_{SEARCHED_TOKENS}"
        extra = {"pairs": measures.searched, "z": SEARCH_Z16 / 16}
        share = mean(measures.search_shares)
        yield self._result(f"{name}/bytes", share, "of bf16 K", extra, Goal("<=", _K_BYTES))
        equal = measures.found / measures.searched
        yield self._result(f"{name}/equal_to_full", equal, "of pairs", extra, Goal(">=", _EQUAL))

    def _other(self, name: str) -> Result:
        extra = self._measures.methods[name].summary()
        return self._result(f"beside/{name}", extra["median_error"], "of |O|, median", extra)

    def _result(
        self, name: str, value: float, unit: str, extra: dict[str, Any], goal: Goal | None = None
    ) -> Result:
        return Result(
            name=f"{self._name}/{name}",
            value=value,
            unit=unit,
            goal=goal,
            device=self._device,
            extra=self._about | extra,
        )


def _predicted(context: Context, subject: Subject, predictions: Predictions) -> Iterator[Result]:
    of_bf16 = predictions.predicted[REFERENCE]
    for name, way in predictions.predicted.items():
        if not way.losses:
            continue
        extra = {
            "tokens": len(way.divergences),
            "bytes": mean(way.bytes),
            "same_likeliest": mean(way.agreed),
        }
        yield Result(
            name=f"quality/{subject.name}/perplexity/{name}",
            value=exp(mean(way.losses)),
            unit="perplexity",
            peer=None if name == REFERENCE else "bf16",
            peer_value=None if name == REFERENCE else exp(mean(of_bf16.losses)),
            goal=Goal("<=", _PERPLEXITY, "ratio") if name in ERRORS else None,
            device=context.device,
            extra=extra,
        )
        if name != REFERENCE:
            yield Result(
                name=f"quality/{subject.name}/divergence/{name}",
                value=mean(way.divergences),
                unit="nats",
                goal=Goal("<=", _DIVERGENCE) if name in ERRORS else None,
                device=context.device,
                extra=extra,
            )


def _answered(
    context: Context, subject: Subject, tokens: int, predictions: Predictions
) -> Iterator[Result]:
    """Shares of the tasks of each kind that each way answers rightly."""
    for kind, exact in predictions.predicted[REFERENCE].answers.items():
        share = mean(exact)
        for name, way in predictions.predicted.items():
            is_goal = share >= _ANSWERING and name in ERRORS
            is_beside = name != REFERENCE and share > 0
            yield Result(
                name=f"quality/{subject.model}_{tokens // 1024}k/task_{kind}/{name}",
                value=mean(way.answers[kind]),
                unit="of answers right",
                peer="bf16" if is_beside else None,
                peer_value=share if is_beside else None,
                goal=Goal(">=", share) if is_goal else None,
                device=context.device,
                extra={"tokens": tokens, "tasks": len(exact)},
            )
