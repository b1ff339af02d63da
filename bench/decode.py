"""Measures decode steps of vLLM and transformers on a real model, in place and without NearKV.

One engine decodes, and each turn of a few steps attends in the other way: in its own kernel, or in
NearKV's on the same K and V. Everything else of a step is the same, so the ratio is what a user
gains. In further turns nothing attends, which leaves of a step what no kernel can make less.
OpenVINO GenAI and llama.cpp, which a user might run instead, decode the same prompts in turns with
them: with weights of four bits where vLLM's have sixteen, and with K and V as each keeps them by
itself. So do further engines of vLLM in which NearKV reads less than all of K and V, by codes. Each
engine sets its threads up itself.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import Context, Skipped
from bench.contender import Contender, ContenderError
from bench.decode_model import with_what_they_tell
from bench.engines.environment import Environment, EnvironmentMissing, make_environment
from bench.engines.found import start_worker, vllm_environment
from bench.turns import Way, take_turns
from nearkv.doctor import cpu_count
from nearkv.real_models import ModelError, fetch_gguf, fetch_model
from nearkv.results import Goal, Result

_BLOCK_TOKENS = 32
_CODED_BLOCK_TOKENS = 128
_BY_CODES = {
    "bounded": {"mode": "bounded", "error": 0.05, "if_faster": False},
    "tail": {"mode": "tail", "top_k": 64, "if_faster": False},
}
_LEAST_TOKENS = 2048  # Fewer are not read by codes.
_TURN_STEPS = 4
# For so long OpenMP's threads may spin after their work, on the next engine's cores.
_PAUSE_S = 0.25
# Computing this model in bfloat16 instead of float32 moves its four best log-probabilities by up to
# 0.43 (transformers, 600 tokens of the document).
_APART_NATS = 0.5


@dataclass(frozen=True)
class _Batch:
    """Requests of one length, and how many times as fast as others the project wants NearKV."""

    requests: int
    tokens: int
    goal: float
    """Beside the engine's own attention."""
    instead_goal: float | None = None
    """Beside what a user might run instead."""
    bounded_goal: float | None = None
    """Of attention that reads a part, beside the engine's own."""


_ALL_CORES = [
    _Batch(1, 7000, 1.35, bounded_goal=1.6),
    _Batch(4, 7000, 1.7, 1.5, bounded_goal=2.8),
    _Batch(8, 7000, 1.9, 1.5, bounded_goal=4),
    _Batch(16, 500, 1),
]
_ONE_THREAD = [_Batch(4, 7000, 2.2)]
_TRANSFORMERS = [_Batch(1, 7000, 1.5), _Batch(4, 7000, 1.5)]
_TINY = [_Batch(2, 200, 1)]


@dataclass(frozen=True)
class _Peer:
    """An engine that a user might run instead of vLLM or transformers."""

    title: str
    name: str
    """Its worker and its results are named after it."""
    environment: str
    is_long: bool = False
    """It takes minutes to install."""


_INSTEAD = [
    _Peer("OpenVINO GenAI", "openvino", "openvino"),
    _Peer("llama.cpp", "llama_cpp", "llama_cpp_native", is_long=True),
]


@dataclass(frozen=True)
class _Others:
    """Engines that take turns with one."""

    instead: list[tuple[_Peer, Contender]]
    by_codes: dict[str, Contender]
    """By mode."""


def run(context: Context) -> Iterator[Result]:
    """Yields decode steps a second by batch and length, each beside the engine's own attention."""
    try:
        model = fetch_model("smollm2")
    except ModelError as error:
        raise Skipped(f"no real model: {error}") from error
    turns = 2 if context.tiny else 16 if context.long else 8
    yield from _transformers(context, model, turns)
    yield from _vllm(context, model, turns)


def _transformers(context: Context, model: Path, turns: int) -> Iterator[Result]:
    """A static cache's steps."""
    threads = cpu_count()
    question = {"model": str(model), "threads": threads, "dtype": "bfloat16"}
    context.progress(f"starting transformers with {threads} threads")
    here = Environment(Path(sys.executable))
    with start_worker("transformers", "transformers_decode", here, question) as engine:
        read_gb_per_s = engine.order("read {}")["gb_per_s"]
        batches = _TINY if context.tiny else _TRANSFORMERS
        measure = partial(
            _measured, context, engine, _Others([], {}), threads, turns, read_gb_per_s
        )
        yield from with_what_they_tell("transformers", threads, map(measure, batches))
        compared = {"requests": 1, "tokens": 200 if context.tiny else 3000, "steps": 1}
        engine.order(f"fill {json.dumps(compared)}")
        yield Result(
            name="decode/transformers_log_probability_difference",
            value=engine.order("compare {}")["difference"],
            unit="nats",
            goal=Goal("<=", _APART_NATS),
        )


def _vllm(context: Context, model: Path, turns: int) -> Iterator[Result]:
    environment = vllm_environment()
    teams = {cpu_count(): _TINY if context.tiny else _ALL_CORES}
    if not context.tiny:
        teams[1] = _ONE_THREAD
    for threads, batches in teams.items():
        context.progress(f"starting vLLM with {threads} threads")
        question = {
            "model": str(model),
            "threads": threads,
            "tokens": max(batch.requests * (batch.tokens + 600) for batch in batches),
            "block_tokens": _BLOCK_TOKENS,
            "attention": {},
        }
        with ExitStack() as engines:
            engine = engines.enter_context(
                start_worker("vLLM", "vllm_decode", environment, question)
            )
            others = _Others([], {})
            if threads == max(teams):
                for mode, attention in _BY_CODES.items():
                    asked = question | {"block_tokens": _CODED_BLOCK_TOKENS, "attention": attention}
                    other = start_worker(f"vLLM, {mode}", "vllm_decode", environment, asked)
                    others.by_codes[mode] = engines.enter_context(other)
                for peer, other in _instead(context, threads):
                    others.instead.append((peer, engines.enter_context(other)))
            read_gb_per_s = engine.order("read {}")["gb_per_s"]
            yield Result(
                name=f"decode/plain_read_threads{threads}", value=read_gb_per_s, unit="GB/s"
            )
            measure = partial(_measured, context, engine, others, threads, turns, read_gb_per_s)
            yield from with_what_they_tell("vllm", threads, map(measure, batches))
            if threads == max(teams):
                yield _answered(context, engine)


def _instead(context: Context, threads: int) -> Iterator[tuple[_Peer, Contender]]:
    """Engines that a user might run instead; a line says which cannot be had, and why."""
    for peer in _INSTEAD:
        if peer.is_long and not context.long:
            context.progress(f"without {peer.title}, which takes minutes to build: --long has it")
            continue
        context.progress(f"starting {peer.title} with {threads} threads")
        try:
            environment = make_environment(peer.environment)
            question = {"model": str(fetch_gguf("smollm2")), "threads": threads}
            engine = start_worker(peer.title, f"{peer.name}_decode", environment, question)
        except (EnvironmentMissing, ModelError, ContenderError) as error:
            context.progress(f"without {peer.title}: {error}")
            continue
        yield peer, engine


def _measured(
    context: Context,
    engine: Contender,
    others: _Others,
    threads: int,
    turns: int,
    read_gb_per_s: float,
    batch: _Batch,
) -> Iterator[Result]:
    """An engine's steps in place, beside its own attention and beside engines run instead.

    `rest_ms` is a step without attention, `expected_ms` one whose attention takes as long as a
    plain read of K and V; `gb_per_s` and `own_gb_per_s` are what attention read them at, and
    `grown_bytes` is what the process grows by when it first attends to the batch in place.
    """
    what = f"{batch.requests} x {batch.tokens} tokens, {threads} threads"
    steps = (3 * turns + 2) * _TURN_STEPS
    requests = {"requests": batch.requests, "tokens": batch.tokens, "steps": steps}
    is_long = batch.tokens >= _LEAST_TOKENS
    by_codes = others.by_codes if is_long else {}
    for each in engine, *by_codes.values(), *(other for _, other in others.instead):
        context.progress(f"{what}: {each.title} computes the prompts")
        way = "near" if each in by_codes.values() else "own"
        each.order(f"fill {json.dumps(requests | {'way': way})}")
    context.progress(f"{what}: decoding")
    near, own, rest = (Way(engine, attention) for attention in ("near", "own", "none"))
    ways_instead = {peer: Way(other, "own") for peer, other in others.instead}
    ways_by_codes = {mode: Way(other, "near") for mode, other in by_codes.items()}
    grown_bytes = _grown_bytes(engine)
    held = [engine.order("held {}")["kv_bytes"]]
    ways = [own, near, rest, *ways_by_codes.values(), *ways_instead.values()]
    readings = take_turns(ways, turns, _TURN_STEPS, _PAUSE_S)
    held.append(engine.order("held {}")["kv_bytes"])
    kv_bytes = sum(held) // 2
    near_s, own_s, rest_s = (readings[way].median for way in (near, own, rest))
    extra = {
        "step_ms": near_s * 1e3,
        "own_step_ms": own_s * 1e3,
        "rest_ms": rest_s * 1e3,
        "expected_ms": rest_s * 1e3 + kv_bytes / read_gb_per_s / 1e6,
        "kv_bytes_per_step": kv_bytes,
        "grown_bytes": grown_bytes,
        "steps": len(readings[near].readings),
    }
    for rate, step_s in ("gb_per_s", near_s), ("own_gb_per_s", own_s):
        if step_s > rest_s:
            extra[rate] = kv_bytes / (step_s - rest_s) / 1e9
    name = f"decode/{engine.title.lower()}_{batch.requests}x{batch.tokens}_threads{threads}"
    yield Result.of_samples(
        name,
        readings[near].per_second(1),
        "steps/s",
        peer=f"{engine.title}'s own attention",
        beside=readings[own].per_second(1),
        goal=Goal(">=", batch.goal, of="ratio"),
        extra=extra,
    )
    for mode, way in ways_by_codes.items():
        goal = batch.bounded_goal if mode == "bounded" else None
        yield Result.of_samples(
            f"{name}_{mode}",
            readings[way].per_second(1),
            "steps/s",
            peer=f"{engine.title}'s own attention",
            beside=readings[own].per_second(1),
            goal=Goal(">=", goal, of="ratio") if goal else None,
            extra={
                "step_ms": readings[way].median * 1e3,
                "read_share": by_codes[mode].order("used {}")["read_share"],
            },
        )
    for peer, way in ways_instead.items():
        goal = batch.instead_goal
        yield Result.of_samples(
            f"{name}_beside_{peer.name}",
            readings[near].per_second(1),
            "steps/s",
            peer=peer.title,
            beside=readings[way].per_second(1),
            goal=Goal(">=", goal, of="ratio") if goal else None,
            extra={"step_ms": near_s * 1e3, "peer_step_ms": readings[way].median * 1e3},
        )


def _grown_bytes(engine: Contender) -> int:
    """What the process grows by when it attends in place after its own attention did."""
    resident = []
    for attention in "own", "near":
        take_turns([Way(engine, attention)], 1, _TURN_STEPS)
        resident.append(engine.order("held {}")["resident_bytes"])
    return max(0, resident[1] - resident[0])


def _answered(context: Context, engine: Contender) -> Result:
    """How far log-probabilities of greedy decoding are apart, and how many tokens agree."""
    tokens, new_tokens = (200, 8) if context.tiny else (3000, 64)
    context.progress(f"answering one prompt of {tokens} tokens in both ways")
    told = engine.order(f"answer {json.dumps({'tokens': tokens, 'new_tokens': new_tokens})}")
    pairs = zip(told["own"], told["near"], strict=True)
    same = next((i for i, (own, near) in enumerate(pairs) if own != near), new_tokens)
    return Result(
        name="decode/vllm_log_probability_difference",
        value=told["difference"],
        unit="nats",
        goal=Goal("<=", _APART_NATS),
        extra={"same_tokens": same, "new_tokens": new_tokens, "prompt_tokens": tokens},
    )
