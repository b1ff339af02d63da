"""Measures vLLM with NearKV's scheduling policies, beside vLLM's own order.

Real engines on the CPU, the shipped model; each serves the same load in turns with the others. What
policies do to large loads is simulated: bench traces.
"""

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from bench import Context
from bench.contender import Contender, ContenderError
from bench.engines.environment import ROOT
from bench.engines.found import vllm_environment
from nearkv.results import Result, Samples

_MODEL = ROOT / "engine_integration" / "models" / "recall_3m"
_TEXT = ROOT / "engine_integration/models/documents/postgresql-high-availability.txt"
_WORKER = Path(__file__).parent / "engines" / "sched_worker.py"
_BLOCK_TOKENS = 64
_SCHEDULER = "nearkv.vllm.scheduler.NearKVScheduler"


@dataclass(frozen=True)
class Load:
    """Requests, the engine that serves them, and the policy that is to serve them better."""

    name: str
    asks: list[dict[str, Any]]
    options: dict[str, Any]
    policy: dict[str, Any]
    judged: list[int]
    """Whose time to the first token counts."""


def run(context: Context) -> Iterator[Result]:
    """Yields tokens found cached, mean times to the first token, and of the whole load."""
    environment = vllm_environment()
    from transformers import AutoTokenizer

    text = AutoTokenizer.from_pretrained(_MODEL)(_TEXT.read_text(encoding="utf-8")).input_ids
    repeats = 1 if context.tiny else 9 if context.long else 5
    for load in (_shared_prefixes(text, context.tiny), _flood(text, context.tiny)):
        with ExitStack() as stack:
            engines = {}
            for name, options in _engines(load).items():
                context.progress(f"{load.name}: starting vLLM, {name}")
                question = {"model": str(_MODEL), "options": options}
                command = [str(environment.python), str(_WORKER), json.dumps(question)]
                engine = Contender(f"vLLM, {name}", command, environment.variables)
                engines[name] = stack.enter_context(engine)
            answers: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
            for repeat in range(repeats):
                context.progress(f"{load.name}: {len(load.asks)} requests, {repeat + 1}")
                for name, engine in engines.items():
                    answers[name].append(engine.order(f"load {json.dumps(load.asks)}"))
        yield from _results(load, answers)


def _engines(load: Load) -> dict[str, dict[str, Any]]:
    policy = {"scheduler_cls": _SCHEDULER, "additional_config": {"nearkv_scheduler": load.policy}}
    return {"fcfs": load.options, load.policy["policy"]: load.options | policy}


def _shared_prefixes(text: list[int], is_tiny: bool) -> Load:
    """Questions about documents, in random order; the cache has room for fewer documents."""
    documents, questions, tokens = (3, 2, 128) if is_tiny else (6, 6, 1024)
    order = [document for document in range(documents) for _ in range(questions)]
    random.Random(1).shuffle(order)
    asks = [
        _ask(text[document * tokens :][:tokens] + text[-97 * number - 64 :][:32], most=4)
        for number, document in enumerate(order)
    ]
    blocks = 2 * (tokens + 64) // _BLOCK_TOKENS + 4
    options = {"num_gpu_blocks_override": blocks, "max_num_seqs": 2, "max_model_len": tokens + 128}
    everyone = list(range(len(asks)))
    return Load("shared_prefixes", asks, options, {"policy": "k_lpm", "k": 8}, everyone)


def _flood(text: list[int], is_tiny: bool) -> Load:
    """One tenant asks for much at once; another, a little later, for little."""
    many, few, tokens = (6, 2, 64) if is_tiny else (40, 5, 384)
    asks = [
        _ask(text[number * 131 :][:tokens], most=16, nearkv_tenant="flood")
        for number in range(many)
    ]
    asks += [
        _ask(text[7000 + number * 131 :][:tokens], most=16, at_step=5, nearkv_tenant="other")
        for number in range(few)
    ]
    options = {"max_num_seqs": 4, "max_model_len": 1024, "enable_prefix_caching": False}
    policy = {"policy": "fair_share", "quantum_tokens": 2 * tokens}
    return Load("flood", asks, options, policy, list(range(many, many + few)))


def _ask(tokens: list[int], most: int, at_step: int = 0, **extra: Any) -> dict[str, Any]:
    return {"tokens": tokens, "most": most, "at_step": at_step, "extra": extra}


def _results(load: Load, answers: dict[str, list[dict[str, Any]]]) -> Iterator[Result]:
    name = load.policy["policy"]
    own, theirs = answers[name], answers["fcfs"]
    # In bfloat16 batches round differently, and near ties break; lengths are the same.
    if [len(told) for told in own[0]["tokens"]] != [len(told) for told in theirs[0]["tokens"]]:
        raise ContenderError(f"{load.name}: engines differ in what they generated")
    asked = sum(len(ask["tokens"]) for ask in load.asks)
    extra = {
        "model": _MODEL.name,
        "requests": len(load.asks),
        "judged": len(load.judged),
        "preempted": [told["preempted"] for told in own],
        "preempted_fcfs": [told["preempted"] for told in theirs],
    }

    def result(what: str, unit: str, of: Any) -> Result:
        mine, peers = (Samples(tuple(map(of, told))) for told in (own, theirs))
        beside = {"beside": peers, "peer": "vLLM's fcfs"} if peers.median else {}
        full = f"sched/{load.name}/{name}/{what}"
        return Result.of_samples(full, mine, unit, device="cpu:", extra=extra, **beside)

    if load.options.get("enable_prefix_caching", True):
        yield result("hits", "of tokens", lambda told: sum(told["cached"]) / asked)
    yield result(
        "mean_ttft", "s", lambda told: mean(told["ttft_s"][number] for number in load.judged)
    )
    if len(load.judged) < len(load.asks):
        yield result("mean_ttft_of_all", "s", lambda told: mean(told["ttft_s"]))
    yield result("rate", "requests/s", lambda told: len(load.asks) / told["seconds"])
