"""A router fed by a real vLLM on the CPU: it knows a prompt's blocks as the engine does."""

from pathlib import Path

import pytest

from bench.engines.environment import Environment
from tests.engines.vllm_engines import BLOCK_TOKENS, PROMPTS

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)
PROGRAM = Path(__file__).parent / "router_program.py"
BLOCKS = [len(prompt) // BLOCK_TOKENS for prompt in PROMPTS]


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
def test_a_router_knows_what_vllm_has(
    vllm: Environment, small_llama: Path, tmp_path: Path, algorithm: str
) -> None:
    question = {
        "model": str(small_llama),
        "folder": str(tmp_path),
        "prompts": PROMPTS,
        "salt": "tenant",
        "algorithm": algorithm,
    }
    answer = vllm.run(PROGRAM, question, timeout_s=600)
    assert "PYTHONHASHSEED" in answer.pop("other")
    assert answer == {
        "before": [0, 0, 0],
        "salted": BLOCKS[:1],
        "unsalted": [0],
        "after": BLOCKS,
        "late": BLOCKS,
        "tiers": ["GPU"],
    }
