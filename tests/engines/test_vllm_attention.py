"""vLLM's attention over a pool, on the CPU: beside plain engines with the same K and V."""

from pathlib import Path
from typing import Any

import pytest

from tests.engines.test_vllm_connector import in_file
from tests.engines.vllm_attention import (
    BRANCHES,
    EXACT,
    FEW_BLOCKS,
    IN_CHUNKS,
    KV_HEADS,
    LAYERS,
    NEW_TOKENS,
    PROMPTS,
    SHARED,
    WINDOW_TOKENS,
    AttentionEngines,
    difference,
    far,
    shown,
)

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)
ROWS_PROGRAM = Path(__file__).parent / "vllm_rows_program.py"
PAGE_TOKENS = 64


WRONG = {
    "codes of float32": ({"nearkv_attention": {"mode": "tail"}}, {}, "take --dtype bfloat16"),
    "a wrong option": ({"nearkv_attention": {"url": "cpu:"}}, {}, "'url'; is uri meant?"),
    "float32": ({"nearkv_attention": {"uri": "cpu:"}}, {}, '"rounded": "bfloat16"'),
    "latents": (shown(), {"model": "latents"}, "has no latents (MLA)"),
}
WRONG_TOO = {
    "a pool's option": (
        {"nearkv_attention": {"window_tokens": 64}},
        {},
        "only a pool has window_tokens",
    ),
    "no relative error": (
        {"nearkv_attention": {"mode": "bounded", "error": 0}},
        {},
        "error is above 0",
    ),
    "codes in small blocks": (
        {"nearkv_attention": {"mode": "tail"}},
        {"dtype": "bfloat16", "block_size": 32},
        "take --block-size 128",
    ),
    "a wrong name": ({"nearkv_attn": {"uri": "cpu:"}}, {}, "is nearkv_attention meant?"),
    "a wrong mode": ({"nearkv_attention": {"uri": "cpu:", "mode": "best"}}, {}, "not 'best'"),
    "float16": (shown(), {"dtype": "float16"}, "rounds only float32"),
    "float64": (shown(), {"dtype": "float64"}, "float64"),
    "fp8": (shown(), {"kv_cache_dtype": "fp8"}, "--kv-cache-dtype auto"),
}


def refused(wrong: dict[str, tuple[Any, dict[str, Any], str]]) -> dict[str, dict[str, Any]]:
    """Runs with configurations that are refused."""
    runs = {}
    for name, (config, options, _) in wrong.items():
        options = {"additional_config": config} | options
        runs[name] = {"model": options.pop("model", "whole"), "options": options}
    return runs


@pytest.fixture(scope="module")
def answers(attention_engines: AttentionEngines) -> dict[str, dict[str, Any]]:
    """What each engine answered. The first has no configuration of NearKV's."""
    sliding = {"model": "sliding", "batches": "prompts"}
    crowd = {"batches": "crowd"}
    asked = {
        "oracle": {"rounded": True},
        "far": {"options": far()},
        "far in chunks": {"options": far(**IN_CHUNKS)},
        "flash": {"options": far(**IN_CHUNKS), "flash": True},
        "sliding oracle": sliding | {"rounded": True},
        "sliding far": sliding | {"options": far(**IN_CHUNKS)},
        "crowd oracle": crowd | {"rounded": True, "options": FEW_BLOCKS},
        "crowd far": crowd | {"options": far(**FEW_BLOCKS)},
    }
    return attention_engines.run(asked | refused(WRONG))


@pytest.fixture(scope="module")
def connected(
    attention_engines: AttentionEngines, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What engines answered beside a connector, the later ones with all blocks in its store."""
    with_store = FEW_BLOCKS | in_file(tmp_path_factory.mktemp("store") / "pool")
    run = {"batches": "crowd", "options": far(**with_store)}
    asked = {
        "oracle": {"batches": "crowd", "rounded": True, "options": FEW_BLOCKS},
        "storing": run,
        "loading": run,
    }
    return attention_engines.run(asked)


@pytest.fixture(scope="module")
def handed_over(
    attention_engines: AttentionEngines, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What was answered to prompts of which one engine computed all but the ends for two others."""
    store = in_file(tmp_path_factory.mktemp("store") / "pool", hand_over=True)
    plain = {"batches": "prompts", "rounded": True}
    asked = {
        "oracle": plain,
        "prefilling": plain | {"options": store, "tokens": 2},  # One step that is measured.
        "fetching": plain | {"options": store},
        "near": {"batches": "prompts", "options": far(**store)},
    }
    return attention_engines.run(asked)


@pytest.fixture(scope="module")
def dtypes(attention_engines: AttentionEngines) -> dict[str, dict[str, Any]]:
    """What engines answered in bfloat16, and the model that NearKV ships."""
    own, near = {"dtype": "bfloat16"}, far({"rounded": ""}, dtype="bfloat16")
    shipped = {"model": "shipped", "batches": "recalled"}
    asked = {
        "small float32": {},
        "small bfloat16": {"options": own},
        "small far": {"options": near},
        "shipped float32": shipped,
        "shipped bfloat16": shipped | {"options": own},
        "shipped far": shipped | {"options": near},
        "shipped oracle": shipped | {"rounded": True, "keeps": "shipped"},
        "shipped rounded far": shipped | {"options": far()},
        "shipped far on the oracle's": shipped | {"options": far(), "takes": "shipped"},
        "shipped in chunks": shipped | {"rounded": True, "options": IN_CHUNKS},
    }
    return attention_engines.run(asked)


@pytest.fixture(scope="module")
def ranks(attention_engines: AttentionEngines) -> dict[str, dict[str, Any]]:
    """What two ranks answered."""
    asked = {
        "oracle": {"rounded": True, "batches": "prompts"},
        "far": {"options": far(tensor_parallel_size=2), "batches": "prompts"},
    }
    return attention_engines.run(asked)


@pytest.fixture(scope="module")
def others(attention_engines: AttentionEngines) -> dict[str, dict[str, Any]]:
    """What engines answered that are asked less often."""
    asked = {
        "blocks of 128": {"options": far(block_size=128)},
        "sliding whole": {"model": "sliding", "batches": "prompts", "options": far()},
        "mixed oracle": {"model": "mixed", "batches": "prompts", "rounded": True},
        "mixed far": {"model": "mixed", "batches": "prompts", "options": far(**IN_CHUNKS)},
        "tail": {"options": far({"mode": "tail", "if_faster": False})},
        "bounded": {"options": far({"mode": "bounded", "if_faster": False})},
        "full pool": {"options": far({"uri": "cpu:?memory=2MiB"})},
        "oracle in chunks": {"rounded": True, "options": IN_CHUNKS},
        "as computed": {},
        "unmerged": {"options": far(), "flaw": "unmerged"},
        "crowd stale": {"options": far(**FEW_BLOCKS), "batches": "crowd", "flaw": "stale"},
    }
    return attention_engines.run(asked | refused(WRONG_TOO))


def check_same(answer: dict[str, Any], oracle: dict[str, Any]) -> dict[str, int]:
    """The same tokens and log-probabilities, and the pool attended; its counts."""
    assert answer.get("tokens") == oracle.get("tokens"), answer.get("error")
    assert difference(answer, oracle) < EXACT
    [counts] = answer["counts"]
    assert counts["attended_rows"] > 500
    assert answer["near_bytes"] > 0
    return counts


# The kernels pack otherwise for each; those for AMX do so on any processor that has AVX-512.
PACKED = [
    ("float32", "vec", 32, 64),
    ("float16", "vec", 32, 128),
    ("bfloat16", "vec", 128, 64),
    ("bfloat16", "vec16", 32, 80),
    ("bfloat16", "amx", 32, 64),
    ("bfloat16", "amx", 128, 128),
]


def test_rows_are_read_as_kernels_packed_them(vllm):
    names = "dtype", "isa", "block_tokens", "head_dim"
    layouts = [dict(zip(names, layout, strict=True)) for layout in PACKED]
    read = vllm.run(ROWS_PROGRAM, layouts, timeout_s=120)
    for layout, is_read in zip(layouts, read, strict=True):
        if layout["isa"] == "amx" and "Unsupported CPU attention" in str(is_read):
            print(f"not tried, since vLLM has no such kernel for this processor: {layout}")
        else:
            assert is_read is True, layout


def test_nothing_is_loaded_until_configured(answers):
    assert not answers["oracle"]["is_extension_loaded"]
    assert answers["far"]["is_extension_loaded"]


@pytest.mark.parametrize("how", ["far", "far in chunks"])
def test_answers_are_those_of_plain_attention(answers, how):
    counts = check_same(answers[how], answers["oracle"])
    assert counts["refused_rows"] == 0
    assert answers[how]["flash_calls"] == 0


def test_answers_of_the_backend_for_gpus_are_too(answers):
    counts = check_same(answers["flash"], answers["oracle"])
    assert counts["refused_rows"] == 0
    assert answers["flash"]["flash_calls"] > 0  # Of those who attend to nothing in the pool.


def test_sliding_windows_are_exact(answers):
    check_same(answers["sliding far"], answers["sliding oracle"])


def test_a_shared_prefix_is_stored_once(answers):
    answer = answers["far"]
    _, after_one, after_all = (pages[0] for pages in answer["pages"])
    apart = sum(
        (len(branch) + NEW_TOKENS - WINDOW_TOKENS) // PAGE_TOKENS - len(SHARED) // PAGE_TOKENS
        for branch in BRANCHES
    )
    assert answer["counts"][0]["forked_tokens"] > 0
    assert 0 < after_all - after_one <= apart * LAYERS * KV_HEADS


def test_blocks_used_again_serve_no_stale_page(answers):
    counts = check_same(answers["crowd far"], answers["crowd oracle"])
    assert counts["overwritten_sequences"] > 0
    assert answers["crowd far"]["preemptions"] > 0


def test_less_crosses_the_link_than_is_read_beside_the_memory(answers):
    answer, oracle = answers["far"], answers["oracle"]
    taken = answer["cpu_us"]
    measured = {
        "to_pool_bytes": answer["to_pool_bytes"],
        "from_pool_bytes": answer["from_pool_bytes"],
        "near_bytes": answer["near_bytes"],
        "adapter_us_per_step": taken["all"] - taken["pool"] - taken.get("vllm", 0),
        "pool_us_per_step": taken["pool"],
        "plain_us_per_step": oracle["cpu_us"]["vllm"],
        "steps": answer["steps"],
        "difference": difference(answer, oracle),
        "difference_in_chunks": difference(answers["far in chunks"], oracle),
    }
    print(measured)
    assert answer["to_pool_bytes"] + answer["from_pool_bytes"] < answer["near_bytes"] / 4


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused(answers, name):
    assert WRONG[name][-1] in answers[name].get("error", "")


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG_TOO)
def test_what_else_cannot_be_is_refused(others, name):
    assert WRONG_TOO[name][-1] in others[name].get("error", "")


@pytest.mark.long
def test_the_bound_is_below_what_rounding_does(answers, others):
    oracle = answers["oracle"]
    in_chunks = difference(others["oracle in chunks"], oracle)
    as_computed = difference(others["as computed"], oracle)
    print({"vLLM's own, in chunks": in_chunks, "without rounding K and V": as_computed})
    assert in_chunks < EXACT < as_computed / 10


@pytest.mark.long
def test_other_shapes_are_exact(answers, others):
    check_same(others["blocks of 128"], answers["oracle"])
    check_same(others["sliding whole"], answers["sliding oracle"])


@pytest.mark.long
def test_layers_with_windows_and_without_have_a_pool_each(others):
    oracle, answer = others["mixed oracle"], others["mixed far"]
    assert answer.get("tokens") == oracle.get("tokens"), answer.get("error")
    assert difference(answer, oracle) < EXACT
    assert [counts["attended_rows"] > 200 for counts in answer["counts"]] == [True, True]


@pytest.mark.long
def test_a_full_pool_costs_no_token(answers, others):
    counts = check_same(others["full pool"], answers["oracle"])
    assert counts["evicted_sequences"] > 0
    assert counts["attended_rows"] < answers["far"]["counts"][0]["attended_rows"]


@pytest.mark.long
def test_tail_reads_less_and_bounded_is_nearer(answers, others):
    tail, bounded = others["tail"], others["bounded"]
    away = {mode: difference(others[mode], answers["oracle"]) for mode in ("tail", "bounded")}
    print(away, {mode: others[mode]["near_bytes"] for mode in away})
    assert min(answer["counts"][0]["attended_rows"] for answer in (tail, bounded)) > 500
    assert tail["near_bytes"] < answers["far"]["near_bytes"]
    assert away["bounded"] < away["tail"]


@pytest.mark.long
def test_flaws_are_seen(answers, others):
    for flaw, oracle in (("unmerged", "oracle"), ("crowd stale", "crowd oracle")):
        with pytest.raises(AssertionError):
            check_same(others[flaw], answers[oracle])


@pytest.mark.long
def test_blocks_that_a_connector_loads_are_attended_to(connected):
    oracle, storing, loading = (connected[name] for name in ("oracle", "storing", "loading"))
    check_same(storing, oracle)
    assert sum(storing["cached"]) == 0
    # Blocks of which the pool has never heard, in slots of others that it had pages of.
    counts = check_same(loading, oracle)
    assert all(cached > WINDOW_TOKENS + PAGE_TOKENS for cached in loading["cached"])
    assert counts["stored_tokens"] >= sum(
        (cached - WINDOW_TOKENS) // PAGE_TOKENS * PAGE_TOKENS for cached in loading["cached"]
    )


@pytest.mark.long
def test_one_prefills_for_who_attends_in_the_engine_and_for_who_attends_near_the_data(handed_over):
    oracle, prefilling, fetching, near = handed_over.values()
    assert sum(prefilling["cached"]) == 0
    assert prefilling["tokens"] == [tokens[:2] for tokens in oracle["tokens"]]
    # Both computed what is no whole block, and no more.
    whole = [(len(prompt) - 1) // 32 * 32 for prompt in PROMPTS]
    assert (fetching["cached"], near["cached"]) == (whole, whole)
    assert fetching["tokens"] == oracle["tokens"]
    assert fetching["near_bytes"] == 0
    check_same(near, oracle)


@pytest.mark.long
@pytest.mark.parametrize("model", ["small", "shipped"])
def test_bfloat16_is_nearer_to_vllms_own_than_that_is_to_float32(dtypes, model):
    float32, own, far = (dtypes[f"{model} {name}"] for name in ("float32", "bfloat16", "far"))
    away = {
        "far, own": difference(far, own),
        "own, float32": difference(own, float32),
        "far, float32": difference(far, float32),
    }
    print(model, away)
    assert far["counts"][0]["attended_rows"] > 500
    assert away["far, own"] < away["own, float32"] / 2
    assert away["far, float32"] < 1.2 * away["own, float32"]


@pytest.mark.long
def test_a_trained_model_answers_as_with_plain_attention(dtypes):
    oracle, far = dtypes["shipped oracle"], dtypes["shipped rounded far"]
    assert far["tokens"] == oracle["tokens"]
    assert far["counts"][0]["attended_rows"] > 500
    away = {
        "far": difference(far, oracle),
        "vLLM's own, in chunks": difference(dtypes["shipped in chunks"], oracle),
        "without rounding K and V": difference(dtypes["shipped float32"], oracle),
    }
    print(away)
    # Last bits turn roundings of K and V, of which this model makes much: so do vLLM's own chunks.
    assert away["far"] < 4 * away["vLLM's own, in chunks"]
    assert away["far"] < away["without rounding K and V"] / 10


@pytest.mark.long
def test_a_trained_model_is_exact_on_the_very_same_keys_and_values(dtypes):
    oracle, far = dtypes["shipped oracle"], dtypes["shipped far on the oracle's"]
    check_same(far, oracle)
    print({"difference": difference(far, oracle), "turned": far["turned"]})
    # What is left of the difference is roundings of K and V that last bits of a layer below turn.
    assert 0 < far["turned"] < 5e-3


@pytest.mark.long
def test_two_ranks_have_a_pool_each(ranks):
    far, oracle = ranks["far"], ranks["oracle"]
    assert far.get("tokens") == oracle["tokens"], far.get("error")
    assert difference(far, oracle) < EXACT
    assert [counts["attended_rows"] > 500 for counts in far["counts"]] == [True, True]
