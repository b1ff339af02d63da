"""vLLM's attention in place by codes: less of vLLM's own blocks is read, beside its own kernel."""

from typing import Any

import pytest

from tests.engines.vllm_attention import (
    LONG_TOKENS,
    AttentionEngines,
    difference,
    shown_configurations,
)

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)
NEW_TOKENS = 16
NEEDLE_TOKENS = 6
SHAPE = {"dtype": "bfloat16", "block_size": 128, "max_model_len": 4608}
# One of the prompts alone, so that each of them takes the blocks of the one before.
ONE_AT_A_TIME = {"num_gpu_blocks_override": 40, "enable_prefix_caching": False}


def by_codes(mode: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A run of the model that NearKV ships, whose prompts are documents with needles."""
    config = {"nearkv_attention": mode} if mode else {}
    options = SHAPE | {"additional_config": config} | options
    return {"model": "shipped", "batches": "long", "tokens": NEW_TOKENS, "options": options}


def shown() -> dict[str, Any]:
    """The README's settings of attention."""
    configs = [each.get("nearkv_attention", {}) for each in shown_configurations()]
    [mode] = [each for each in configs if "mode" in each and "uri" not in each]
    return mode


@pytest.fixture(scope="module")
def answers(attention_engines: AttentionEngines) -> dict[str, dict[str, Any]]:
    """What engines answered, the first ones with vLLM's kernels."""
    tail = {"mode": "tail", "top_k": 64, "if_faster": False}
    asked = {
        "float32": by_codes({}, dtype="float32"),
        "own": by_codes({}),
        "tail of all": by_codes(tail | {"top_k": 2 * LONG_TOKENS}),
        "tail": by_codes(tail),
        "bounded": by_codes(shown() | {"if_faster": False}),
        "if faster": by_codes(shown()),
        "tail in few blocks": by_codes(tail, **ONE_AT_A_TIME),
    }
    return attention_engines.run(asked)


@pytest.fixture(scope="module")
def others(attention_engines: AttentionEngines) -> dict[str, dict[str, Any]]:
    """What engines answered that are asked less often."""
    tail = {"mode": "tail", "top_k": 64, "if_faster": False}
    mixed = {"model": "mixed", "batches": "prompts"}  # Short, with windows in every other layer.
    short = {"max_model_len": 2048}
    in_chunks = short | {"max_num_batched_tokens": 128}
    # It must come last: after such an engine vLLM starts no other in the process.
    guessing = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}
    asked = {
        "own": by_codes({}),
        "mixed float32": by_codes({}, dtype="float32", **short) | mixed,
        "mixed own": by_codes({}, **short) | mixed,
        "mixed": by_codes(tail, **in_chunks) | mixed,
        "guessing": by_codes(tail, **guessing),
    }
    return attention_engines.run(asked)


def used(answer: dict[str, Any]) -> dict[str, int]:
    """What codes were used for."""
    assert "error" not in answer, answer["error"]
    [counts] = answer["codes"]
    return counts


def needles(answer: dict[str, Any]) -> list[list[int]]:
    """What comes before models go on in ways that rounding decides."""
    return [tokens[:NEEDLE_TOKENS] for tokens in answer["tokens"]]


def test_all_tokens_read_by_codes_are_as_near_to_float32_as_vllms_kernel(answers):
    exact, own, tail = (answers[name] for name in ("float32", "own", "tail of all"))
    counts = used(tail)
    away = {"own": difference(own, exact), "tail of all": difference(tail, exact)}
    print(away, counts)
    assert needles(tail) == needles(own) == needles(exact)
    assert away["tail of all"] < 1.3 * away["own"]
    assert counts["approximate"] > 50 * counts["exact"]  # Of which scores were too large.


@pytest.mark.parametrize("mode", ["tail", "bounded", "tail in few blocks"])
def test_a_part_is_read_and_needles_are_found(answers, mode):
    answer, own = answers[mode], answers["own"]
    counts = used(answer)
    print(counts, difference(answer, own), answer["preemptions"])
    layers, kv_heads = 3, 2
    decoded = sum(len(tokens) - 1 for tokens in own["tokens"])
    assert counts["approximate"] + counts["exact"] >= decoded * layers * kv_heads
    assert counts["approximate"] > 50 * counts["exact"]  # Of which scores were too large.
    assert counts["read_bytes"] < counts["cached_bytes"] / 4
    assert answer["in_place_queries"] >= decoded
    assert needles(answer) == needles(own)


def test_all_is_read_where_that_is_faster(answers):
    answer, own = answers["if faster"], answers["own"]
    counts = used(answer)
    print(counts)
    layers, kv_heads = 3, 2
    decoded = sum(len(tokens) - 1 for tokens in own["tokens"])
    # Both ways are tried.
    assert counts["exact_calls"] > 0
    assert 0 < counts["approximate"] + counts["exact"] < decoded * layers * kv_heads
    assert needles(answer) == needles(own)


def test_without_codes_nothing_is_kept_of_them(answers):
    assert answers["own"]["codes"] == []


@pytest.mark.long
def test_short_requests_and_windows_are_as_near_to_float32_as_vllms_kernel(others):
    exact, own, mixed = (others[name] for name in ("mixed float32", "mixed own", "mixed"))
    assert "error" not in mixed, mixed["error"]
    away = {"own": difference(own, exact), "mixed": difference(mixed, exact)}
    print(away)
    assert away["mixed"] < 1.5 * away["own"]
    assert mixed["in_place_queries"] > 0
    assert all(counts["pages"] == 0 for counts in mixed["codes"])


@pytest.mark.long
def test_tokens_that_are_guessed_ahead_find_needles_too(others):
    guessing = others["guessing"]
    counts = used(guessing)
    print(counts, guessing["in_place_queries"])
    assert counts["approximate"] > 100
    assert needles(guessing) == needles(others["own"])
