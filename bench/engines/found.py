"""vLLM for a bench, or a word that it is left out."""

from bench import Context
from tests.engines.environment import Environment, EnvironmentMissing, make_environment


def vllm_environment(context: Context) -> Environment | None:
    """The newest vLLM's; None, and the person who waits is told, where it cannot be had."""
    try:
        return make_environment("vllm")
    except EnvironmentMissing as error:
        context.progress(f"left out: vLLM is not here: {error}")
        return None
