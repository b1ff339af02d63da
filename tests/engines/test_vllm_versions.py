"""What versions of vLLM differ in: blocks of the others, names at random, what is refused."""

import os
import subprocess
from pathlib import Path

import pytest

from bench.engines.environment import Environment, environment_or_skip, environments
from tests.engines.vllm_engines import CACHED, Engines, offload, shown, versions

# The first makes an environment for each of them.
pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]


def test_engines_of_all_versions_share_blocks(small_llama: Path, tmp_path: Path):
    tier = offload({"uri": f"cpu:{tmp_path}/pool?memory=256MiB"})
    answers = {}
    for name in ("vllm", *environments("vllm-*")):
        [answers[name]] = Engines(environment_or_skip(name, "vLLM"), small_llama).run(tier)
    first, oldest = answers.pop("vllm"), answers.pop("vllm-0.28")
    # vLLM 0.28 names blocks otherwise.
    assert first == oldest == {"tokens": first["tokens"], "cached": [0, 0, 0]}
    for answer in answers.values():
        assert answer == {"tokens": first["tokens"], "cached": CACHED}


@pytest.mark.parametrize(
    ("vllm", "is_told"), [("vllm-0.28", True), ("vllm", False)], indirect=["vllm"]
)
def test_who_names_blocks_at_random_is_told(vllm: Environment, is_told: bool):
    unset = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    done = subprocess.run(
        [vllm.python, "-c", "from nearkv.vllm import compat; compat.warn()"],
        capture_output=True,
        text=True,
        env=unset | vllm.variables,
    )
    assert done.returncode == 0, done.stderr
    assert ("set PYTHONHASHSEED" in done.stderr) == is_told


@pytest.mark.parametrize("vllm", versions(before="0.30"), indirect=True)
def test_a_connector_that_cannot_be_is_refused_with_what_can(vllm: Environment, small_llama: Path):
    config = shown("NearKVConnector") | {"kv_connector_extra_config": {"uri": "cpu:?memory=64MiB"}}
    [answer] = Engines(vllm, small_llama).run({"kv_transfer_config": config})
    assert "NearKVConnector needs vLLM 0.30" in answer["error"]
    assert "take NearKVTier" in answer["error"]
