"""The SystemVerilog package for the logic around the firmware's processor."""

from __future__ import annotations

from .model import Contract, Struct
from .sv_package import constants_lines, enum_lines
from .text import BANNER, field_text, line_comment, pascal


def emit(contract: Contract) -> str:
    """The text of nkv_firmware_pkg.sv."""
    lines = [
        f"// {BANNER}",
        "//",
        *line_comment(
            "// ", "Structures lie in the processor's memory: what is here are offsets of fields."
        ),
        "",
        "package nkv_firmware_pkg;",
        "",
        "  // verilator lint_off UNUSEDPARAM",
        *constants_lines("Limits", contract.limits),
    ]
    for enum in contract.enums:
        lines += enum_lines(enum)
    for struct in contract.structs:
        lines += _offset_lines(struct)
    lines += ["", "  // verilator lint_on UNUSEDPARAM", "", "endpackage", ""]
    return "\n".join(lines)


def _offset_lines(struct: Struct) -> list[str]:
    name = pascal(struct.name)
    lines = ["", *line_comment("  // ", struct.doc)]
    for field in struct.fields:
        lines += line_comment("  // ", field_text(field))
        lines.append(f"  localparam int unsigned {name}{pascal(field.name)} = {field.offset};")
    return [*lines, f"  localparam int unsigned {name}Bytes = {struct.size};"]
