"""vLLM for a bench."""

from bench import Skipped
from bench.engines.environment import Environment, EnvironmentMissing, make_environment


def vllm_environment() -> Environment:
    """The newest vLLM's. Raises Skipped where it cannot be had."""
    try:
        return make_environment("vllm")
    except EnvironmentMissing as error:
        raise Skipped(f"vLLM is not here: {error}") from error
