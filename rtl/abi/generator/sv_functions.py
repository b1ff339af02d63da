"""The package's functions: page layout, as the C header has it, and the rules of fields."""

from __future__ import annotations

from .expression import Expression
from .model import Contract, Field, Number, PageArray, Struct
from .text import fold, pascal


def function_lines(contract: Contract) -> list[str]:
    """Every function of the package, with the types that they return."""
    lines = [
        *_row_lines(contract),
        *_layout_type_lines(contract),
        *_layout_lines(contract),
        *_check_type_lines(),
    ]
    for struct in contract.commands:
        lines += _checker_lines(struct)
    return [*lines, "", "  // verilator lint_on UNUSEDSIGNAL"]


def _size(size: Expression, contract: Contract) -> str:
    """A size expression over limits and the function's variables."""
    return size.render(lambda name: pascal(name) if name in contract.limit_values else name)


def _row_lines(contract: Contract) -> list[str]:
    lines = [
        "",
        "  // Bytes of one element; 0 for an unknown type",
        "  function automatic logic [31:0] element_bytes(dtype_e dtype);",
        "    unique case (dtype)",
        *(
            f"      Dtype{pascal(value.name)}: return 32'd{value.element_bytes};"
            for value in contract.enum("dtype").values
        ),
        "      default: return '0;",
        "    endcase",
        "  endfunction",
        "",
        "  // Bytes of one row as a page stores it; 0 for an unknown form",
        "  function automatic logic [31:0] row_bytes(row_form_e form, dtype_e dtype,"
        " logic [31:0] dim);",
        "    unique case (form)",
    ]
    for form in contract.page.row_forms:
        size = form.size.render(
            lambda name: {"element_bytes": "element_bytes(dtype)"}.get(
                name, pascal(name) if name in contract.limit_values else name
            )
        )
        lines.append(f"      RowForm{pascal(form.value.name)}: return {size};")
    return [*lines, "      default: return '0;", "    endcase", "  endfunction"]


def _layout_type_lines(contract: Contract) -> list[str]:
    page = contract.page
    lines = ["", "  // The arrays of a page, in the order of their places"]
    lines += [
        f"  localparam int unsigned PageArray{pascal(array.name)} = {index};"
        for index, array in enumerate(page.arrays)
    ]
    lines += [f"  localparam int unsigned PageArrayCount = {len(page.arrays)};", ""]
    lines += [
        "  // The fields of a page header that decide its layout",
        "  typedef struct packed {",
    ]
    for field in reversed(page.shape):
        kind = f"{field.enum.name}_e" if field.enum else f"logic [{field.bits - 1}:0]"
        lines.append(f"    {kind} {field.name};")
    return [
        *lines,
        "  } page_shape_t;",
        "",
        "  // Where the arrays lie, in bytes from the page's start; an absent one has 0 bytes",
        "  typedef struct packed {",
        "    logic [31:0] total_bytes;",
        "    logic [PageArrayCount-1:0][31:0] bytes;",
        "    logic [PageArrayCount-1:0][31:0] offset;",
        "  } page_layout_t;",
    ]


def _layout_lines(contract: Contract) -> list[str]:
    return [
        "",
        "  // Lays out a page. Any shape gives a layout; whether it makes sense is not judged.",
        "  function automatic page_layout_t page_layout(page_shape_t shape);",
        "    logic [31:0] head_dim;",
        "    logic [31:0] value_dim;",
        "    logic [31:0] k_row_bytes;",
        "    logic [31:0] v_row_bytes;",
        "    logic [31:0] place;",
        "    page_layout_t layout;",
        "    head_dim = 32'(shape.head_dim);",
        "    value_dim = 32'(shape.value_dim);",
        "    k_row_bytes = row_bytes(shape.k_form, shape.dtype, head_dim);",
        "    v_row_bytes = row_bytes(shape.v_form, shape.dtype, value_dim);",
        *(_array_line(contract, array) for array in contract.page.arrays),
        "    place = PageHeaderBytes;",
        "    for (int unsigned i = 0; i < PageArrayCount; i++) begin",
        "      layout.offset[i] = place;",
        f"      place += {_round_up('layout.bytes[i]', 'BURST_BYTES')};",
        "    end",
        f"    layout.total_bytes = {_round_up('place', 'PAGE_GRAIN_BYTES')};",
        "    return layout;",
        "  endfunction",
    ]


def _round_up(value: str, limit: str) -> str:
    grain = pascal(limit)
    return f"({value} + {grain} - 1) / {grain} * {grain}"


def _array_line(contract: Contract, array: PageArray) -> str:
    size = _size(array.size, contract)
    when = array.when
    if when and when.value and when.field.enum:
        name = pascal(when.field.enum.name) + pascal(when.value.name)
        size = f"shape.{when.field.name} == {name} ? {size} : '0"
    elif when and when.flag and when.field.flags:
        name = pascal(when.field.flags.name) + pascal(when.flag.name)
        size = f"shape.{when.field.name}[{name}] ? {size} : '0"
    return f"    layout.bytes[PageArray{pascal(array.name)}] = {size};"


def _check_type_lines() -> list[str]:
    return [
        "",
        "  // Bit i: the field that begins at byte i of a command breaks its rule",
        "  typedef logic [CommandBytes-1:0] fields_t;",
        "",
        "  // Fields that may hold anything are left alone.",
        "  // verilator lint_off UNUSEDSIGNAL",
    ]


def _checker_lines(struct: Struct) -> list[str]:
    lines = [
        "",
        f"  // Looks at each field of {struct.name}_t by itself; a command is judged by the first"
        " that is",
        "  // broken",
        f"  function automatic fields_t broken_{struct.name}({struct.name}_t command);",
        "    fields_t broken;",
        "    broken = '0;",
    ]
    for field in struct.fields:
        condition = _violation(field)
        if condition:
            lines += fold(f"    broken[{field.offset}] = {condition};", "        ")
    return [*lines, "    return broken;", "  endfunction"]


def _violation(field: Field) -> str:
    """A condition that holds if the field breaks its rules; empty if it has none."""
    value = f"command.{field.name}"
    if field.is_reserved:
        return f"{value} != '0"
    if field.enum and field.allowed:
        prefix = pascal(field.enum.name)
        names = [prefix + pascal(item.name) for item in field.allowed]
        if len(names) == 1:
            return f"{value} != {names[0]}"
        if [item.value for item in field.allowed] == list(range(len(names))):
            return f"{value} > {names[-1]}"
        return f"!({value} inside {{{', '.join(names)}}})"
    if field.flags:
        return f"({value} & ~{pascal(field.flags.name)}All) != '0"
    conditions = []
    if field.min and field.min.value > 0:
        conditions.append(f"{value} < {_number(field, field.min)}")
    if field.max and field.max.value == 0:
        conditions.append(f"{value} != '0")
    elif field.max and field.max.value < field.largest:
        conditions.append(f"{value} > {_number(field, field.max)}")
    if field.multiple and field.multiple.value > 1:
        conditions.append(f"{value} % {_number(field, field.multiple)} != '0")
    return " || ".join(conditions)


def _number(field: Field, number: Number) -> str:
    """The number in the field's width."""
    if number.name:
        name = pascal(number.name)
        return name if field.bits == 32 else f"{field.bits}'({name})"
    return f"{field.bits}'d{number.value}"
