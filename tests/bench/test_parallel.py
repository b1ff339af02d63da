"""The bench of ranks: what it counts is by the formulas, and its projection names its links."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.result_file import read_results

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("torch")


def test_bytes_are_those_of_the_formulas(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "parallel", "--tiny", "--json", str(file)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    results = {result.name: result for result in read_results(file).results}
    sent = [result for name, result in results.items() if name.endswith("/sent")]
    assert len(sent) == 2 * (3 + 5)
    assert all(result.met for result in sent)
    hidden = {name: result.value for name, result in results.items() if "hidden" in name}
    assert hidden and all(0 <= share <= 1 for share in hidden.values())
    assert all(share == 0 for name, share in hidden.items() if "/ulysses/" in name)
    links = {name.split("/")[3] for name in results if "/projection/" in name}
    assert links == {"nvlink", "400g", "cxl"}
