"""The bench of GPUs, on emulated kernels: it runs, and says what it needs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import Context, Skipped
from bench.gpu.resources import taken_in
from bench.result_file import read_results

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("torch")

import torch

from bench.gpu import baselines
from bench.gpu.place import Place


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "cuda", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_part_of_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = _run("--tiny", "--json", str(file))
    assert done.returncode == 0, done.stderr
    results = {result.name: result for result in read_results(file).results}
    for part in ("attend_group_4", "attend_rate_group_4"):
        assert results[f"cuda/{part}"].ratio, part
    assert "not measured: cuda: attention beside FlashInfer's: " in done.stdout or any(
        "flashinfer" in name for name in results
    )
    assert len({result.device for result in results.values()}) == 1


def test_a_peer_that_does_not_compile_is_said_and_the_next_one_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compile_in_vain(*_: object) -> None:
        raise RuntimeError("ninja: building\nno compiler")

    monkeypatch.setattr(baselines, "_flashinfer_missing", lambda place: "")
    monkeypatch.setattr(baselines, "_flashinfers", compile_in_vain)
    monkeypatch.setattr(baselines, "_flashinfers_of_one", baselines._torchs)
    names = []
    with pytest.raises(Skipped) as skipped:
        for result in baselines.run(Context(tiny=True), Place(torch.device("cpu"), True)):
            names.append(result.name)
    assert [name for name in names if "flashinfer" in name] == [
        f"cuda/attend_rate_group_{group}_flashinfer_one" for group in (1, 4, 8)
    ]
    assert skipped.value.args == tuple(
        f"FlashInfer's BatchDecodeWithPagedKVCacheWrapper, groups of {group}: no compiler"
        for group in (1, 4, 8)
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_without_a_gpu_it_says_what_kernels_take_and_what_was_not_measured(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = _run("--json", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("not measured: cuda: ")
    results = {result.name: result for result in read_results(file).results}
    for kernel in ("Merge", "Attend_1", "Attend_8"):
        assert 0 < results[f"cuda/{kernel}/threads"].value <= 2048
        assert 16 <= results[f"cuda/{kernel}/threads"].extra["registers"] <= 255
        assert results[f"cuda/{kernel}/spilled"].met


def test_what_spills_is_counted_both_ways() -> None:
    told = """
ptxas info    : Compiling entry function '_ZN6nearkv4cuda5entryINS0_6AttendILj8EEEEEvT_' for 'sm_90'
ptxas info    : Function properties for _ZN6nearkv4cuda5entryINS0_6AttendILj8EEEEEvT_
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 130 registers, used 1 barriers
"""
    (taken,) = taken_in(told)
    assert (taken.kernel, taken.registers, taken.spilled_bytes) == ("Attend_8", 130, 32)
    # 136 registers are given to a thread of 130.
    assert taken.threads == 65536 // (136 * 32) * 32
