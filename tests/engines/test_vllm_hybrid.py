"""Models with several KV cache groups under NearKVConnector and the tier: real vLLM engines."""

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench.engines.environment import Environment
from nearkv.store import ObjectStore
from tests.engines.small_models import SMALL, save_model
from tests.engines.test_vllm_connector import NONE, in_file
from tests.engines.test_vllm_tier import offload
from tests.engines.vllm_engines import BLOCK_TOKENS, CACHED, Engines

# The first makes vLLM's environment.
pytestmark = [pytest.mark.timeout(1200)]
# vLLM makes groups of as many layers as the rarest kind has.
SLIDING = ["sliding_attention", "sliding_attention", "full_attention"] * 2
WINDOW_TOKENS = 96
GROUPS = 3
STORE_AGAIN = Path(__file__).parent / "vllm_store_again_program.py"
# 2 layers, 2 KV heads of 64 channels, K and V, in float32.
BLOCK_BYTES = BLOCK_TOKENS * 2 * 2 * 64 * 2 * 4
# Of layers with a window an engine loads no more than that.
BLOCKS = sum(CACHED) // BLOCK_TOKENS
WINDOW_BLOCKS = len(CACHED) * WINDOW_TOKENS // BLOCK_TOKENS


def configured(kind: str, pool: Path) -> dict[str, Any]:
    """An engine on a pool in a file: through the connector, or with the tier."""
    uri = f"cpu:{pool}?memory=256MiB"
    return in_file(pool) if kind == "connector" else offload({"uri": uri})


@pytest.fixture(scope="module")
def sliding(vllm: Environment, tmp_path_factory: pytest.TempPathFactory) -> Engines:
    """Engines of a Gemma 3 whose windows slide but in every third layer."""
    transformers = pytest.importorskip("transformers")
    config = transformers.Gemma3TextConfig(
        **SMALL, num_hidden_layers=6, layer_types=SLIDING, sliding_window=WINDOW_TOKENS
    )
    return Engines(vllm, save_model(tmp_path_factory.mktemp("models") / "sliding", config))


def convolutions(transformers: ModuleType) -> Any:
    """An LFM2."""
    shape = {name: value for name, value in SMALL.items() if name != "head_dim"}
    config = transformers.Lfm2Config(
        **shape, num_hidden_layers=4, layer_types=["conv", "full_attention"] * 2
    )
    # As published checkpoints say it, and vLLM reads it.
    config.conv_dim = config.conv_dim_out = config.block_dim = config.hidden_size
    config.block_ff_dim = config.intermediate_size
    return config


def delta_nets(transformers: ModuleType) -> Any:
    """A Qwen3-Next."""
    return transformers.Qwen3NextConfig(
        **SMALL,
        num_hidden_layers=4,
        layer_types=["linear_attention", "full_attention"] * 2,
        linear_num_key_heads=1,
        linear_num_value_heads=2,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=64,
    )


# Every other layer has a state instead of K and V. That of a delta net is as long as 288 tokens,
# which become the block, and vLLM's kernel for it takes only bfloat16.
RECURRENT = {
    "convolutions": (convolutions, {}, CACHED),
    "delta nets": (delta_nets, {"dtype": "bfloat16"}, [288, 288, 288]),
}


@pytest.fixture(scope="module")
def plain(sliding: Engines) -> list[list[int]]:
    """The tokens without NearKV."""
    [answer] = sliding.run({})
    assert answer["cached"] == NONE
    return answer["tokens"]


def stored_blocks(pool: Path) -> list[int]:
    """How many, by group, the most first."""
    with ObjectStore.open(f"cpu:{pool}?memory=256MiB") as store:
        assert {info.bytes for info in store.objects()} == {BLOCK_BYTES}
        counts = Counter(info.namespace_number for info in store.objects())
    return sorted(counts.values(), reverse=True)


def damage_a_block(pool: Path, group: int) -> None:
    """Flips a bit of the first block that a group stored."""
    with ObjectStore.open(f"cpu:{pool}?memory=256MiB") as store:
        [space] = [space for space in store.namespaces() if space.text.endswith(f"group {group}")]
        first = next(info for info in store.objects() if info.namespace_number == space.number)
        model, dtype, layout, *_ = space.text.split()
        content = store.namespace(model, dtype, layout, group=group)[first.key]
    image = bytearray(pool.read_bytes())
    image[image.index(content[:4096])] ^= 1
    pool.write_bytes(image)


@pytest.mark.parametrize("kind", ["connector", pytest.param("tier", marks=pytest.mark.long)])
def test_each_group_is_stored_and_found_by_a_later_engine(sliding, tmp_path, kind):
    pool = tmp_path / "pool"
    plain, first = sliding.run({}, configured(kind, pool))
    # In another process.
    [later] = sliding.run(configured(kind, pool), disable_log_stats=False)
    assert (first["tokens"], later["tokens"]) == (plain["tokens"], plain["tokens"])
    assert (first["cached"], later["cached"]) == (NONE, CACHED)
    assert stored_blocks(pool) == [BLOCKS, WINDOW_BLOCKS, WINDOW_BLOCKS]
    loaded = (BLOCKS + 2 * WINDOW_BLOCKS) * BLOCK_BYTES
    assert later["metrics"]["vllm:kv_offload_load_bytes"] == loaded


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("kind", ["connector", "tier"])
def test_a_damaged_block_of_one_group_is_computed_again(sliding, plain, tmp_path, kind, group):
    engine = configured(kind, tmp_path / "pool")
    sliding.run(engine)
    damage_a_block(tmp_path / "pool", group)
    again, later = sliding.run(engine, engine)
    assert again["tokens"] == plain
    # Windows of that prompt are only stored where it ends, so nothing else of it serves.
    assert again["cached"] == [0, *CACHED[1:]]
    assert (later["tokens"], later["cached"]) == (plain, CACHED)


@pytest.mark.long
def test_a_load_that_fails_is_computed_and_not_tried_again(sliding, plain, tmp_path):
    engine = in_file(tmp_path / "pool")
    _, failing, later = sliding.run(
        engine, engine | {"loads_fail": True}, engine, disable_log_stats=False
    )
    assert (failing["tokens"], failing["cached"]) == (plain, NONE)
    failed = failing["metrics"]["vllm:kv_offload_nearkv_load_failures"]
    assert failed == BLOCKS + 2 * WINDOW_BLOCKS
    assert (later["tokens"], later["cached"]) == (plain, CACHED)


@pytest.mark.long
def test_a_request_does_not_store_blocks_again_that_its_window_has_left(vllm):
    # vLLM's manager has given its first blocks away, and its connector still knows their numbers.
    keys, block_ids, held = ["a", "b", "c", "d", "e"], [5, 6, 7, 8, 9], [0, 0, 7, 8, 9]
    asked = {"keys": keys, "block_ids": block_ids, "next_stored": 4, "held": held}
    answer = vllm.run(STORE_AGAIN, asked | {"failed": ["b", "c"]}, timeout_s=120)
    assert answer == {"next_stored": 1, "block_ids": [5, 0, 7, 8, 9]}


@pytest.mark.long
def test_layers_one_by_one_are_refused(sliding, tmp_path):
    [refused] = sliding.run(in_file(tmp_path / "pool", layerwise=True))
    assert "layerwise needs a model of one KV cache group" in refused.get("error", "")


@pytest.mark.long
@pytest.mark.parametrize("states", RECURRENT)
@pytest.mark.parametrize("kind", ["connector", "tier"])
def test_states_are_stored_and_found(vllm, tmp_path, kind, states):
    make, options, cached = RECURRENT[states]
    config = make(pytest.importorskip("transformers"))
    engine = configured(kind, tmp_path / "pool")
    recurrent = Engines(vllm, save_model(tmp_path / "model", config))
    plain, first, later = recurrent.run({}, engine, engine, **options)
    assert (first["tokens"], later["tokens"]) == (plain["tokens"], plain["tokens"])
    assert (first["cached"], later["cached"]) == (NONE, cached)
