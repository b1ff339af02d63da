"""Engines for benches, and workers that run in their environments."""

import json
from collections.abc import Mapping
from pathlib import Path

from bench import Skipped
from bench.contender import Contender
from bench.engines.environment import Environment, EnvironmentMissing, make_environment


def vllm_environment() -> Environment:
    """The newest vLLM's. Raises Skipped where it cannot be had."""
    try:
        return make_environment("vllm")
    except EnvironmentMissing as error:
        raise Skipped(f"vLLM is not here: {error}") from error


def start_worker(
    title: str, name: str, environment: Environment, question: Mapping[str, object]
) -> Contender:
    """`NAME_worker.py`, which makes what `question` says. Raises ContenderError."""
    worker = Path(__file__).with_name(f"{name}_worker.py")
    command = [str(environment.python), "-P", str(worker), json.dumps(question)]
    return Contender(title, command, environment.variables)
