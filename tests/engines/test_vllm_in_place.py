"""vLLM's attention in place: NearKV's kernels on vLLM's own blocks, beside vLLM's own kernel."""

from typing import Any

import pytest

from tests.engines.vllm_attention import (
    EXACT,
    FEW_BLOCKS,
    IN_CHUNKS,
    AttentionEngines,
    difference,
    shown_configurations,
)

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)


def shown() -> dict[str, Any]:
    """The README's configuration."""
    [config] = [each for each in shown_configurations() if each.get("nearkv_attention") == {}]
    return config


def near(**options: Any) -> dict[str, Any]:
    """Options of an engine that attends in place."""
    return {"additional_config": shown()} | options


@pytest.fixture(scope="module")
def answers(attention_engines: AttentionEngines) -> dict[str, dict[str, Any]]:
    """What engines with NearKV's kernels answered, and some with vLLM's."""
    crowd = {"batches": "crowd"}
    asked = {
        "own": {},
        "near": {"options": near()},
        "near in chunks": {"options": near(**IN_CHUNKS)},
        "crowd own": crowd | {"options": FEW_BLOCKS},
        "crowd near": crowd | {"options": near(**FEW_BLOCKS)},
        "bfloat16 own": {"options": {"dtype": "bfloat16"}},
        "bfloat16 near": {"options": near(dtype="bfloat16")},
    }
    return attention_engines.run(asked)


@pytest.fixture(scope="module")
def others(attention_engines: AttentionEngines) -> dict[str, dict[str, Any]]:
    """What engines answered that are asked less often."""
    mixed = {"model": "mixed", "batches": "prompts"}  # Windows in every other layer.
    # It must come last: after such an engine vLLM starts no other in the process.
    guessing = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}
    asked = {
        "own": {},
        "in blocks of 128": {"options": near(block_size=128)},
        "mixed own": mixed,
        "mixed near": mixed | {"options": near()},
        "guessing": {"options": near(**guessing)},
    }
    return attention_engines.run(asked)


def check_same(answer: dict[str, Any], own: dict[str, Any]) -> None:
    """The same tokens and log-probabilities, and of all but the prompts attended to in place."""
    assert answer.get("tokens") == own.get("tokens"), answer.get("error")
    assert difference(answer, own) < EXACT
    assert own["in_place_queries"] == 0
    # What a request that was preempted had generated is a prompt, too.
    decoded = sum(len(tokens) - 1 for tokens in own["tokens"]) - answer["preemptions"]
    assert answer["in_place_queries"] >= decoded


@pytest.mark.parametrize("how", ["near", "near in chunks"])
def test_answers_are_those_of_vllms_kernel(answers, how):
    check_same(answers[how], answers["own"])


@pytest.mark.long
def test_windows_and_larger_blocks_are_exact(others):
    check_same(others["in blocks of 128"], others["own"])
    check_same(others["mixed near"], others["mixed own"])


@pytest.mark.long
def test_tokens_that_are_guessed_ahead_are_exact(others):
    guessing, one_by_one = others["guessing"], others["in blocks of 128"]
    check_same(guessing, others["own"])
    assert guessing["in_place_queries"] > one_by_one["in_place_queries"]


def test_requests_that_are_preempted_are_exact(answers):
    check_same(answers["crowd near"], answers["crowd own"])
    assert answers["crowd near"]["preemptions"] > 0


def test_bfloat16_is_as_near_to_float32_as_vllms_kernel(answers):
    exact, own, near = (answers[name] for name in ("own", "bfloat16 own", "bfloat16 near"))
    away = {"own": difference(own, exact), "near": difference(near, exact)}
    print(away)
    assert away["near"] < 1.2 * away["own"]
