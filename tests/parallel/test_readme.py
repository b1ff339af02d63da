"""The README's lines, started by torchrun as it says."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from transformers import AutoModelForCausalLM

from bench.engines.environment import ROOT
from tests.engines.transformers_models import CONFIGS, make_model, random_tokens

README = ROOT / "engine_integration" / "nearkv" / "parallel" / "README.md"
BEFORE = """
import json, sys
import torch
torch.set_num_threads(1)
FOLDER = sys.argv[1]
inputs = {"input_ids": torch.tensor(json.loads(sys.argv[2])), "max_new_tokens": 8}
inputs |= {"do_sample": False}
"""
AFTER = """
assert output.shape == (1, 8, count, 64) and torch.isfinite(output).all()
if dist.get_rank() == 0:
    print("TOKENS", json.dumps(generated.tolist()))
dist.destroy_process_group()
"""


def test_the_readmes_lines_run_under_torchrun(tmp_path: Path) -> None:
    text = README.read_text().rpartition("```")[2]  # What follows the picture.
    blocks = re.findall(r"(?:^(?:    .*|)\n)+", text, re.MULTILINE)
    lines = textwrap.dedent("".join(block for block in blocks if block.strip()))
    assert lines.count("Links(") == 2
    model = make_model(CONFIGS["llama, groups of 2"], torch.float32)
    model.save_pretrained(tmp_path / "model")
    prompt = random_tokens(1, 90)
    (tmp_path / "program.py").write_text(BEFORE + lines + AFTER)
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    program = [tmp_path / "program.py", tmp_path / "model", json.dumps(prompt.tolist())]
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, *launch, *map(str, program)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo"},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    (told,) = re.findall(r"TOKENS (.*)", done.stdout)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "model").generate(
        input_ids=prompt, max_new_tokens=8, do_sample=False
    )
    assert json.loads(told) == plain.tolist()
