"""The C header's inline functions: registers, status texts, page layout, command checkers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .expression import Expression
from .model import Contract, EnumValue, Field, Number, PageArray, Struct
from .text import WIDTH, fold, line_comment

# Errors that POSIX does not have, and so small C libraries neither; the numbers are Linux's.
LINUX_ERRNO = {"EUCLEAN": 117}

UNKNOWN_STATUS_ERRNO = "EPROTO"
UNKNOWN_STATUS_MESSAGE = "unknown status; check that library and device have the same ABI"


def function_lines(contract: Contract) -> list[str]:
    """Every function of the header."""
    lines = [
        *_register_lines(contract),
        *_errno_lines(contract),
        *_status_lines(contract),
        *_row_lines(contract),
        *_layout_lines(contract),
        *_bad_field_lines(),
    ]
    for struct in contract.commands:
        lines += _checker_lines(struct)
    return lines


def constant(name: str) -> str:
    """A limit as the header spells it."""
    return f"NKV_{name}"


def _number(number: Number) -> str:
    return constant(number.name) if number.name else f"{number.value}u"


def _register_lines(contract: Contract) -> list[str]:
    blocks = {
        (register.offset // register.span * register.span, register.span, register.stride)
        for register in contract.registers
        if register.is_array
    }
    lines = [
        "",
        "/** Whether a register stands at this very offset, on devices that offer its feature. */",
        "static inline int nkv_is_register(uint32_t offset) {",
    ]
    for start, span, stride in sorted(blocks):
        lines += [
            f"  if (offset >= {start:#x}u && offset < {start + span:#x}u) {{",
            f"    offset = {start:#x}u + offset % {stride:#x}u;",
            "  }",
        ]
    lines.append("  switch (offset) {")
    for register in contract.registers:
        place = "(0u)" if register.is_array else ""
        lines.append(f"    case NKV_REG_{register.name}{place}:")
    return [*lines, "      return 1;", "    default:", "      return 0;", "  }", "}"]


def _errno_lines(contract: Contract) -> list[str]:
    lines = []
    used = {value.errno for value in contract.enum("status").values}
    for name in sorted(used & LINUX_ERRNO.keys()):
        lines += [
            "",
            f"/* {name} is Linux's own; other C libraries get its number. */",
            f"#ifdef {name}",
            f"#define NKV_{name} {name}",
            "#else",
            f"#define NKV_{name} {LINUX_ERRNO[name]}",
            "#endif",
        ]
    return lines


def _status_lines(contract: Contract) -> list[str]:
    statuses = contract.enum("status").values

    def errno(value: EnumValue) -> str:
        return f"NKV_{value.errno}" if value.errno in LINUX_ERRNO else value.errno

    return [
        *_status_switch(
            "The errno of a status, positive; EPROTO for a status that this header does not know.",
            "int nkv_status_errno",
            statuses,
            errno,
            UNKNOWN_STATUS_ERRNO,
        ),
        *_status_switch(
            "What a person should read about a status. Never null.",
            "const char *nkv_status_message",
            statuses,
            lambda value: f'"{value.message}"',
            f'"{UNKNOWN_STATUS_MESSAGE}"',
        ),
        *_status_switch(
            "The name of a status as the contract writes it. Never null.",
            "const char *nkv_status_name",
            statuses,
            lambda value: f'"{value.name}"',
            '"UNKNOWN"',
        ),
    ]


def _status_switch(
    doc: str,
    head: str,
    statuses: Sequence[EnumValue],
    result: Callable[[EnumValue], str],
    otherwise: str,
) -> list[str]:
    lines = ["", f"/** {doc} */", f"static inline {head}(uint8_t status) {{", "  switch (status) {"]
    for value in statuses:
        lines += [f"    case NKV_STATUS_{value.name}:", *_return(result(value))]
    return [*lines, "    default:", *_return(otherwise), "  }", "}"]


def _return(value: str) -> list[str]:
    """A return statement, a long string split over lines."""
    line = f"      return {value};"
    if len(line) <= WIDTH:
        return [line]
    indent = " " * 13
    parts = line_comment("", value.strip('"'), WIDTH - len(indent) - 4)
    quoted = [f'"{part} "' for part in parts[:-1]] + [f'"{parts[-1]}";']
    return [f"      return {quoted[0]}", *(f"{indent}{part}" for part in quoted[1:])]


def _row_lines(contract: Contract) -> list[str]:
    lines = [
        "",
        "/** Bytes of one element; 0 for an unknown type. */",
        "static inline uint32_t nkv_element_bytes(uint8_t dtype) {",
        "  switch (dtype) {",
    ]
    for value in contract.enum("dtype").values:
        lines += [f"    case NKV_DTYPE_{value.name}:", f"      return {value.element_bytes};"]
    lines += ["    default:", "      return 0;", "  }", "}", ""]
    lines += [
        "/** Bytes of one row of `dim` channels as a page stores it; 0 for an unknown form. */",
        "static inline uint32_t nkv_row_bytes(uint8_t form, uint8_t dtype, uint32_t dim) {",
        "  const uint32_t element_bytes = nkv_element_bytes(dtype);",
        "  switch (form) {",
    ]
    for form in contract.page.row_forms:
        size = _size(form.size, contract)
        lines += [f"    case NKV_ROW_FORM_{form.value.name}:", f"      return {size};"]
    return [*lines, "    default:", "      return 0;", "  }", "}"]


def _size(size: Expression, contract: Contract) -> str:
    """A size expression over limits and the function's variables."""
    return size.render(lambda name: constant(name) if name in contract.limit_values else name)


def _layout_lines(contract: Contract) -> list[str]:
    page = contract.page
    lines = [
        "",
        "/** The arrays of a page, in the order of their places. */",
        "enum nkv_page_array {",
    ]
    lines += [f"  NKV_PAGE_ARRAY_{array.name} = {i}," for i, array in enumerate(page.arrays)]
    lines += ["};", f"#define NKV_PAGE_ARRAY_COUNT {len(page.arrays)}", ""]
    lines += [
        "/** The fields of a page header that decide its layout. */",
        "struct nkv_page_shape {",
    ]
    lines += [f"  uint{field.bits}_t {field.name};" for field in page.shape]
    lines += [
        "};",
        "",
        "/** Where the arrays lie, in bytes from the page's start; an absent one has 0 bytes. */",
        "struct nkv_page_layout {",
        "  uint32_t offset[NKV_PAGE_ARRAY_COUNT];",
        "  uint32_t bytes[NKV_PAGE_ARRAY_COUNT];",
        "  uint32_t total_bytes; /**< A multiple of NKV_PAGE_GRAIN_BYTES, header included. */",
        "};",
        "",
        "/** Lays out a page. Any shape gives a layout; whether it makes sense is not judged. */",
        "static inline void nkv_lay_out_page(const struct nkv_page_shape *shape,",
        "                                    struct nkv_page_layout *layout) {",
        "  const uint32_t head_dim = shape->head_dim;",
        "  const uint32_t value_dim = shape->value_dim;",
        "  const uint32_t k_row_bytes = nkv_row_bytes(shape->k_form, shape->dtype, head_dim);",
        "  const uint32_t v_row_bytes = nkv_row_bytes(shape->v_form, shape->dtype, value_dim);",
        "  uint32_t end = NKV_PAGE_HEADER_BYTES;",
        "  uint32_t i;",
        "",
        *(line for array in page.arrays for line in _array_lines(contract, array)),
        "",
        "  for (i = 0; i < NKV_PAGE_ARRAY_COUNT; ++i) {",
        "    layout->offset[i] = end;",
        f"    end += {_round_up('layout->bytes[i]', 'BURST_BYTES')};",
        "  }",
        *_assignment("layout->total_bytes", _round_up("end", "PAGE_GRAIN_BYTES")),
        "}",
    ]
    return lines


def _round_up(value: str, limit: str) -> str:
    grain = constant(limit)
    return f"({value} + {grain} - 1) / {grain} * {grain}"


def _array_lines(contract: Contract, array: PageArray) -> list[str]:
    size = _size(array.size, contract)
    when = array.when
    if when and when.value and when.field.enum:
        name = f"NKV_{when.field.enum.name.upper()}_{when.value.name}"
        size = f"shape->{when.field.name} == {name} ? {size} : 0"
    elif when and when.flag and when.field.flags:
        name = f"NKV_{when.field.flags.name.upper()}_{when.flag.name}"
        size = f"(shape->{when.field.name} & {name}) != 0 ? {size} : 0"
    return _assignment(f"layout->bytes[NKV_PAGE_ARRAY_{array.name}]", size)


def _assignment(target: str, value: str) -> list[str]:
    line = f"  {target} = {value};"
    return [line] if len(line) <= WIDTH else [f"  {target} =", f"      {value};"]


def _bad_field_lines() -> list[str]:
    return [
        "",
        "/** The answer of a checker that found its first bad field at a byte offset. */",
        "static inline uint8_t nkv_bad_field(uint64_t offset, uint64_t *detail) {",
        "  *detail = offset;",
        "  return NKV_STATUS_BAD_FIELD;",
        "}",
    ]


def _checker_lines(struct: Struct) -> list[str]:
    name = f"nkv_{struct.name}"
    head = f"static inline uint8_t nkv_check_{struct.name}("
    lines = [
        "",
        f"/** Checks each field of a {name} by itself: NKV_STATUS_OK, or",
        " * NKV_STATUS_BAD_FIELD with the byte offset of the first bad field in `detail`. */",
        f"{head}const struct {name} *command,",
        " " * len(head) + "uint64_t *detail) {",
    ]
    for field in struct.fields:
        conditions = _violations(field)
        if conditions:
            lines += [
                *fold(f"  if ({' || '.join(conditions)}) {{", " " * len("  if (")),
                f"    return nkv_bad_field(offsetof(struct {name}, {field.name}), detail);",
                "  }",
            ]
    return [*lines, "  *detail = 0;", "  return NKV_STATUS_OK;", "}"]


def _not_among(value: str, prefix: str, allowed: Sequence[EnumValue]) -> str:
    if len(allowed) > 1 and [item.value for item in allowed] == list(range(len(allowed))):
        return f"{value} > {prefix}{allowed[-1].name}"
    return " && ".join(f"{value} != {prefix}{item.name}" for item in allowed)


def _violations(field: Field) -> list[str]:
    """C conditions, one of which holds if the field breaks its rules."""
    if field.is_reserved:
        elements = range(field.count.value)
        names = [f"{field.name}[{i}]" if field.is_array else field.name for i in elements]
        return [f"command->{name} != 0" for name in names]
    value = f"command->{field.name}"
    if field.enum and field.allowed:
        return [_not_among(value, f"NKV_{field.enum.name.upper()}_", field.allowed)]
    if field.flags:
        return [f"({value} & ~NKV_{field.flags.name.upper()}_ALL) != 0"]
    conditions = []
    if field.min and field.min.value > 0:
        conditions.append(f"{value} < {_number(field.min)}")
    if field.max and field.max.value < field.largest:
        conditions.append(f"{value} > {_number(field.max)}")
    if field.multiple and field.multiple.value > 1:
        conditions.append(f"{value} % {_number(field.multiple)} != 0")
    return conditions
