"""The SystemVerilog package: constants, types, the register map and pure functions."""

from __future__ import annotations

from .model import REGISTER_BITS, Constant, Contract, Enum, Field, FlagSet, Register, Struct
from .sv_functions import function_lines
from .text import BANNER, field_text, line_comment, pascal


def emit(contract: Contract) -> str:
    """The text of nkv_abi_pkg.sv."""
    lines = [
        f"// {BANNER}",
        "//",
        *line_comment(
            "// ", f"{contract.title}, version {contract.abi_major}.{contract.abi_minor}."
        ),
        *line_comment(
            "// ",
            "The first member of a packed struct is its most significant part, so members stand in"
            " reverse: byte 0 of a structure in memory is bits 7:0 of the struct.",
        ),
        "",
        "package nkv_abi_pkg;",
        "",
        "  // A package offers more than any one of its users needs.",
        "  // verilator lint_off UNUSEDPARAM",
        *_identity_lines(contract),
        *constants_lines("Limits", contract.limits),
        *constants_lines("Number formats", contract.formats),
    ]
    for enum in contract.enums:
        lines += enum_lines(enum)
    for flags in contract.flag_sets:
        lines += _flag_lines(flags, contract.flag_set_bits(flags))
    for struct in contract.structs:
        lines += _struct_lines(struct)
    lines += _register_map_lines(contract)
    lines += _csr_lines(contract)
    lines += function_lines(contract)
    lines += ["", "  // verilator lint_on UNUSEDPARAM", "", "endpackage", ""]
    return "\n".join(lines)


def _identity_lines(contract: Contract) -> list[str]:
    return [
        "",
        f"  localparam logic [63:0] AbiId = {sv_hex(64, contract.abi_id)};",
        f"  localparam logic [15:0] AbiMajor = 16'd{contract.abi_major};",
        f"  localparam logic [15:0] AbiMinor = 16'd{contract.abi_minor};",
        f"  localparam logic [31:0] PageMagic = {sv_hex(32, contract.page.magic)};",
        f"  localparam logic [15:0] PageVersion = 16'd{contract.page.version};",
    ]


def sv_hex(bits: int, value: int) -> str:
    """A sized hexadecimal literal, grouped in fours."""
    return f"{bits}'h{value:0{bits // 4 + (bits // 4 - 1) // 4}_x}"


def field_type(field: Field) -> str:
    """The packed type of a structure's field."""
    if field.enum:
        return f"{field.enum.name}_e"
    sign = " signed" if field.type == "i" else ""
    bits = f"[{field.bits - 1}:0]"
    if not field.is_array:
        return f"logic{sign} {bits}"
    count = pascal(field.count.name) if field.count.name else field.count.value
    last = f"{count}-1" if field.count.name else field.count.value - 1
    return f"logic{sign} [{last}:0]{bits}"


def constants_lines(title: str, constants: tuple[Constant, ...]) -> list[str]:
    """A localparam for each."""
    lines = ["", f"  // {title}"]
    for item in constants:
        lines += line_comment("  // ", f"[{item.unit}] {item.doc}" if item.unit else item.doc)
        lines.append(f"  localparam int unsigned {pascal(item.name)} = {item.value};")
    return lines


def enum_lines(enum: Enum) -> list[str]:
    """Its type."""
    lines = ["", *line_comment("  // ", enum.doc), f"  typedef enum logic [{enum.width - 1}:0] {{"]
    for index, value in enumerate(enum.values):
        comma = "," if index + 1 < len(enum.values) else ""
        lines += line_comment("    // ", value.doc)
        lines.append(
            f"    {pascal(enum.name)}{pascal(value.name)} = {enum.width}'d{value.value}{comma}"
        )
    return [*lines, f"  }} {enum.name}_e;"]


def _flag_lines(flags: FlagSet, bits: int) -> list[str]:
    prefix = pascal(flags.name)
    lines = ["", *line_comment("  // ", f"{flags.doc} Bit numbers, and the mask of all.")]
    for flag in flags.flags:
        lines += line_comment("  // ", flag.doc)
        lines.append(f"  localparam int unsigned {prefix}{pascal(flag.name)} = {flag.bit};")
    return [*lines, f"  localparam logic [{bits - 1}:0] {prefix}All = {sv_hex(bits, flags.mask)};"]


def _struct_lines(struct: Struct) -> list[str]:
    lines = ["", *line_comment("  // ", struct.doc), "  typedef struct packed {"]
    for field in reversed(struct.fields):
        lines += line_comment("    // ", f"Byte {field.offset}. {field_text(field)}")
        lines.append(f"    {field_type(field)} {field.name};")
    lines.append(f"  }} {struct.name}_t;")
    return [*lines, f"  localparam int unsigned {pascal(struct.name)}Bytes = {struct.size};"]


def _register_map_lines(contract: Contract) -> list[str]:
    lines = ["", "  // Registers: byte offsets; fields by lowest bit and width"]
    for register in contract.registers:
        name = f"Reg{pascal(register.name)}"
        lines += line_comment("  // ", f"[{register.access}] {register.doc}")
        lines.append(f"  localparam logic [31:0] {name} = {sv_hex(32, register.offset)};")
        if register.is_array:
            count = pascal(register.count.name) if register.count.name else register.count.value
            lines += [
                f"  localparam int unsigned {name}Count = {count};",
                f"  localparam int unsigned {name}Stride = {register.stride};",
            ]
        for field in register.fields:
            if field.name:
                prefix = f"  localparam int unsigned {name}{pascal(field.name)}"
                lines += [f"{prefix}Lsb = {field.lsb};", f"{prefix}Bits = {field.bits};"]
    end = contract.register_map_bytes
    return [*lines, f"  localparam int unsigned RegMapBytes = {end};"]


def _csr_lines(contract: Contract) -> list[str]:
    """The types of the CSR block's ports: what software wrote, and what the device shows it."""
    stored = [register for register in contract.registers if register.is_stored]
    driven = [register for register in contract.registers if register.is_driven]
    lines = []
    for register in [*stored, *driven]:
        if not register.is_whole:
            lines += ["", f"  // Fields of {register.name}", "  typedef struct packed {"]
            for field in reversed(register.fields):
                if not field.is_constant:
                    bits = f" [{field.bits - 1}:0]" if field.bits > 1 else ""
                    lines.append(f"    logic{bits} {field.name.lower()};")
            lines.append(f"  }} csr_{register.name.lower()}_t;")
    lines += _port_lines("What software wrote; pulses are high for one cycle", "reg2hw", stored)
    lines += _port_lines("What software is to read", "hw2reg", driven)
    return lines


def _port_lines(doc: str, name: str, registers: list[Register]) -> list[str]:
    lines = ["", f"  // {doc}", "  typedef struct packed {"]
    for register in registers:
        lower = register.name.lower()
        value = f"[{REGISTER_BITS - 1}:0]" if register.is_whole else ""
        index = f"[Reg{pascal(register.name)}Count-1:0]" if register.is_array else ""
        kind = f"logic {index}{value}" if register.is_whole else f"csr_{lower}_t {index}".rstrip()
        lines.append(f"    {kind} {lower};")
    return [*lines, f"  }} csr_{name}_t;"]
