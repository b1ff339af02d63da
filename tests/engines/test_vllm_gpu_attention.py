"""NearKV's attention backend for GPUs: when vLLM's CUDA platform takes it, and what it refuses.

What it computes is tested in test_vllm_attention.py, on kernels in torch.
"""

from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import Environment
from tests.engines.vllm_engines import entry_points_of_the_wheel

pytestmark = [pytest.mark.timeout(1200)]
PROGRAM = Path(__file__).parent / "vllm_backends_program.py"
OURS = "nearkv.vllm.gpu_attention.NearKVFlashAttentionBackend"
THEIRS = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
POOL = {"nearkv_attention": {"uri": "cpu:?memory=64MiB"}}

# additional_config, --attention-backend, whether the model has latents: what vLLM answers.
CASES = {
    "vLLM's own, unless asked for": (({}, None, False), THEIRS),
    "taken by its name": ((POOL, "CUSTOM", False), OURS),
    "not taken": ((POOL, None, False), "add --attention-backend CUSTOM"),
    "another one taken": ((POOL, "FLASHINFER", False), "FLASHINFER knows nothing of nearkv_"),
    "taken without a pool": (({}, "CUSTOM", False), "needs nearkv_attention"),
    "latents": ((POOL, "CUSTOM", True), "MLA not supported"),
    "latents, not taken": ((POOL, None, True), "knows nothing of nearkv_attention"),
    "a wrong name": (({"nearkv_attn": {}}, None, False), "is nearkv_attention meant?"),
}
BUILDERS = {
    "no speculative decoding": {"speculative": {}, "ubatching": False},
    "sees whole batches": {"speculative": None, "ubatching": True},
}


@pytest.fixture(scope="module")
def answer(vllm: Environment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    names = "additional_config", "backend", "mla"
    question = {
        "entry_points": str(entry_points_of_the_wheel(tmp_path_factory.mktemp("wheel"))),
        "cases": [dict(zip(names, asked, strict=True)) for asked, _ in CASES.values()],
        "builders": list(BUILDERS.values()),
    }
    # Before it imports vLLM it puts a platform in its place.
    return Environment(vllm.python).run(PROGRAM, question, timeout_s=280)


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_takes_it_by_its_name_and_ignores_no_setting(answer, name):
    _, expected = CASES[name]
    chosen = answer["chosen"][list(CASES).index(name)]
    if expected in (OURS, THEIRS):
        assert chosen == expected
    else:
        assert expected in chosen


@pytest.mark.parametrize("said", BUILDERS)
def test_what_a_gpu_cannot_do_is_refused(answer, said):
    assert said in answer["refused"][list(BUILDERS).index(said)]


def test_rows_are_read_whichever_way_blocks_lie_in_memory(answer):
    assert answer["rows"]


def test_no_graph_has_the_host_in_it(answer):
    assert answer["cudagraphs"] == "NEVER"
