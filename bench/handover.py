"""Measures how one vLLM hands a prompt to another one, layer by layer and whole.

Two engines and a daemon's pool between them: one computes a prompt that nobody has seen and stores
its blocks, the other is then asked the same and loads them. Timed is what the second step adds:
from the end of the first engine's last layer to the other's first token. With `layerwise` each
layer is stored while the next one computes, and loaded while the one before does.
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
from bench.engines.shapes import MODELS, tokens_of_the_document
from nearkv.results import Goal, Result, Samples
from nearkv.store import ObjectStore

_MODEL = MODELS / "recall_3m"
_WORKER = Path(__file__).parent / "engines" / "vllm_worker.py"
_WAYS = {"between_steps": False, "by_layers": True}
_POOL = "256MiB"


def run(context: Context) -> Iterator[Result]:
    """Yields hand-overs a second by the length of the prompt, and the bytes of one."""
    environment = vllm_environment()
    # Whole blocks and a half: of whole ones alone the last would be computed twice.
    lengths = (288,) if context.tiny else (544, 4128)
    repeats = 1 if context.tiny else 31 if context.long else 11
    text = tokens_of_the_document(_MODEL)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        daemon = stack.enter_context(Daemon(folder, size=_POOL))
        store = stack.enter_context(ObjectStore.connect(daemon.socket))
        pairs = {}
        for way, layerwise in _WAYS.items():
            context.progress(f"starting two engines of vLLM, {way}")
            pairs[way] = [
                stack.enter_context(
                    Contender(
                        f"vLLM, {way}, {role}",
                        [str(environment.python), str(_WORKER), json.dumps(question)],
                        environment.variables,
                    )
                )
                for role, question in _questions(daemon.socket, way, layerwise, max(lengths))
            ]
        for length in lengths:
            prompts = _prompts(text, length, 1 + repeats)
            measured = _hand_over_in_turns(context, pairs, store, prompts)
            yield from _results(length, measured)


def _questions(
    socket: str, way: str, layerwise: bool, longest: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the two engines of a way are told; ways share no blocks."""
    for role in ("prefill", "decode"):
        extra = {"socket": socket, "salt": way, "layerwise": layerwise}
        extra |= {"hand_over": True} if role == "prefill" else {}
        transfer = {
            "kv_connector": "NearKVConnector",
            "kv_connector_module_path": "nearkv.vllm",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": extra,
        }
        # All without, for by layers vLLM has to be: else two things would differ.
        options = {"kv_transfer_config": transfer, "async_scheduling": False}
        options["num_gpu_blocks_override"] = 2 * longest // 64
        yield role, {"model": str(_MODEL), "max_tokens": longest + 64, "options": options}


def _prompts(text: list[int], length: int, count: int) -> list[list[int]]:
    """That differ from their first token on."""
    random_numbers = random.Random(length)
    begins = random_numbers.sample(range(len(text) - length), count)
    return [text[begin : begin + length] for begin in begins]


def _hand_over_in_turns(
    context: Context,
    pairs: dict[str, list[Contender]],
    store: ObjectStore,
    prompts: list[list[int]],
) -> dict[str, list[dict[str, Any]]]:
    """Of each way what its hand-overs took and copied; the first of each is not kept."""
    measured: dict[str, list[dict[str, Any]]] = {way: [] for way in pairs}
    turns = random.Random(1)
    for number, prompt in enumerate(prompts):
        context.progress(f"{len(prompt)} tokens: prompt {number + 1} of {len(prompts)}")
        ways = list(pairs)
        turns.shuffle(ways)
        tokens = set()
        for way in ways:
            prefill, decode = pairs[way]
            order = f"ask {json.dumps(prompt)}"
            before = store.stats()
            computed = prefill.order(order)
            loaded = decode.order(order)
            after = store.stats()
            tokens |= {computed["token"], loaded["token"]}
            for engine in (prefill, decode):
                engine.order("forget")
            if loaded["cached"] < len(prompt) // 2:
                raise ContenderError(
                    f"{decode.title}: loaded {loaded['cached']} tokens of a prompt"
                )
            measured[way].append(
                {
                    "hand_over_s": loaded["answered_s"] - computed["computed_s"],
                    "compute_s": computed["seconds"],
                    "order_bytes": len(order),
                    "stored_bytes": after.set_bytes - before.set_bytes,
                    "loaded_bytes": after.get_bytes - before.get_bytes,
                }
            )
        if len(tokens) != 1:
            raise ContenderError(f"engines differ in the first token of prompt {number}")
    return {way: of_way[1:] or of_way for way, of_way in measured.items()}


def _results(length: int, measured: dict[str, list[dict[str, Any]]]) -> Iterator[Result]:
    def rate(way: str, what: str) -> Samples:
        return Samples(tuple(1 / one[what] for one in measured[way]))

    name = f"handover/{length}_tokens"
    extra = {"model": _MODEL.name, "prompts": len(measured["by_layers"])}
    peer = {"peer": "between steps", "beside": rate("between_steps", "hand_over_s")}
    rates = rate("by_layers", "hand_over_s")
    yield Result.of_samples(f"{name}/by_layers", rates, "1/s", extra=extra, **peer)
    for way in measured:
        peer = {"peer": "computing the prompt", "beside": rate(way, "compute_s")}
        goal = Goal(">=", 1, of="ratio")
        rates = rate(way, "hand_over_s")
        yield Result.of_samples(
            f"{name}/{way}_beside_computing", rates, "1/s", extra=extra, goal=goal, **peer
        )
    for way, of_way in measured.items():
        one = of_way[-1]
        yield Result(
            name=f"{name}/{way}_pool_bytes_copied_of_those_stored",
            value=one["loaded_bytes"] / one["stored_bytes"],
            unit="times",
            goal=Goal("<=", 1),
            extra={key: value for key, value in one.items() if key.endswith("bytes")},
        )
