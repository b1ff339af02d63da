"""Writes what the C++ and Verilated tests expect, from the independent reading of the contract.

    emit_vectors.py FOLDER

structs.inc, fields.inc     every structure of a device, and every element of it with its place
rules.inc                   what each field of a command may hold
registers.inc               the byte offset of every register there is
page_layouts.inc            page layouts of many shapes
contract_probe.sv           a module that takes those structures apart and calls every function
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from contract_oracle import FieldRule, Oracle

SHAPE_COUNT = 400
DIMS = (0, 1, 16, 17, 48, 64, 80, 128, 192, 256, 512, 576, 65535)


def elements(rule: FieldRule) -> Iterator[tuple[str, str, int]]:
    """Each element of a field: its C and SystemVerilog name, its port's name, its byte offset."""
    for i in range(rule.count):
        offset = rule.offset + i * rule.bits // 8
        if rule.count == 1:
            yield rule.name, rule.name, offset
        else:
            yield f"{rule.name}[{i}]", f"{rule.name}_{i}", offset


def fields_inc(oracle: Oracle) -> Iterator[str]:
    """FIELD(structure, element, port, byte offset, bits) for each element of each structure."""
    for struct in oracle.device_structs:
        for rule in oracle.fields(struct):
            for name, port, offset in elements(rule):
                yield f"FIELD({struct}, {name}, {struct}_{port}_o, {offset}, {rule.bits})"


def rules_inc(oracle: Oracle) -> Iterator[str]:
    """One initialiser of a Rule for each field of each command."""
    for command in oracle.commands:
        for rule in oracle.fields(command):
            allowed = ", ".join(f"{value}u" for value in rule.allowed)
            numbers = ", ".join(
                f"{number}ull" for number in (rule.min, rule.max, rule.multiple, rule.mask)
            )
            yield (
                f'{{"{command}", "{rule.name}", {rule.offset}, {rule.bits // 8}, {rule.count},'
                f" {numbers}, {{{allowed}}}}},"
            )


def registers_inc(oracle: Oracle) -> Iterator[str]:
    """Every byte offset at which a register starts."""
    for register in oracle.toml["register"]:
        count = register.get("count", 1)
        for index in range(oracle.limits.get(count, count)):
            yield f"{register['offset'] + index * register.get('stride', 0)},"


def page_layouts_inc(oracle: Oracle) -> Iterator[str]:
    """One initialiser of a LayoutCase for each of many shapes, the sensible ones among them."""
    generator = random.Random(1)
    for _ in range(SHAPE_COUNT):
        shape = {
            "k_form": generator.randrange(4),
            "v_form": generator.randrange(4),
            "dtype": generator.randrange(8),
            "flags": generator.choice((0, 1, 2, 4, 255)),
            "head_dim": generator.choice(DIMS),
            "value_dim": generator.choice(DIMS),
        }
        layout = oracle.layout(shape)
        yield (
            f"{{{{{', '.join(map(str, shape.values()))}}},"
            f" {{{', '.join(map(str, layout.offsets))}}},"
            f" {{{', '.join(map(str, layout.sizes))}}}, {layout.total}}},"
        )


def probe_sv(oracle: Oracle) -> Iterator[str]:
    """The module; every port ends in _i or _o."""
    ports, body = [], []
    for struct, item in oracle.device_structs.items():
        ports.append(f"input  logic [{item['size'] * 8 - 1}:0] {struct}_i")
        body += [f"  {struct}_t {struct};", f"  assign {struct} = {struct}_t'({struct}_i);"]
        for rule in oracle.fields(struct):
            for name, port, _ in elements(rule):
                ports.append(f"output logic [{rule.bits - 1}:0] {struct}_{port}_o")
                body.append(f"  assign {struct}_{port}_o = {struct}.{name};")
    for command in oracle.commands:
        ports += [
            f"output logic [7:0] {command}_status_o",
            f"output logic [63:0] {command}_detail_o",
        ]
        body += [
            f"  fields_t {command}_broken;",
            f"  assign {command}_broken = broken_{command}({command});",
            f"  assign {command}_status_o = {command}_broken != '0 ? StatusBadField : StatusOk;",
            "  always_comb begin",
            f"    {command}_detail_o = '0;",
            "    for (int i = CommandBytes - 1; i >= 0; i--) begin",
            f"      if ({command}_broken[i]) {command}_detail_o = 64'(i);",
            "    end",
            "  end",
        ]
    count = len(oracle.device_arrays)
    shape = {"k_form": 8, "v_form": 8, "dtype": 8, "flags": 8, "head_dim": 16, "value_dim": 16}
    types = {"k_form": "row_form_e", "v_form": "row_form_e", "dtype": "dtype_e"}
    body += ["  page_shape_t shape;", "  page_layout_t layout;"]
    for name, bits in shape.items():
        ports.append(f"input  logic [{bits - 1}:0] shape_{name}_i")
        value = f"{types[name]}'(shape_{name}_i)" if name in types else f"shape_{name}_i"
        body.append(f"  assign shape.{name} = {value};")
    ports += [f"output logic [{32 * count - 1}:0] layout_{part}_o" for part in ("offset", "bytes")]
    ports.append("output logic [31:0] layout_total_bytes_o")
    body.append("  assign layout = page_layout(shape);")
    body += [
        f"  assign layout_{part}_o = layout.{part};" for part in ("offset", "bytes", "total_bytes")
    ]
    yield "module contract_probe"
    yield "  import nkv_abi_pkg::*;"
    yield "("
    yield ",\n".join(f"  {port}" for port in ports)
    yield ");"
    yield from body
    yield "endmodule"


def main() -> None:
    """Writes the files into the folder named on the command line."""
    oracle, folder = Oracle(), Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "structs.inc": (f"STRUCT({struct})" for struct in oracle.device_structs),
        "commands.inc": (f"COMMAND({command})" for command in oracle.commands),
        "fields.inc": fields_inc(oracle),
        "rules.inc": rules_inc(oracle),
        "registers.inc": registers_inc(oracle),
        "page_layouts.inc": page_layouts_inc(oracle),
        "contract_probe.sv": probe_sv(oracle),
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
