"""What decode steps of several batches tell together."""

import pytest

from bench.decode_model import with_what_they_tell
from nearkv.results import Result

pytestmark = pytest.mark.quick


def a_step(batch: str, step_ms: float, rest_ms: float, kv_bytes: int, grown_bytes: int) -> Result:
    extra = {
        "step_ms": step_ms,
        "rest_ms": rest_ms,
        "kv_bytes_per_step": kv_bytes,
        "grown_bytes": grown_bytes,
        "gb_per_s": kv_bytes / (step_ms - rest_ms) / 1e6,
    }
    name = f"decode/vllm_{batch}_threads2"
    return Result(name=name, value=1e3 / step_ms, unit="steps/s", extra=extra)


# Attention read the larger batch at 20 GB/s, and the smaller one at 10.
LARGE = a_step("8x7000", 70, 20, 1_000_000_000, 10_000_000)
SMALL = a_step("1x7000", 30, 20, 100_000_000, 40_000_000)


def told(*steps: Result) -> dict[str, Result]:
    results = with_what_they_tell("vllm", 2, [[step] for step in steps])
    return {result.name.rpartition("/")[2]: result for result in results}


def test_a_batch_is_foretold_from_the_bandwidth_of_the_largest():
    model = told(SMALL, LARGE)["vllm_time_model_threads2"]
    assert model.extra["gb_per_s"] == pytest.approx(20)
    # 20 + 5 ms where 30 were measured.
    assert model.extra["vllm_1x7000_threads2"] == pytest.approx(-1 / 6)
    assert model.value == pytest.approx(1 / 6)
    assert not model.met


def test_nothing_is_foretold_from_one_batch_alone():
    assert "vllm_time_model_threads2" not in told(LARGE)


def test_memory_is_that_of_all_batches_beside_the_largest_ones_rows():
    memory = told(SMALL, LARGE)["vllm_kv_memory_threads2"]
    assert memory.value == pytest.approx(1.05)
    assert memory.met
