"""The C header: constants, enumerations, flags, structures and the register map."""

from __future__ import annotations

from .c_functions import function_lines
from .model import Constant, Contract, Enum, Field, FlagSet, Number, Register, Struct
from .text import BANNER, WIDTH, field_text, line_comment

TYPES = {"u": "uint{}_t", "i": "int{}_t", "f": "nkv_f{}"}

PROLOGUE = f"""/* {BANNER} */
#ifndef NKV_ABI_H
#define NKV_ABI_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#endif

/** IEEE 754 binary32; in the kernel, which has no floating point, its bits. */
#ifdef __KERNEL__
typedef uint32_t nkv_f32;
#else
typedef float nkv_f32;
#endif
"""

ASSERTS = """
#ifdef __cplusplus
#define NKV_STATIC_ASSERT(condition, message) static_assert(condition, message)
#else
#define NKV_STATIC_ASSERT(condition, message) _Static_assert(condition, message)
#endif
#define NKV_ASSERT_BYTES(name, bytes) \\
  NKV_STATIC_ASSERT(sizeof(struct nkv_##name) == (bytes), "size of nkv_" #name)
#define NKV_ASSERT_OFFSET(name, field, bytes) \\
  NKV_STATIC_ASSERT(offsetof(struct nkv_##name, field) == (bytes), \\
                    "offset of nkv_" #name "." #field)
"""

END_OF_ASSERTS = """
#undef NKV_ASSERT_OFFSET
#undef NKV_ASSERT_BYTES
#undef NKV_STATIC_ASSERT
"""


def emit(contract: Contract) -> str:
    """The text of nkv_abi.h."""
    lines = [
        *_identity_lines(contract),
        *constants_lines("Limits", contract.limits),
        *constants_lines("Number formats", contract.formats),
        *type_lines(contract),
        *_register_map_lines(contract),
        *function_lines(contract),
    ]
    text = "\n".join(lines) + "\n"
    return PROLOGUE + ASSERTS + text + END_OF_ASSERTS + "\n#endif /* NKV_ABI_H */\n"


def type_lines(contract: Contract) -> list[str]:
    """Enumerations, flags and structures, whose sizes and offsets the compiler checks."""
    lines = []
    for enum in contract.enums:
        lines += _enum_lines(enum)
    for flags in contract.flag_sets:
        lines += _flag_lines(flags, contract.flag_set_bits(flags))
    for struct in contract.structs:
        lines += _struct_lines(struct)
    return lines


def documented(line: str, doc: str) -> list[str]:
    """The line with its comment behind it, or above it where it does not fit."""
    one_line = f"{line} /**< {doc} */"
    if len(one_line) <= WIDTH:
        return [one_line]
    indent = line[: len(line) - len(line.lstrip())]
    return [*comment(doc, indent), line]


def comment(text: str, indent: str = "") -> list[str]:
    """A documentation comment of one or more lines."""
    if len(indent) + len(text) + 7 <= WIDTH:
        return [f"{indent}/** {text} */"]
    return [f"{indent}/**", *line_comment(f"{indent} * ", text), f"{indent} */"]


def _identity_lines(contract: Contract) -> list[str]:
    return [
        "",
        *comment(f"{contract.title}, version {contract.abi_major}.{contract.abi_minor}."),
        *documented(f"#define NKV_ABI_ID {contract.abi_id:#018x}ull", "Register ID."),
        f"#define NKV_ABI_MAJOR {contract.abi_major}",
        f"#define NKV_ABI_MINOR {contract.abi_minor}",
        *documented(f"#define NKV_PAGE_MAGIC {contract.page.magic:#010x}u", "Page header."),
        f"#define NKV_PAGE_VERSION {contract.page.version}",
    ]


def constants_lines(title: str, constants: tuple[Constant, ...]) -> list[str]:
    """Limits or number formats under a title."""
    lines = ["", f"/* {title} */"]
    for item in constants:
        doc = f"[{item.unit}] {item.doc}" if item.unit else item.doc
        lines += documented(f"#define NKV_{item.name} {item.value}", doc)
    return lines


def _enum_lines(enum: Enum) -> list[str]:
    lines = ["", *comment(enum.doc), f"enum nkv_{enum.name} {{"]
    for value in enum.values:
        name = f"NKV_{enum.name.upper()}_{value.name}"
        lines += documented(f"  {name} = {value.value},", value.doc)
    return [*lines, "};"]


def _flag_lines(flags: FlagSet, bits: int) -> list[str]:
    prefix, one = f"NKV_{flags.name.upper()}", "1ull" if bits > 32 else "1u"
    lines = ["", *comment(flags.doc)]
    for flag in flags.flags:
        lines += documented(f"#define {prefix}_{flag.name} ({one} << {flag.bit})", flag.doc)
    return [*lines, f"#define {prefix}_ALL {flags.mask:#x}{one[1:]}"]


def _struct_lines(struct: Struct) -> list[str]:
    name = f"nkv_{struct.name}"
    lines = ["", *comment(struct.doc), f"struct {name} {{"]
    for field in struct.fields:
        lines += documented(f"  {_declaration(field)};", field_text(field))
    lines += ["};", f"#define {name.upper()}_BYTES {struct.size}"]
    lines.append(f"NKV_ASSERT_BYTES({struct.name}, {struct.size});")
    lines += [
        f"NKV_ASSERT_OFFSET({struct.name}, {field.name}, {field.offset});"
        for field in struct.fields
    ]
    return lines


def _declaration(field: Field) -> str:
    base = TYPES[field.type].format(field.bits)
    return f"{base} {field.name}" + (f"[{_count(field.count)}]" if field.is_array else "")


def _count(count: Number) -> str:
    return f"NKV_{count.name}" if count.name else str(count.value)


def _register_map_lines(contract: Contract) -> list[str]:
    lines = ["", "/* Registers: byte offsets; 64-bit access only. Masks are in place. */"]
    for register in contract.registers:
        lines += _register_lines(register)
    end = f"#define NKV_REG_MAP_BYTES {contract.register_map_bytes:#x}u"
    return [*lines, *documented(end, "Bytes that all registers span.")]


def _register_lines(register: Register) -> list[str]:
    name = f"NKV_REG_{register.name}"
    doc = f"[{register.access}] {register.doc}"
    if register.is_array:
        lines = [
            *documented(
                f"#define {name}(i) ({register.offset:#x}u + {register.stride:#x}u * (i))", doc
            ),
            f"#define {name}_COUNT {_count(register.count)}",
            f"#define {name}_STRIDE {register.stride:#x}u",
        ]
    else:
        lines = documented(f"#define {name} {register.offset:#x}u", doc)
    for field in register.fields:
        if field.name:
            lines += documented(f"#define {name}_{field.name}_SHIFT {field.lsb}", field.doc)
            lines.append(f"#define {name}_{field.name}_MASK {field.mask:#x}ull")
    return lines
