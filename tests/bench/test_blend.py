"""The bench of blended prompts: what it counts, at sizes that only show that it runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.result_file import read_results

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("transformers")


def test_all_computed_is_a_full_prefill_and_none_misses_needles_across_borders(
    tmp_path: Path,
) -> None:
    file = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "blend", "--tiny", "--json", str(file)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    values = {result.name: result.value for result in read_results(file).results}
    assert abs(values["blend/ratio_100/divergence"]) < 1e-6
    assert values["blend/ratio_0/divergence"] > 1e-5
    for place in ("inside", "across"):
        assert values[f"blend/ratio_100/recall_{place}"] == 1
        assert values[f"blend/full/recall_{place}"] == 1
    assert values["blend/ratio_0/recall_across"] < 1
    for rule in ("deviation", "chunk_starts", "random"):
        assert values[f"blend/{rule}_15/first_tokens_beside_full"] > 0
