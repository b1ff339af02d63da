"""Measures the time to vLLM's first token, beside its own DRAM tier and recomputing.

Engines of the same model are asked the same prompts in turns, in the shapes of public benchmarks.
Before each prompt an engine has nothing in its own cache; what it finds it finds in its tier. Half
way through a shape the daemon is killed and started again: no other tier would have anything.
On the CPU platform vLLM's own tier has no worker: it has NearKVOffloadingSpec's.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import Context
from bench.contender import Contender, ContenderError
from bench.engines.found import vllm_environment
from bench.engines.serving import Daemon
from bench.engines.shapes import MODELS, SHAPES, Ask, WorkloadSizes, tokens_of_the_document
from nearkv.results import Goal, Result, Samples

_MODEL = MODELS / "recall_3m"
_WORKER = Path(__file__).parent / "engines" / "vllm_worker.py"
_POOL = "512MiB"
_AS_GOOD = Goal(">=", 1, of="ratio")
_DAEMON = Goal(">=", 0.9, of="ratio")
_HITS = Goal(">=", 0.5)


def run(context: Context) -> Iterator[Result]:
    """Yields, for each shape, first tokens a second of prompts whose beginning is known."""
    environment = vllm_environment()
    text = tokens_of_the_document(_MODEL)
    sizes = _sizes(context)
    # Each shape has contexts of its own, for engines remember those of the one before.
    shapes = {
        name: list(shape(text[number * 997 :] + text[: number * 997], sizes))
        for number, (name, shape) in enumerate(SHAPES.items())
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        daemon = stack.enter_context(Daemon(folder, size=_POOL))
        longest = max(len(ask.tokens) for asks in shapes.values() for ask in asks) + 64
        engines = {}
        for name, options in _options(folder, daemon).items():
            context.progress(f"starting vLLM, {name}")
            question = {"model": str(_MODEL), "max_tokens": longest, "options": options}
            command = [str(environment.python), str(_WORKER), json.dumps(question)]
            engine = Contender(f"vLLM, {name}", command, environment.variables)
            engines[name] = stack.enter_context(engine)
        for name, asks in shapes.items():
            answers = _ask_in_turns(context, name, engines, daemon, asks)
            yield from _results(name, asks, answers)


def _sizes(context: Context) -> WorkloadSizes:
    if context.tiny:
        return WorkloadSizes(context_tokens=256, question_tokens=32, contexts=2, repeats=1)
    tokens = 16384 if context.long else 4096
    return WorkloadSizes(context_tokens=tokens, question_tokens=64, contexts=3, repeats=4)


def _transfer(connector: str, **extra: Any) -> dict[str, Any]:
    config = {"kv_connector": connector, "kv_role": "kv_both"}
    return {"kv_transfer_config": config | {"kv_connector_extra_config": extra}}


def _options(folder: Path, daemon: Daemon) -> dict[str, dict[str, Any]]:
    """Of each engine, by its name in results."""
    dram = _transfer(
        "OffloadingConnector",
        spec_name="NearKVOffloadingSpec",
        spec_module_path="nearkv.vllm",
        cpu_bytes_to_use=512 << 20,
    )
    own = _transfer("NearKVConnector", uri=f"cpu:{folder}/own.pool?memory={_POOL}")
    shared = _transfer("NearKVConnector", socket=daemon.socket)
    for options in (own, shared):
        options["kv_transfer_config"]["kv_connector_module_path"] = "nearkv.vllm"
    return {"recompute": {}, "dram": dram, "nearkv": own, "nearkv_daemon": shared}


def _ask_in_turns(
    context: Context,
    shape: str,
    engines: dict[str, Contender],
    daemon: Daemon,
    asks: list[Ask],
) -> dict[str, list[dict[str, Any]]]:
    """Each engine's answers. Raises ContenderError where one's token is not that of another."""
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
    turns = random.Random(1)
    for number, ask in enumerate(asks):
        if number == len(asks) // 2:
            daemon.kill()
            daemon.start()
        context.progress(f"{shape}: prompt {number + 1} of {len(asks)}, {len(ask.tokens)} tokens")
        names = list(engines)
        turns.shuffle(names)
        for name in names:
            answers[name].append(engines[name].order(f"ask {json.dumps(ask.tokens)}"))
            engines[name].order("forget")
        if len({answers[name][-1]["token"] for name in names}) != 1:
            raise ContenderError(f"{shape}: engines differ in the first token of prompt {number}")
    return answers


def _results(
    shape: str, asks: list[Ask], answers: dict[str, list[dict[str, Any]]]
) -> Iterator[Result]:
    known = [number for number, ask in enumerate(asks) if ask.known_tokens]
    rates = {
        name: Samples(tuple(1 / told[number]["seconds"] for number in known))
        for name, told in answers.items()
    }
    extra = {
        "model": _MODEL.name,
        "prompt_tokens": max(len(ask.tokens) for ask in asks),
        "prompts_with_a_known_beginning": len(known),
    }

    def beside(name: str, peer: str, title: str, goal: Goal) -> Result:
        own = f"ttft/{shape}/{name}_beside_{peer}"
        against = {"beside": rates[peer], "peer": title, "goal": goal}
        return Result.of_samples(own, rates[name], "1/s", device="cpu:", extra=extra, **against)

    dram = "vLLM's own DRAM tier"
    yield beside("nearkv", "dram", dram, _AS_GOOD)
    yield beside("nearkv_daemon", "dram", dram, _DAEMON)
    yield beside("nearkv", "recompute", "computing all tokens", _AS_GOOD)
    after = [number for number in known if number >= len(asks) // 2]
    found = sum(answers["nearkv_daemon"][number]["cached"] > 0 for number in after)
    yield Result.of_samples(
        f"ttft/{shape}/hits_after_the_daemon_was_killed",
        Samples((found / len(after),)),
        "of prompts",
        device="cpu:",
        goal=_HITS,
        extra=extra | {"prompts_after": len(after)},
    )
