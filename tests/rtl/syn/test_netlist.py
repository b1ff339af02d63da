"""Counts and depths of netlists whose answers are known, and the table made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import area_table
import flow
import netlist
import pytest
import synthesise

pytestmark = pytest.mark.quick

DIRECTIONS = {
    "FDRE": {"C": "input", "CE": "input", "D": "input", "Q": "output", "R": "input"},
    "CARRY4": {
        **{"CI": "input", "CYINIT": "input", "DI": "input", "S": "input"},
        **{"O": "output", "CO": "output"},
    },
    "RAM32M16": {"ADDRA": "input", "ADDRH": "input", "DIA": "input", "DOA": "output"},
    "DSP48E2": {"A": "input", "B": "input", "P": "output"},
}


def cell(kind: str, parameters: dict[str, str] | None = None, **nets: Any) -> dict[str, Any]:
    """A cell; a net is a number, a constant, or a list of them."""
    directions = DIRECTIONS.get(kind) or {p: "output" if p == "O" else "input" for p in nets}
    return {
        "type": kind,
        "parameters": parameters or {},
        "port_directions": {p: directions[p] for p in nets},
        "connections": {p: n if isinstance(n, list) else [n] for p, n in nets.items()},
    }


def module(cells: dict[str, dict[str, Any]], names: dict[str, list[int]]) -> dict[str, Any]:
    return {
        "cells": cells,
        "netnames": {name: {"bits": bits} for name, bits in names.items()},
        "ports": {},
    }


def chain_of_luts(length: int) -> dict[str, dict[str, Any]]:
    """a_q -> `length` LUTs -> b_q; net 1 is a_q, 2 .. length + 1 are the LUTs' outputs."""
    cells = {"a": cell("FDRE", C="0", CE="1", D="0", Q=1, R="0")}
    for i in range(length):
        cells[f"lut{i}"] = cell("LUT1", I0=i + 1, O=i + 2)
    cells["b"] = cell("FDRE", C="0", CE="1", D=length + 1, Q=length + 2, R="0")
    return cells


def test_counts_what_a_device_has() -> None:
    cells = {
        **{f"l{i}": cell("LUT6", I0=1, O=2) for i in range(3)},
        **{f"c{i}": cell("CARRY4", CI=1, O=[2]) for i in range(3)},
        "m": cell("RAM32M16", ADDRA=1, ADDRH=1, DIA=1, DOA=3),
        "f": cell("FDRE", C="0", CE="1", D=1, Q=2, R="0"),
        "i": cell("INV", I=1, O=4),
        "d": cell("DSP48E2", A=1, B=1, P=5),
        "r": cell("RAMB18E2", A=1),
        "s": cell("RAMB36E2", A=1),
    }
    assert netlist.count(cells) == netlist.AreaCount(3, 8, 1, 2, 1, 1.5, 0)


def test_instances_share_what_generated_copies_take() -> None:
    lut = cell("LUT2", I0=1, I1=2, O=3)
    names = (
        "$flatten\\u_a[0].$abc$1$lut$2",
        "$flatten\\u_a[1].$flatten\\u_b.$auto$x.cc:1:y$3",
        "$abc$9$lut$4",
        "u_c.gen_x[3].memory.0.0",
    )
    parts = netlist.count_by_instance(dict.fromkeys(names, lut))
    assert {name: area.lut for name, area in parts.items()} == {"": 1, "u_a": 2, "u_c": 1}
    deeper = netlist.count_by_instance(dict.fromkeys(names, lut), levels=2)
    assert deeper["u_a.u_b"].lut == 1


@pytest.mark.parametrize("length", [0, 1, 4, 5])
def test_levels_are_luts_between_registers(length: int) -> None:
    cells = chain_of_luts(length)
    depth = netlist.measure_depth(module(cells, {"a_q": [1], "b_q": [length + 2]}), 4, 1)
    assert depth.deepest.levels == length
    if length:
        assert (depth.deepest.start, depth.deepest.end) == ("a_q", "b_q")
    assert list(depth.beyond) == (["b_q"] if length > 4 else [])


def test_inverters_are_free_and_name_what_they_turn() -> None:
    cells = {
        "a": cell("FDRE", C="0", CE="1", D="0", Q=1, R="0"),
        "i": cell("INV", I=1, O=2),
        "l": cell("LUT1", I0=2, O=3),
        "b": cell("FDRE", C="0", CE="1", D=3, Q=4, R="0"),
    }
    depth = netlist.measure_depth(module(cells, {"idle_q": [2], "b_q": [4]}), 4, 1)
    assert (depth.deepest.levels, depth.deepest.start) == (1, "idle_q")


def test_a_module_that_was_left_out_ends_paths() -> None:
    part = {
        "type": "nkv_part$nkv_whole.u_part",
        "parameters": {},
        "port_directions": {"valid_i": "input", "sum_o": "output"},
        "connections": {"valid_i": [2], "sum_o": [3]},
    }
    cells = {
        "a": cell("FDRE", C="0", CE="1", D="0", Q=1, R="0"),
        "before": cell("LUT1", I0=1, O=2),
        "u_part": part,
        "behind": cell("LUT1", I0=3, O=4),
        "b": cell("FDRE", C="0", CE="1", D=4, Q=5, R="0"),
    }
    depth = netlist.measure_depth(module(cells, {"a_q": [1], "b_q": [5]}), 0, 1)
    assert depth.deepest.levels == 1
    assert {path.end for path in depth.beyond.values()} == {"u_part", "b_q"}
    assert netlist.count(cells).lut == 2


def test_registers_and_memories_have_the_names_that_they_had() -> None:
    names = {
        "u_turns.first_q[3]\\FDPE": "u_turns.first_q[3]",
        "u_buffer.gen_bank[1].cells.0.3": "u_buffer.gen_bank[1].cells",
        "$flatten\\u_a.$auto$ff.cc:337:slice$12": "u_a",
    }
    cells = {name: cell("FDRE", C="0", CE="1", D=1, R="0") for name in names}
    found = netlist.measure_depth(module(cells, {}), -1, -1).beyond.values()
    assert {path.end for path in found} == set(names.values())


def test_a_carry_chain_counts_once_however_long() -> None:
    cells = {
        "a": cell("FDRE", C="0", CE="1", D="0", Q=1, R="0"),
        "l": cell("LUT2", I0=1, I1=1, O=2),
        "low": cell(
            "CARRY4", CI="0", CYINIT="0", DI=[1] * 4, S=[2] * 4, O=[3, 4, 5, 6], CO=[7, 8, 9, 10]
        ),
        "high": cell(
            "CARRY4", CI=10, CYINIT="0", DI=["0"] * 4, S=["0"] * 4, O=[11, 12, 13, 14],
            CO=[15, 16, 17, 18],
        ),
        "next": cell(
            "CARRY4", CI="0", CYINIT="0", DI=[14] * 4, S=[14] * 4, O=[19, 20, 21, 22],
            CO=[23, 24, 25, 26],
        ),
        "b": cell("FDRE", C="0", CE="1", D=14, Q=27, R="0"),
        "c": cell("FDRE", C="0", CE="1", D=19, Q=28, R="0"),
    }  # fmt: skip
    names = {"a_q": [1], "one_q": [27], "two_q": [28]}
    depth = netlist.measure_depth(module(cells, names), 4, 1)
    assert (depth.deepest.levels, depth.most_chains.chains) == (1, 2)
    assert {end: path.chains for end, path in depth.beyond.items()} == {"two_q": 2}


def test_a_read_of_lut_memory_is_a_level_and_its_write_ends_a_path() -> None:
    cells = {
        "a": cell("FDRE", C="0", CE="1", D="0", Q=1, R="0"),
        "m": cell("RAM32M16", ADDRA=[1], ADDRH=[1], DIA=[5], DOA=[2]),
        "l": cell("LUT1", I0=2, O=5),
    }
    depth = netlist.measure_depth(module(cells, {"place_q": [1]}), 4, 1)
    assert (depth.deepest.levels, depth.deepest.start, depth.deepest.end) == (2, "place_q", "m")


@pytest.mark.parametrize(("registers", "levels"), [({}, 1), ({"MREG": "1"}, 0), ({"AREG": "1"}, 1)])
def test_a_dsp_without_register_is_passed_through(registers: dict[str, str], levels: int) -> None:
    cells = {
        "a": cell("FDRE", C="0", CE="1", D="0", Q=1, R="0"),
        "d": cell("DSP48E2", registers, A=1, B=1, P=2),
        "b": cell("FDRE", C="0", CE="1", D=2, Q=3, R="0"),
    }
    assert netlist.measure_depth(module(cells, {}), 4, 1).deepest.levels == levels


def test_fmax_is_that_of_the_slowest_clock() -> None:
    report = {
        "utilization": {"TRELLIS_COMB": {"used": 7}, "TRELLIS_FF": {"used": 3}},
        "fmax": {"clk_i": {"achieved": 200.06}, "other": {"achieved": 300.0}},
        "critical_paths": [
            {
                "from": "posedge clk_i",
                "to": "posedge clk_i",
                "path": [
                    {"from": {"cell": "start"}, "to": {"cell": "middle"}},
                    {"from": {"cell": "middle"}, "to": {"cell": "end"}},
                ],
            }
        ],
    }
    figures = flow.route_figures(report)
    assert figures["area"] == {"lut4": 7, "ff": 3, "dsp": 0, "bram": 0}
    assert (figures["mhz"], figures["path"]) == (200.1, ["start", "end"])


def test_the_slice_is_the_sum_of_its_blocks_and_says_what_is_missing() -> None:
    table = flow.Table(
        flow.Targets(slice_lut=25, slice_dsp=2, levels=4, chains=1),
        {name: flow.Block(name, f"nkv_{name}", count=count) for name, count in
         (("one", 1), ("two", 2), ("apart", 0), ("unknown", 1))},
        [],
    )  # fmt: skip
    area = netlist.AreaCount(10, 1, 5, 0, 1, 0.5, 0)._asdict()
    path = {"levels": 5, "chains": 1, "start": "a_q", "end": "b_q"}
    figures = {"area": area, "deepest": path, "most_chains": path, "beyond": 1, "worst": [path]}
    blocks = {name: {"xcup": figures} for name in ("one", "two", "apart")}
    total, missing = area_table.slice_sum(blocks, table)
    assert (total["lut"], total["lut_ram"], total["bram36"], missing) == (30, 3, 1.5, ["unknown"])
    text = area_table.page({"tools": {}, "date": "", "blocks": blocks}, table)
    assert "| LUT | 33 | 25 | MISSED |" in text
    assert "Without unknown" in text
    assert "5 MISSED" in text


def test_committed_figures_take_a_line_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesise, "COMMITTED", tmp_path / "area.json")
    names = list(flow.load().blocks)[:2]
    figures = {"area": {"lut": 7}, "beyond": 1, "worst": [{"levels": 5}], "parts": {"": {}}}
    for name in reversed(names):
        synthesise.write_committed({name: {"xcup": figures}}, flow.load())
    assert synthesise.COMMITTED.read_text(encoding="utf-8").splitlines()[1:-1] == [
        f'"{names[0]}": {{"xcup": {{"area": {{"lut": 7}}, "beyond": 1}}}},',
        f'"{names[1]}": {{"xcup": {{"area": {{"lut": 7}}, "beyond": 1}}}}',
    ]
    blocks = synthesise.read_committed()["blocks"]
    assert blocks[names[0]]["xcup"]["area"] == figures["area"]


def test_every_block_of_the_table_is_a_module() -> None:
    modules = {flow.Path(file).stem for file in flow.sources()}
    assert {block.top for block in flow.load().blocks.values()} <= modules


@pytest.mark.parametrize(("lut", "dsp", "lines"), [(102, 50, 0), (103, 50, 1), (90, 52, 1)])
def test_more_than_two_percent_beyond_the_committed_area_is_told(
    lut: int, dsp: int, lines: int
) -> None:
    def figures(lut: int, dsp: int) -> dict[str, Any]:
        return {"area": {"lut": lut - 10, "lut_ram": 10, "dsp": dsp}}

    committed = {"blocks": {"known": {"xcup": figures(100, 50)}}}
    assert len(synthesise.excess("known", figures(lut, dsp), committed)) == lines
    assert len(synthesise.excess("new", figures(lut, dsp), committed)) == 1
