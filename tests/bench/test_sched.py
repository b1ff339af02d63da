"""The bench of policies in vLLM: what it counts, at sizes that only show that it runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.result_file import read_results

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("transformers")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_policies_are_measured_beside_vllms_own_order(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "sched", "--tiny", "--json", str(file)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    if "not measured: sched: vLLM is not here" in done.stdout:
        pytest.skip("vLLM is not here")
    results = {result.name: result for result in read_results(file).results}
    hits = results["sched/shared_prefixes/k_lpm/hits"]
    assert hits.peer_value is None or hits.value >= hits.peer_value
    for load, policy in (("shared_prefixes", "k_lpm"), ("flood", "fair_share")):
        assert results[f"sched/{load}/{policy}/mean_ttft"].value > 0
        assert results[f"sched/{load}/{policy}/rate"].peer == "vLLM's fcfs"
