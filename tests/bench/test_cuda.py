"""The bench of GPUs, on emulated kernels: it runs, and says what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from nearkv.results import read_results

pytest.importorskip("nearkv.core", exc_type=ImportError)
torch = pytest.importorskip("torch")


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "cuda", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_part_of_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = _run("--tiny", "--json", str(file))
    assert done.returncode == 0, done.stderr
    results = {result.name: result for result in read_results(file).results}
    for part in ("attend_group_4", "page_rows_delta4", "page_bounds_rows_8", "near_commands"):
        assert results[f"cuda/{part}"].ratio, part
    assert len({result.device for result in results.values()}) == 1
    assert sum("/step_" in name for name in results) == 2
    assert sum("/gather_top_2048_" in name for name in results) == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_what_it_needs() -> None:
    done = _run()
    assert done.returncode == 1
    assert "there is no GPU that torch sees" in done.stderr
