"""Measures decode steps of vLLM and transformers on a real model, in place and without NearKV.

One engine decodes, and each turn of a few steps attends in the other way: in its own kernel, or in
NearKV's on the same K and V. Everything else of a step is the same, so the ratio is what a user
gains. The engine's threads are its own, as it sets them up.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import Context, Skipped
from bench.contender import Contender
from bench.engines.found import vllm_environment
from nearkv.doctor import cpu_count
from nearkv.real_models import ModelError, fetch_model
from nearkv.results import Goal, Result, Samples

_WORKERS = Path(__file__).parent / "engines"
_BLOCK_TOKENS = 32
_TURN_STEPS = 4
# Computing this model in bfloat16 instead of float32 moves its four best log-probabilities by up to
# 0.43 (transformers, 600 tokens of the document).
_APART_NATS = 0.5


@dataclass(frozen=True)
class _Batch:
    """Requests of one length, and what the project wants of NearKV beside the engine's own."""

    requests: int
    tokens: int
    goal: float


_ALL_CORES = [_Batch(1, 7000, 1.35), _Batch(4, 7000, 1.7), _Batch(8, 7000, 1.9), _Batch(16, 500, 1)]
_ONE_THREAD = [_Batch(4, 7000, 2.2)]
_TRANSFORMERS = [_Batch(1, 7000, 1.5), _Batch(4, 7000, 1.5)]
_TINY = [_Batch(2, 200, 1)]


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
    worker = _WORKERS / "transformers_decode_worker.py"
    command = [sys.executable, "-P", str(worker), json.dumps(question)]
    path = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    context.progress(f"starting transformers with {threads} threads")
    with Contender("transformers", command, path) as engine:
        for batch in _TINY if context.tiny else _TRANSFORMERS:
            yield _measured(context, engine, "transformers", batch, threads, turns)
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
        }
        worker = _WORKERS / "vllm_decode_worker.py"
        command = [str(environment.python), str(worker), json.dumps(question)]
        with Contender("vLLM", command, environment.variables) as engine:
            for batch in batches:
                yield _measured(context, engine, "vllm", batch, threads, turns)
            yield Result(
                name=f"decode/plain_read_threads{threads}",
                value=engine.order("read {}")["gb_per_s"],
                unit="GB/s",
            )
            if threads == max(teams):
                yield _answered(context, engine)


def _measured(
    context: Context, engine: Contender, name: str, batch: _Batch, threads: int, turns: int
) -> Result:
    what = f"{batch.requests} x {batch.tokens} tokens, {threads} threads"
    context.progress(f"{what}: computing the prompts")
    steps = 2 * turns * _TURN_STEPS
    requests = {"requests": batch.requests, "tokens": batch.tokens, "steps": steps}
    engine.order(f"fill {json.dumps(requests)}")
    context.progress(f"{what}: decoding")
    told = engine.order(f"steps {json.dumps({'count': _TURN_STEPS, 'turns': turns})}")
    own, near = (Samples(tuple(told[way])) for way in ("own", "near"))
    return Result.of_samples(
        f"decode/{name}_{batch.requests}x{batch.tokens}_threads{threads}",
        near.per_second(1),
        "steps/s",
        peer=f"{engine.title}'s own attention",
        beside=own.per_second(1),
        goal=Goal(">=", batch.goal, of="ratio"),
        extra={
            "step_ms": near.median * 1e3,
            "own_step_ms": own.median * 1e3,
            "kv_bytes_per_step": told["kv_bytes"],
            "steps": len(near.readings),
        },
    )


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
