"""Vitis's scripts without Vitis: what they would run on, and the parser of its reports."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_VITIS = _ROOT / "hls" / "vitis"
# Hand-made: Vitis was not at hand to record one.
_REPORT = Path(__file__).parent / "hand_made_csynth.xml"


def _run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", str(_VITIS / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.quick
def test_a_report_fills_the_columns_of_the_rtls_table() -> None:
    done = _run("report.py", _REPORT)
    assert done.returncode == 0, done.stderr
    head, _, row = done.stdout.splitlines()
    cells = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert cells["LUT"] == "34,567"
    assert cells["FF"] == "45,678"
    assert cells["DSP"] == "256"
    assert cells["BRAM36"] == "15.5"
    assert cells["URAM"] == "4"
    assert cells["ns"] == "2.433"
    columns = (_ROOT / "rtl" / "syn" / "AREA.md").read_text(encoding="utf-8")
    assert "| block | LUT | of them RAM | FF | DSP | BRAM36 |" in columns
    assert head.startswith("| block | LUT | of them RAM | FF | DSP | BRAM36 |")


@pytest.mark.quick
def test_a_clock_that_is_too_slow_is_missed(tmp_path: Path) -> None:
    slow = tmp_path / "csynth.xml"
    slow.write_text(_REPORT.read_text(encoding="utf-8").replace("2.433", "4.1"), encoding="utf-8")
    assert "4.1 MISSED" in _run("report.py", slow).stdout


@pytest.mark.quick
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("<LUT>34567</LUT>", "", "has no AreaEstimates/Resources/LUT"),
        ("<DSP>256</DSP>", "<DSP>many</DSP>", "is no number"),
        ("</profile>", "", "is no XML"),
    ],
)
def test_a_report_of_another_form_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    changed = tmp_path / "csynth.xml"
    text = _REPORT.read_text(encoding="utf-8")
    at = text.rindex(old)
    changed.write_text(text[:at] + new + text[at + len(old) :], encoding="utf-8")
    done = _run("report.py", changed)
    assert done.returncode == 1
    assert told in done.stderr


@pytest.mark.quick
def test_every_kernel_has_a_configuration(tmp_path: Path) -> None:
    done = _run("build.py", "--write", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    written = {path.stem for path in tmp_path.glob("*.cfg")}
    assert {"nearkv_score", "nearkv_attend", "nearkv_topk", "nearkv_quantise"} <= written
    for path in tmp_path.glob("*.cfg"):
        lines = dict(
            line.split("=", 1)
            for line in path.read_text(encoding="utf-8").splitlines()
            if "=" in line and not line.startswith("#")
        )
        assert Path(lines["syn.file"]).exists()
        assert 'extern "C"' in Path(lines["syn.file"]).read_text(encoding="utf-8")
        assert lines["syn.top"] == path.stem
        assert lines["part"]


@pytest.mark.quick
def test_no_such_kernel() -> None:
    done = _run("build.py", "nearkv_scores")
    assert done.returncode == 2
    assert "no kernel nearkv_scores" in done.stderr
