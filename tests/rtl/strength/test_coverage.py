"""How the counts of benches meet, and what modules are held to."""

import tomllib
from pathlib import Path

import pytest

from tests.rtl.strength import coverage

pytestmark = pytest.mark.quick


def record(page: str, line: int, name: str, lines: str, place: str, count: int) -> str:
    file = str(coverage.RTL / "lib/nkv_fifo.sv")
    keys = {"f": file, "l": line, "n": 3, "page": page, "o": name, "S": lines, "h": place}
    text = "".join(f"\x01{key}\x02{value}" for key, value in keys.items() if value)
    return f"C '{text}' {count}\n"


def test_points_of_a_module_meet_whatever_bench_and_place_they_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    line, bit = "v_line/nkv_fifo__D8", "v_toggle/nkv_fifo__D16"
    (tmp_path / "one.dat").write_text(
        record(line, 10, "if", "10-12", "TOP.a", 0)
        + record(line, 10, "else", "13", "TOP.a", 2)
        + record(line, 20, "if", "20", "TOP.a", 0)
        + record(bit, 5, "used_o[0]", "", "TOP.a", 1)
    )
    (tmp_path / "two.dat").write_text(
        record(line, 10, "if", "10-12", "TOP.b", 1) + record(bit, 5, "used_o[0]", "", "TOP.b.c", 1)
    )
    monkeypatch.setattr(coverage, "DATA", tmp_path)
    fifo = coverage.read_modules()["lib/nkv_fifo.sv"]
    assert fifo.missed == [20]
    assert len(fifo.lines) == 5
    assert fifo.percent == 80
    assert (fifo.toggled, len(fifo.bits)) == (1, 1)


def test_the_whole_counts_for_modules_of_which_it_runs_more_than_benches_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def record_of(file: str, count: int) -> str:
        text = record("v_line/m", 10, "if", "10", "TOP.a", count)
        return text.replace("lib/nkv_fifo.sv", file)

    (tmp_path / "rtl_fifo_test.dat").write_text(
        record_of("lib/nkv_fifo.sv", 0) + record_of("lib/nkv_delay.sv", 1)
    )
    (tmp_path / "whole.dat").write_text(
        record_of("lib/nkv_fifo.sv", 9)
        + record_of("lib/nkv_delay.sv", 0)
        + record_of("nkv_top.sv", 9)
    )
    monkeypatch.setattr(coverage, "DATA", tmp_path)
    modules = coverage.read_modules()
    assert modules["lib/nkv_fifo.sv"].missed == []
    assert modules["lib/nkv_delay.sv"].missed == []
    assert modules["nkv_top.sv"].missed == []


def test_modules_are_held_to_the_threshold_and_exceptions_to_their_need():
    good, bad = coverage.Module(), coverage.Module()
    good.lines[1] = {"if": 1}
    bad.lines[1] = {"if": 0}
    modules = dict.fromkeys(coverage.all_modules(), good) | {"lib/nkv_fifo.sv": bad}
    del modules["lib/nkv_delay.sv"]
    table = {
        "lines": 95,
        "exceptions": {"lib/nkv_top_bits.sv": "", "gone.sv": ""},
    }
    assert coverage.judge(modules, table) == [
        "lib/nkv_delay.sv: no test has it",
        "lib/nkv_fifo.sv: 0.0 % of its lines run",
        "lib/nkv_top_bits.sv: 100.0 % of its lines run; no exception needed",
        "gone.sv: no such module",
    ]
    table["exceptions"] = {"lib/nkv_fifo.sv": "", "lib/nkv_delay.sv": ""}
    assert coverage.judge(modules, table) == []


def test_every_exception_has_a_reason():
    table = tomllib.loads(coverage.TABLE.read_text())
    assert all(table["exceptions"].values())
