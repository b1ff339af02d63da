"""transformers as its README says: the lines that a user pastes, run from its text."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from transformers import DeepseekV32Config

pytest.importorskip("nearkv.core", exc_type=ImportError)
from bench.engines.environment import ROOT
from tests.engines.small_models import save_model
from tests.engines.transformers_models import INDEXED

README = ROOT / "engine_integration" / "nearkv" / "transformers" / "README.md"
# The model is small, and tests run beside each other.
torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("version", "said"),
    [("5.22.1", "needs transformers 5.23 or newer"), ("6.0.0.dev0", "was tested with")],
)
def test_a_version_that_is_not_known_is_told(version: str, said: str) -> None:
    lines = (
        f"import transformers; transformers.__version__ = {version!r}; import nearkv.transformers"
    )
    paths = os.pathsep.join(map(str, (ROOT / "engine_integration", ROOT / "build/release/python")))
    done = subprocess.run(
        [sys.executable, "-c", lines],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert said in done.stderr
    assert (done.returncode == 0) == version.startswith("6"), done.stderr


def test_the_readmes_lines_give_the_plain_tokens(small_llama: Path, tmp_path: Path) -> None:
    # Nearly all tokens are picked, so that rounding to fp16 does not decide which.
    config = DeepseekV32Config(**INDEXED | {"vocab_size": 512, "index_topk": 400})
    sparse = save_model(tmp_path / "sparse", config)
    blocks = re.findall(r"(?:^(?:    .*|)\n)+", README.read_text(), re.MULTILINE)
    lines = textwrap.dedent("".join(block for block in blocks if block.strip()))
    assert (lines.count("NearKVCache("), lines.count("NearKVSparseCache(")) == (5, 1)
    tokens = torch.arange(3, 403)[None]
    inputs = {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "max_new_tokens": 20,
        "do_sample": False,
    }
    names = {"FOLDER": small_llama, "inputs": inputs, "tokens": tokens[0].tolist()}
    names["SPARSE_FOLDER"] = sparse
    lines = lines.replace("/dev/shm", str(tmp_path)).replace("1GiB", "64MiB")
    # In fp16 and not bf16, whose rounding makes ties, and ties are broken by chance.
    lines = lines.replace("torch.bfloat16", "torch.float16")
    exec(lines.replace('4GiB"', '64MiB", dtype=torch.float16'), names)
    with names["store"] as store:
        assert store.stats().object_bytes > 0
    names["model"].set_attn_implementation("sdpa")
    names["sparse_model"].set_attn_implementation("sdpa")
    assert names["pools"].keys.stats().commands > 0
    assert torch.equal(names["picked"], names["sparse_model"].generate(**inputs))
    plain = names["model"].generate(**inputs)
    assert names["cache"].pool.stats().commands > 0
    assert torch.equal(names["output"], plain)
    assert torch.equal(names["in_place"], plain)
    assert torch.equal(names["within_error"], plain)
    assert torch.equal(names["within_budget"], plain)
    assert torch.equal(names["compiled"], plain)
    assert names["reused_tokens"] == 0
    assert int(names["logits"].argmax()) == plain[0, tokens.shape[1]]
