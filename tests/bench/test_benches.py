"""The benches that ship run to their end, and what they count (not time) is as it should be."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.engines.shapes import MODELS, tokens_of_the_document
from bench.result_file import read_results
from nearkv.results import Result

pytest.importorskip("nearkv.core", exc_type=ImportError)


def run_bench(name: str, folder: Path, *options: str) -> list[Result]:
    file = folder / "results.json"
    command = [sys.executable, "-m", "bench", name, "--json", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["results"]
    return read_results(file).results


@pytest.mark.quick
def test_the_shipped_document_is_found_whatever_lies_beside_it() -> None:
    pytest.importorskip("transformers")
    assert len(tokens_of_the_document(MODELS / "recall_3m")) > 10_000


@pytest.mark.default
def test_codec_bench_meets_every_size_goal(tmp_path: Path) -> None:
    results = run_bench("codec", tmp_path)
    missed = [result.name for result in results if result.met is False]
    assert not missed
    assert {result.name for result in results if result.goal} >= {
        "codec/document/k/planes_zstd/size",
        "codec/document/v/planes_zstd/size",
    }


@pytest.mark.long
def test_cpu_bench_reads_less_by_codes_and_keeps_its_memory(tmp_path: Path) -> None:
    results = {result.name: result for result in run_bench("cpu", tmp_path)}
    assert results["cpu/resident_beyond_pool"].met
    for mode, error in (("tail64", 0.3), ("bounded_10_percent", 0.2)):
        extra = results[f"cpu/{mode}_128k_d128_g4"].extra
        assert extra["near_bytes"] < extra["dense_near_bytes"] / 2
        assert max(extra["relative_errors"]) < error
    assert results["cpu/statistical_top256_128k_d128_g4/full_scan"].extra["recall"] > 0.99


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hand_over_copies_blocks_once_each_way(tmp_path: Path) -> None:
    results = {result.name: result for result in run_bench("handover", tmp_path, "--tiny")}
    for way in ("by_layers", "between_steps"):
        copied = results[f"handover/288_tokens/{way}_pool_bytes_copied_of_those_stored"]
        assert copied.value == 1
        # What the router's part hands on are names: tokens, of which engines make hashes.
        assert copied.extra["order_bytes"] < copied.extra["stored_bytes"] / 100


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_quality_of_a_real_model_is_measured_beside_other_methods(tmp_path: Path) -> None:
    options = ["--tiny", "--device", "model:"]
    results = {result.name: result for result in run_bench("quality", tmp_path, *options)}
    group = "quality/smollm2_2k"
    for error, name in (0.10, "error_10"), (0.05, "error_05"):
        bounded = results[f"{group}/{name}/bytes"]
        assert 0 < bounded.value < 1
        assert bounded.extra["largest_error"] < 2 * error
        assert results[f"{group}/divergence/{name}"].value < 0.05
    assert results[f"{group}/beside/q8_0"].value < results[f"{group}/beside/q4_0"].value
    assert results[f"{group}/statistical_256/equal_to_full"].value == 1


@pytest.fixture(scope="module")
def decode_steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("decode")
    return {result.name: result for result in run_bench("decode", folder, "--tiny")}


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_decode_steps_are_timed_in_both_ways(decode_steps: dict[str, Result]) -> None:
    results = decode_steps
    steps, *_ = (results[name] for name in results if name.startswith("decode/vllm_2x200"))
    assert 0 < steps.extra["rest_ms"] < steps.extra["expected_ms"]
    assert steps.extra["kv_bytes_per_step"] > 2 * 200 * 23040  # Bytes of a token, of this model.
    assert steps.extra["steps"] == 6
    assert results["decode/vllm_log_probability_difference"].value < 1
    assert any(name.startswith("decode/vllm_kv_memory") for name in results)
    (steps,) = (results[name] for name in results if name.startswith("decode/transformers_2x200"))
    assert steps.extra["kv_bytes_per_step"] > 2 * 200 * 23040
    assert results["decode/transformers_log_probability_difference"].value < 1


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_decode_steps_stand_beside_another_engine(decode_steps: dict[str, Result]) -> None:
    beside = [decode_steps[name] for name in decode_steps if "_beside_" in name]
    if not beside:
        pytest.skip("OpenVINO GenAI cannot be had here")
    assert {result.peer for result in beside} == {"OpenVINO GenAI"}
    assert all(result.extra["peer_step_ms"] > 0 for result in beside)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_layers_attention_is_timed_over_batches(tmp_path: Path) -> None:
    results = run_bench("batches", tmp_path, "--tiny")
    assert {result.peer for result in results if result.peer} == {
        "vLLM's kernel",
        "torch, rows that lie together",
        "torch, enable_gqa",
    }
    differences = [result for result in results if result.name.endswith("difference")]
    assert len(differences) == 6
    assert all(0 < result.value < 0.02 for result in differences)
