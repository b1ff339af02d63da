"""NearKVConnector: real vLLM engines, one after the other, on the CPU."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import Environment
from bench.engines.serving import Daemon, damage
from nearkv.store import ObjectStore
from tests.engines.vllm_engines import (
    BLOCK_TOKENS,
    CACHED,
    Engines,
    hash_in_events,
    offload,
    shown,
)

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)
BLOCKS = sum(CACHED) // BLOCK_TOKENS
NONE = [0, 0, 0]
# 4 layers, 2 KV heads of 64 channels, K and V, in float32.
BLOCK_BYTES = BLOCK_TOKENS * 4 * 2 * 64 * 2 * 4


def connect(*, role: str = "kv_both", **extra: Any) -> dict[str, Any]:
    """The README's configuration, with these options of the connector instead of its own."""
    config = shown("NearKVConnector") | {"kv_role": role, "kv_connector_extra_config": extra}
    layerwise = {"async_scheduling": False} if extra.get("layerwise") else {}
    return {"kv_transfer_config": config} | layerwise


def in_file(pool: Path, **extra: Any) -> dict[str, Any]:
    return connect(uri=f"cpu:{pool}?memory=256MiB", **extra)


@pytest.fixture(scope="module")
def engines(vllm: Environment, small_llama: Path) -> Engines:
    return Engines(vllm, small_llama)


@pytest.fixture(scope="module")
def plain(engines: Engines) -> list[list[int]]:
    """The tokens without NearKV."""
    [answer] = engines.run({})
    assert answer["cached"] == NONE
    return answer["tokens"]


def test_the_readmes_configuration_names_this_connector():
    extra = shown("NearKVConnector")["kv_connector_extra_config"]
    assert set(extra) == {"uri"}


@pytest.mark.parametrize("layerwise", [False, True], ids=["between steps", "by layers"])
def test_blocks_go_once_to_the_store_and_once_back(engines, plain, tmp_path, layerwise):
    first, later = engines.run(
        *[in_file(tmp_path / "pool", layerwise=layerwise)] * 2, disable_log_stats=False
    )
    assert (first["tokens"], later["tokens"]) == (plain, plain)
    assert (first["cached"], later["cached"]) == (NONE, CACHED)
    assert first["metrics"]["vllm:kv_offload_store_bytes"] == BLOCKS * BLOCK_BYTES
    assert later["metrics"]["vllm:kv_offload_load_bytes"] == BLOCKS * BLOCK_BYTES
    assert later["metrics"]["vllm:kv_offload_nearkv_chunks"] == BLOCKS
    # The store holds these bytes and no others, and gave each out once.
    with ObjectStore.open(f"cpu:{tmp_path}/pool?memory=256MiB") as store:
        assert Counter(info.bytes for info in store.objects()) == {BLOCK_BYTES: BLOCKS}
    # And in another process.
    [again] = engines.run(in_file(tmp_path / "pool"))
    assert (again["tokens"], again["cached"]) == (plain, CACHED)


@pytest.mark.parametrize("layerwise", [pytest.param(False, marks=pytest.mark.long), True])
def test_blocks_of_a_device_go_through_memory_between(engines, plain, tmp_path, layerwise):
    # A stand-in for a GPU, with room for 2 blocks in a lane, of which there are 8.
    host = in_file(tmp_path / "pool", layerwise=layerwise)
    staged = host | {"staging_bytes": 16 * BLOCK_BYTES}
    first, failing, later, on_host = engines.run(
        staged, staged | {"loads_fail": True}, staged, host, disable_log_stats=False
    )
    assert [answer["tokens"] for answer in (first, failing, later, on_host)] == [plain] * 4
    # What lies in the store is what an engine in host memory stores.
    assert (later["cached"], on_host["cached"]) == (CACHED, CACHED)
    assert first["metrics"]["vllm:kv_offload_store_bytes"] == BLOCKS * BLOCK_BYTES
    assert failing["metrics"]["vllm:kv_offload_nearkv_load_failures"] == BLOCKS
    assert later["metrics"]["vllm:kv_offload_load_bytes"] == BLOCKS * BLOCK_BYTES
    assert min(first["copies"], later["copies"]) > 0


@pytest.mark.parametrize("layerwise", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_load_that_fails_is_computed_and_not_tried_again(engines, plain, tmp_path, layerwise):
    with_nearkv = in_file(tmp_path / "pool", layerwise=layerwise)
    _, failing, later = engines.run(
        with_nearkv,
        with_nearkv | {"loads_fail": True, "disable_log_stats": False},
        with_nearkv,
    )
    assert failing["tokens"] == plain
    assert failing["metrics"]["vllm:kv_offload_nearkv_load_failures"] == BLOCKS
    # What was computed again is stored again.
    assert (later["tokens"], later["cached"]) == (plain, CACHED)


def test_who_does_not_recompute_is_told_that_requests_may_fail(engines, plain, tmp_path):
    with_nearkv = in_file(tmp_path / "pool") | {"tells_warnings": True}
    strict = with_nearkv | {
        "kv_transfer_config": with_nearkv["kv_transfer_config"] | {"kv_load_failure_policy": "fail"}
    }
    first, failing = engines.run(with_nearkv, strict | {"loads_fail": True})
    assert (first["tokens"], first["warnings"]) == (plain, [])
    assert failing["tokens"] == [None] * len(plain)
    assert 'kv_load_failure_policy is "fail"' in failing["warnings"][0]


@pytest.mark.parametrize("layerwise", [False, pytest.param(True, marks=pytest.mark.long)])
def test_damaged_blocks_are_computed_again(engines, plain, tmp_path, layerwise):
    with_nearkv = in_file(tmp_path / "pool", layerwise=layerwise)
    engines.run(with_nearkv)
    assert damage(tmp_path / "pool") > 0
    again, later = engines.run(with_nearkv, with_nearkv)
    assert again["tokens"] == plain
    assert (later["tokens"], later["cached"]) == (plain, CACHED)


def test_tenants_and_salts_part_what_engines_share(engines, plain, tmp_path):
    with Daemon(tmp_path) as daemon:
        mine, others = (connect(socket=daemon.socket, salt=salt) for salt in ("mine", "others"))
        answers = engines.run(mine, others, mine, mine | {"cache_salt": "of a user"})
    assert [answer["tokens"] for answer in answers] == [plain] * 4
    assert [answer["cached"] for answer in answers] == [NONE, NONE, CACHED, NONE]


@pytest.mark.parametrize("through", ["connector", pytest.param("tier", marks=pytest.mark.long)])
def test_other_weights_under_the_same_name_are_another_model(vllm, small_llama, tmp_path, through):
    torch = pytest.importorskip("torch")
    files = pytest.importorskip("safetensors.torch")
    uri = f"cpu:{tmp_path}/pool?memory=256MiB"
    with_nearkv = connect(uri=uri) if through == "connector" else offload({"uri": uri})
    model = shutil.copytree(small_llama, tmp_path / "model")
    engines = Engines(vllm, model)
    first, again = engines.run(with_nearkv, with_nearkv)
    assert (first["cached"], again["cached"]) == (NONE, CACHED)
    # A fine-tune, in place.
    weights = {
        name: weight + 0.3 * weight.std() * torch.randn_like(weight) if weight.ndim == 2 else weight
        for name, weight in files.load_file(model / "model.safetensors").items()
    }
    files.save_file(weights, model / "model.safetensors", {"format": "pt"})
    tuned, right = engines.run(with_nearkv, {})
    assert (tuned["cached"], tuned["tokens"]) == (NONE, right["tokens"])
    assert right["tokens"] != first["tokens"]
    if through == "connector":  # What vLLM tells no tier.
        rope = {"rope_parameters": {"rope_type": "default", "rope_theta": 3e5}}
        [stretched] = engines.run(with_nearkv | {"hf_overrides": rope})
        assert stretched["cached"] == NONE
    # And back.
    shutil.copytree(small_llama, model, dirs_exist_ok=True)
    [back] = engines.run(with_nearkv)
    assert (back["cached"], back["tokens"]) == (CACHED, first["tokens"])


def test_a_decoder_does_not_compute_what_a_prefiller_did(engines, plain, tmp_path):
    with Daemon(tmp_path) as daemon:
        prefill = connect(socket=daemon.socket, role="kv_producer")
        decode = connect(socket=daemon.socket, role="kv_consumer")
        idle, _, decoding, prefilling = engines.run(decode, prefill, decode, prefill)
        assert [answer["tokens"] for answer in (idle, decoding, prefilling)] == [plain] * 3
        # Neither does the other's work.
        assert (idle["cached"], prefilling["cached"]) == (NONE, NONE)
        assert decoding["cached"] == CACHED


def test_an_answer_hands_over_what_is_stored_and_takes_what_others_have(engines, plain, tmp_path):
    with Daemon(tmp_path) as daemon:
        seen = {"looks_at": daemon.socket, "max_tokens": 1}
        prefill = connect(socket=daemon.socket, hand_over=True)
        decode = connect(socket=daemon.socket)
        others = connect(socket=daemon.socket, salt="others")
        late, *first, decoding = engines.run(others | seen, *[prefill | seen] * 2, decode)
    # Without it blocks of a last step are stored after the answer.
    assert late["stored"] == 0
    assert [answer["tokens"] for answer in first] == [[tokens[:1] for tokens in plain]] * 2
    # Of the second engine there is nothing more to store: it loaded all.
    assert [answer["cached"] for answer in first] == [NONE, CACHED]
    assert [answer["stored"] - BLOCKS for answer in first] == [BLOCKS] * 2
    assert (decoding["tokens"], decoding["cached"]) == (plain, CACHED)


def test_an_engine_works_on_without_its_daemon(engines, plain, tmp_path):
    with Daemon(tmp_path) as daemon:
        shared = connect(socket=daemon.socket)
        first, later = engines.run(shared, shared, kills=daemon.process_id)
    assert (first["tokens"], later["tokens"]) == (plain, plain)
    assert later["cached"] == NONE


@pytest.mark.long
def test_a_pool_too_small_for_a_prompt_costs_no_token(engines, plain, tmp_path):
    # It has room for two of three, which come one by one: each throws out what was before.
    with Daemon(tmp_path, size="3MiB") as daemon:
        prefill = connect(socket=daemon.socket, hand_over=True) | {"max_num_batched_tokens": 64}
        decode = connect(socket=daemon.socket)
        first, later = engines.run(prefill, decode, max_num_seqs=1)
        with ObjectStore.connect(daemon.socket) as store:
            assert store.stats().evictions > 0
    assert (first["tokens"], later["tokens"]) == (plain, plain)
    assert sum(later["cached"]) < sum(CACHED)


def test_events_tell_what_the_store_holds_also_to_who_comes_late(engines, tmp_path):
    published = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"ipc://{tmp_path}/events",
        "replay_endpoint": f"ipc://{tmp_path}/replay",
    }
    pool = in_file(tmp_path / "pool", enable_kv_events=True)
    first, later = engines.run(pool, pool, kv_events_config=published)
    with ObjectStore.open(f"cpu:{tmp_path}/pool?memory=256MiB") as store:
        index = {hash_in_events(info.key) for info in store.objects()}
    assert len(index) == BLOCKS
    for answer in (first, later):  # The later engine stored nothing.
        for events in (answer["events"], answer["replayed"]):
            told = [event for event in events if event["medium"] == "CPU_TIER2"]
            assert {event["type"] for event in told} == {"BlockStored"}
            assert Counter(name for event in told for name in event["hashes"]) == Counter(index)


@pytest.mark.long
def test_ranks_store_their_parts_of_a_block(engines, plain, tmp_path):
    with Daemon(tmp_path) as daemon:
        shared = connect(socket=daemon.socket) | {"tensor_parallel_size": 2}
        first, later = engines.run(shared, shared)
    assert (first["tokens"], later["tokens"]) == (plain, plain)
    assert (first["cached"], later["cached"]) == (NONE, CACHED)


WRONG = (
    ({"url": "cpu:"}, "no option 'url'; is uri meant?"),
    ({"uri": "cpu:", "cpu_bytes_to_use": 1}, "no option 'cpu_bytes_to_use'"),
    ({"uri": "cpu:", "medium": "CXL"}, "medium is one of"),
    ({"uri": "cpu:", "blocks_per_chunk": 2}, "--block-size"),
    ({"uri": "cpu:", "canonical_layout": True}, "stores blocks as they lie"),
    ({"uri": "cpu:", "layerwise": True, "async": True}, "no option 'async'"),
    ({"uri": "cpu:", "hand_over": True, "role": "kv_consumer"}, "hand_over needs an engine that"),
    ({"socket": "/nonexistent/nearkv.sock"}, "/nonexistent/nearkv.sock"),
)


@pytest.fixture(scope="module")
def refusals(engines: Engines) -> list[str]:
    """What engines say of each: all in one process, for each takes seconds."""
    return [answer.get("error", "") for answer in engines.run(*(connect(**e) for e, _ in WRONG))]


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[said for _, said in WRONG])
def test_a_wrong_configuration_is_refused_with_what_is_wrong(refusals, number):
    assert WRONG[number][1] in refusals[number]
