"""Measures what the vLLM connector costs the processor in a request of 1,000 blocks, by part.

NearKVConnector beside vLLM's own connector onto an offload that does nothing: the difference is
what the adapter costs. Only the threads that call it count: the store's copy meanwhile.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import Context
from bench.engines.environment import ROOT
from bench.engines.found import vllm_environment
from nearkv.results import Goal, Result, Samples

_MODEL = ROOT / "engine_integration" / "models" / "recall_3m"
_WORKER = Path(__file__).parent / "engines" / "adapter_worker.py"
_BLOCKS = 1000
_PEER = "vLLM's connector, onto nothing"
_QUICK = Goal("<=", 200)
_ONCE = Goal("<=", 1)


def run(context: Context) -> Iterator[Result]:
    """Yields microseconds of requests that hit, and of requests that store."""
    environment = vllm_environment()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        question = {
            "model": str(_MODEL),
            "folder": folder,
            "blocks": 10 if context.tiny else _BLOCKS,
            "layers": [1, 4, 32],
            "repeat": 101 if context.long else 2 if context.tiny else 21,
        }
        command = [environment.python, _WORKER, json.dumps(question)]
        variables = os.environ | environment.variables
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                context.progress(f"{told['layers']} layers")
                yield from _results(told, question["blocks"])
        if process.returncode != 0:
            raise RuntimeError("vLLM's process failed; what it said is above")


def _results(told: dict[str, Any], blocks: int) -> Iterator[Result]:
    group = f"adapter/{told['layers']}_layers"
    common = {"device": "cpu:", "extra": {"blocks": blocks}}
    own, peer = (
        {part: tuple(1e6 * one for one in seconds) for part, seconds in told[side].items()}
        for side in ("nearkv", "vllm")
    )
    for part, readings in own.items():
        beside = {"beside": Samples(peer[part]), "peer": _PEER}
        yield Result.of_samples(f"{group}/{part}", Samples(readings), "us", **beside, **common)
    for what in ("hit", "store"):
        costs = zip(_whole(own, what), _whole(peer, what), strict=True)
        readings = Samples(tuple(mine - others for mine, others in costs))
        yield Result.of_samples(f"{group}/{what}", readings, "us", goal=_QUICK, **common)
    copied = told["copied_bytes"] / told["block_bytes"]
    name = f"{group}/copied_per_byte_of_the_cache"
    yield Result(name=name, value=copied, unit="B/B", goal=_ONCE, **common)


def _whole(parts: dict[str, tuple[float, ...]], what: str) -> list[float]:
    """What each request took in all its parts."""
    of_it = [readings for part, readings in parts.items() if part.startswith(what)]
    return [sum(request) for request in zip(*of_it, strict=True)]
