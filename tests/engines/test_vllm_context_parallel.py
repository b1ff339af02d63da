"""vLLM's decode context parallelism on the CPU, by TokenRing: beside a plain engine."""

from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import Environment
from tests.engines.small_models import SMALL, save_model
from tests.engines.vllm_attention import prompt
from tests.engines.vllm_engines import entry_points_of_the_wheel

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)
PROGRAM = Path(__file__).parent / "vllm_context_program.py"
# Kernels and rings add the same numbers up in other orders.
EXACT = 2e-4
RANKS = {"tensor_parallel_size": 2, "decode_context_parallel_size": 2}
# The second batch begins with what the first left in the cache.
BATCHES = [[prompt(150, 1), prompt(70, 2), prompt(5, 4)], [prompt(150, 1) + prompt(33, 3)]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of one KV head, which two ranks would hold twice."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models")
    shape = SMALL | {"num_key_value_heads": 1, "num_hidden_layers": 2}
    mixed = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 60}
    configs = {
        "whole": transformers.LlamaConfig(**shape),
        "sliding": transformers.MistralConfig(**shape, sliding_window=60),
        "mixed": transformers.Gemma3TextConfig(**shape, **mixed),
    }
    return {name: save_model(folder / name, config) for name, config in configs.items()}


@pytest.fixture(scope="module")
def run(vllm: Environment, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory):
    """What an engine answers, with NearKV's entry points or without."""
    wheel = entry_points_of_the_wheel(tmp_path_factory.mktemp("wheel"))
    nothing = tmp_path_factory.mktemp("nothing")

    def ask(model: str = "whole", is_installed: bool = True, **options: Any) -> dict[str, Any]:
        question = {
            "entry_points": str(wheel if is_installed else nothing),
            "model": str(models[model]),
            "batches": BATCHES,
            "tokens": 12,
            "options": options,
        }
        return vllm.run(PROGRAM, question, 600)

    return ask


def check(ours: dict[str, Any], plain: dict[str, Any]) -> None:
    assert ours["tokens"] == plain["tokens"]
    for mine, theirs in zip(ours["logprobs"], plain["logprobs"], strict=True):
        assert max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) < EXACT


def test_two_ranks_share_the_tokens(run) -> None:
    plain = run()
    ours = run(**RANKS)
    check(ours, plain)
    assert ours["cached"][-1] > 0
    # In chunks, of which a step takes several requests', and in stripes of half a block.
    chunks = {"max_num_batched_tokens": 64, "cp_kv_cache_interleave_size": 16}
    check(run(**RANKS, **chunks), plain)


@pytest.mark.long
def test_windows_that_slide(run) -> None:
    # vLLM has no cache of a window alone over ranks.
    assert "not support sliding window" in run("sliding", **RANKS)["error"]
    # It has one of all tokens, of which some layers see a window.
    whole = {"disable_hybrid_kv_cache_manager": True}
    check(run("mixed", **RANKS, **whole), run("mixed", **whole))


@pytest.mark.long
def test_vllm_alone_has_none_on_the_cpu(run) -> None:
    assert "error" in run(is_installed=False, **RANKS)


@pytest.mark.long
def test_what_it_does_not_serve_is_refused(run) -> None:
    pool = {"nearkv_attention": {"uri": "cpu:?memory=64MiB", "rounded": "bfloat16"}}
    assert "error" in run(**RANKS, additional_config=pool)
