"""What tests of vLLM share: what engines are asked, and how they are run."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from bench.engines.environment import ROOT, Environment

PROGRAM = Path(__file__).parent / "vllm_program.py"
PROMPTS = [[1, *(3 + (i * 7 + j * j) % 500 for i in range(300 + 50 * j))] for j in range(3)]
BLOCK_TOKENS = 32
# All whole blocks but for what follows them: the last token has to be computed.
CACHED = [(len(prompt) - 1) // BLOCK_TOKENS * BLOCK_TOKENS for prompt in PROMPTS]


class Answer(dict[str, Any]):
    """What an engine told of its run; one that failed told why instead, and a test should, too."""

    def __missing__(self, key: str) -> None:
        raise AssertionError(f"no '{key}' of this engine, but {dict(self)}")


class Engines:
    """Runs engines, one after the other in a process."""

    def __init__(self, environment: Environment, model: Path) -> None:
        self._environment = environment
        self._model = model

    def run(self, *runs: dict[str, Any], kills: int | None = None, **options: Any) -> list[Answer]:
        """Each of `runs` is an engine; `options` are of all; `kills` ends before the last works."""
        question = {
            "model": str(self._model),
            "prompts": PROMPTS,
            "runs": [options | run for run in runs],
        }
        question["runs"][-1]["kills"] = kills
        return [Answer(told) for told in self._environment.run(PROGRAM, question, timeout_s=280)]


def shown(connector: str) -> dict[str, Any]:
    """The README's configuration of a connector."""
    readme = (ROOT / "engine_integration" / "nearkv" / "vllm" / "README.md").read_text()
    found = re.findall(r"--kv-transfer-config '(.*?)'", readme, re.DOTALL)
    [config] = [c for c in map(json.loads, found) if c["kv_connector"] == connector]
    return config


def offload(tier: dict[str, Any]) -> dict[str, Any]:
    """The README's configuration, with less memory, and a tier of these options."""
    config = shown("OffloadingConnector")
    extra = config["kv_connector_extra_config"]
    extra["cpu_bytes_to_use"] = 64 << 20
    (readme,) = extra["secondary_tiers"]
    del readme["uri"]
    readme |= tier
    return {"kv_transfer_config": config}


def hash_in_events(key: bytes) -> str:
    """What vLLM's events call the block of an object: the low 64 bits of its hash."""
    return str(int.from_bytes(key, "big") & (2**64 - 1))


def entry_points_of_the_wheel(folder: Path) -> Path:
    """A distribution with no more than what pyproject.toml says of entry points."""
    told = folder / "nearkv-0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: nearkv\nVersion: 0\n")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (told / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder
