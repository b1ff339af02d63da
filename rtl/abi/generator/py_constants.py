"""The Python module: enumerations, limits, `struct` formats, registers and page layout."""

from __future__ import annotations

from .model import Constant, Contract, Enum, Field, FlagSet, PageArray, Register, Struct
from .text import BANNER, WIDTH, line_comment, pascal

FORMAT_CODES = {
    ("u", 8): "B", ("u", 16): "H", ("u", 32): "I", ("u", 64): "Q",
    ("i", 8): "b", ("i", 16): "h", ("i", 32): "i", ("i", 64): "q",
    ("f", 32): "f",
}  # fmt: skip

PROLOGUE = f'''# {BANNER}
"""{{title}}, version {{version}}: constants and structures for Python."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple


@dataclass(frozen=True)
class Record:
    """A structure in device memory: its `struct` format, size, and each field's byte offset."""

    format: str
    size_bytes: int
    offsets: dict[str, int]


class RegisterField(NamedTuple):
    """Bits of a register."""

    shift: int
    bits: int

    def get(self, register: int) -> int:
        """The field's value in a register's value."""
        return register >> self.shift & (1 << self.bits) - 1


@dataclass(frozen=True)
class RegisterArray:
    """A register that repeats."""

    offset: int
    stride: int
    count: int

    def at(self, index: int) -> int:
        """Byte offset of one of them; raises IndexError beyond the last."""
        if not 0 <= index < self.count:
            raise IndexError(f"register index {{{{index}}}} is not in 0..{{{{self.count - 1}}}}")
        return self.offset + index * self.stride


class StatusText(NamedTuple):
    """What a status means: its errno, positive, and what a person should read."""

    errno: int
    message: str
'''

LAYOUT_TYPES = '''
@dataclass(frozen=True)
class PageShape:
    """The fields of a page header that decide its layout."""

{fields}


@dataclass(frozen=True)
class PageLayout:
    """Bytes from the page's start and sizes by PageArray; an absent array has 0 bytes."""

    offset: tuple[int, ...]
    bytes: tuple[int, ...]
    total_bytes: int
'''


def emit(contract: Contract) -> str:
    """The text of nkv_abi.py."""
    version = f"{contract.abi_major}.{contract.abi_minor}"
    lines = [
        "",
        *_identity_lines(contract),
        *_constants_lines("Limits", contract.limits),
        *_constants_lines("Number formats", contract.formats),
    ]
    for enum in contract.enums:
        lines += _enum_lines(enum)
    for flags in contract.flag_sets:
        lines += _flag_lines(flags)
    lines += _status_lines(contract)
    for struct in contract.structs:
        lines += _record_lines(struct)
    lines += ["", "# Registers: byte offsets; 64-bit access only."]
    for register in contract.registers:
        lines += _register_lines(register)
    lines.append(f"REG_MAP_BYTES = {contract.register_map_bytes:#x}")
    lines += _layout_lines(contract)
    return PROLOGUE.format(title=contract.title, version=version) + "\n".join(lines) + "\n"


def _identity_lines(contract: Contract) -> list[str]:
    return [
        "",
        f"ABI_ID = {contract.abi_id:#018x}",
        f"ABI_MAJOR = {contract.abi_major}",
        f"ABI_MINOR = {contract.abi_minor}",
        f"PAGE_MAGIC = {contract.page.magic:#010x}",
        f"PAGE_VERSION = {contract.page.version}",
    ]


def _constants_lines(title: str, constants: tuple[Constant, ...]) -> list[str]:
    lines = ["", f"# {title}"]
    for item in constants:
        lines += line_comment("# ", f"[{item.unit}] {item.doc}" if item.unit else item.doc)
        lines.append(f"{item.name} = {item.value}")
    return lines


def _enum_lines(enum: Enum) -> list[str]:
    lines = ["", "", f"class {pascal(enum.name)}(IntEnum):", *_docstring(enum.doc), ""]
    for value in enum.values:
        lines += [*line_comment("    # ", value.doc), f"    {value.name} = {value.value}"]
    return lines


def _flag_lines(flags: FlagSet) -> list[str]:
    lines = ["", "", f"class {pascal(flags.name)}(IntFlag):", *_docstring(flags.doc), ""]
    for flag in flags.flags:
        lines += [*line_comment("    # ", flag.doc), f"    {flag.name} = 1 << {flag.bit}"]
    return lines


def _docstring(doc: str) -> list[str]:
    one_line = f'    """{doc}"""'
    if len(one_line) <= WIDTH:
        return [one_line]
    first, *rest = line_comment("    ", doc, WIDTH - len('"""'))
    return [f'    """{first.strip()}', *rest, '    """']


def _status_lines(contract: Contract) -> list[str]:
    lines = ["", "", "STATUS = {"]
    for value in contract.enum("status").values:
        number = "0" if value.errno == "0" else f"errno.{value.errno}"
        lines += [
            f"    Status.{value.name}: StatusText(",
            f"        {number},",
            *(f"        {part}" for part in _string_parts(value.message)),
            "    ),",
        ]
    return [*lines, "}"]


def _string_parts(text: str) -> list[str]:
    """The text as adjacent literals, each within a line."""
    parts = line_comment("", text, WIDTH - len('        "",'))
    return [f'"{part} "' for part in parts[:-1]] + [f'"{parts[-1]}",']


def _record_lines(struct: Struct) -> list[str]:
    lines = ["", *line_comment("# ", struct.doc), f"{struct.name.upper()} = Record("]
    lines += [
        f'    "<{"".join(map(_format_code, struct.fields))}",',
        f"    {struct.size},",
        "    {",
    ]
    lines += [f'        "{field.name}": {field.offset},' for field in struct.fields]
    return [*lines, "    },", ")"]


def _format_code(field: Field) -> str:
    code = FORMAT_CODES[field.type, field.bits]
    return f"{field.count.value}{code}" if field.is_array else code


def _register_lines(register: Register) -> list[str]:
    name = f"REG_{register.name}"
    lines = line_comment("# ", f"[{register.access}] {register.doc}")
    if register.is_array:
        count = register.count.name or str(register.count.value)
        lines.append(f"{name} = RegisterArray({register.offset:#x}, {register.stride:#x}, {count})")
    else:
        lines.append(f"{name} = {register.offset:#x}")
    for field in register.fields:
        if field.name:
            lines.append(f"{name}_{field.name} = RegisterField({field.lsb}, {field.bits})")
    return lines


def _layout_lines(contract: Contract) -> list[str]:
    page = contract.page
    lines = [
        "",
        "",
        "class PageArray(IntEnum):",
        *_docstring("The arrays of a page, in order."),
        "",
    ]
    lines += [f"    {array.name} = {index}" for index, array in enumerate(page.arrays)]
    fields = "\n".join(f"    {field.name}: int" for field in page.shape)
    lines += ["", *LAYOUT_TYPES.format(fields=fields).splitlines()]
    lines += _element_lines(contract) + _row_lines(contract)
    lines += [
        "",
        "",
        "def page_layout(shape: PageShape) -> PageLayout:",
        '    """Any shape gives a layout; whether it makes sense is not judged."""',
        "    head_dim, value_dim = shape.head_dim, shape.value_dim",
        "    k_row_bytes = row_bytes(shape.k_form, shape.dtype, head_dim)",
        "    v_row_bytes = row_bytes(shape.v_form, shape.dtype, value_dim)",
        "    sizes = (",
        *(f"        {_array_size(array)},  # {array.name}" for array in page.arrays),
        "    )",
        "    offsets = []",
        f"    end = {page.header.name.upper()}.size_bytes",
        "    for size in sizes:",
        "        offsets.append(end)",
        f"        end += {_round_up('size', 'BURST_BYTES')}",
        f"    total_bytes = {_round_up('end', 'PAGE_GRAIN_BYTES')}",
        "    return PageLayout(tuple(offsets), sizes, total_bytes)",
    ]
    return lines


def _round_up(value: str, grain: str) -> str:
    return f"({value} + {grain} - 1) // {grain} * {grain}"


def _element_lines(contract: Contract) -> list[str]:
    sizes = [
        f"        Dtype.{value.name}: {value.element_bytes},"
        for value in contract.enum("dtype").values
    ]
    return [
        "",
        "",
        "def element_bytes(dtype: int) -> int:",
        '    """Bytes of one element; 0 for an unknown type."""',
        "    sizes: dict[int, int] = {",
        *sizes,
        "    }",
        "    return sizes.get(dtype, 0)",
    ]


def _row_lines(contract: Contract) -> list[str]:
    lines = [
        "",
        "",
        "def row_bytes(form: int, dtype: int, dim: int) -> int:",
        '    """Bytes of one row as a page stores it; 0 for an unknown form."""',
    ]
    for form in contract.page.row_forms:
        size = form.size.render(
            lambda name: "element_bytes(dtype)" if name == "element_bytes" else name, "//"
        )
        lines += [f"    if form == RowForm.{form.value.name}:", f"        return {size}"]
    return [*lines, "    return 0"]


def _array_size(array: PageArray) -> str:
    size = array.size.render(lambda name: name, "//")
    when = array.when
    if when and when.value and when.field.enum:
        condition = f"shape.{when.field.name} == {pascal(when.field.enum.name)}.{when.value.name}"
    elif when and when.flag and when.field.flags:
        condition = f"shape.{when.field.name} & {pascal(when.field.flags.name)}.{when.flag.name}"
    else:
        return size
    return f"{size} if {condition} else 0"
