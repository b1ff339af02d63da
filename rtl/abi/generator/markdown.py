"""The Markdown reference that a firmware or driver engineer reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .layout import array_sizes, page_bytes
from .model import Condition, Contract, Field, Register, RegisterField, Struct
from .text import BANNER, rule_text

EXAMPLE_DIMS = (64, 128, 256)
ACCESS_WORDS = {"ro": "read-only", "rw": "read, write", "w1p": "write 1 for a pulse, reads 0"}


def emit(contract: Contract) -> str:
    """The text of nkv_abi.md."""
    major, minor = contract.abi_major, contract.abi_minor
    lines = [
        f"<!-- {BANNER} -->",
        "",
        f"# {contract.title} {major}.{minor}",
        "",
        "Little endian throughout. Byte offsets count from the start of a structure, register"
        " offsets from the start of the register map. Types: `u` unsigned, `i` two's complement,"
        " `f` IEEE 754. Every command has COMMAND_BYTES; reserved fields must be zero, and a device"
        " answers a field that breaks its rule with BAD_FIELD and the field's byte offset.",
    ]
    lines += _register_lines(contract)
    for title, structs in (
        ("Commands", [*contract.commands]),
        ("Other structures", [s for s in contract.structs if not s.is_command]),
    ):
        lines += ["", f"## {title}"]
        for struct in structs:
            lines += _struct_lines(struct)
    lines += _ioctl_lines(contract)
    lines += _page_lines(contract)
    lines += _status_lines(contract)
    lines += _enum_lines(contract)
    lines += _constant_lines(contract)
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    def row(cells: Sequence[object]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    return ["", row(head), row(["---"] * len(head)), *(row(cells) for cells in rows)]


def _register_lines(contract: Contract) -> list[str]:
    lines = [
        "",
        "## Registers",
        "",
        "64 bits each, 64-bit access only; an access anywhere else fails. Bits without a field read"
        " 0. What software writes starts at 0.",
    ]
    lines += _table(
        ["offset", "register", "access", "reset", "what"],
        (
            [
                _offset(register),
                f"`{register.name}`",
                register.access,
                _reset(register),
                register.doc,
            ]
            for register in contract.registers
        ),
    )
    lines += ["", "### Register fields"]
    lines += _table(
        ["register", "field", "bits", "access", "reset", "what"],
        (
            [
                f"`{register.name}`",
                f"`{field.name}`",
                _bits(field),
                ACCESS_WORDS[field.access],
                _field_reset(field),
                field.doc + (f" Cleared by {field.cleared_by}." if field.cleared_by else ""),
            ]
            for register in contract.registers
            for field in register.fields
            if field.name
        ),
    )
    return lines


def _ioctl_lines(contract: Contract) -> list[str]:
    lines = ["", "## Calls of the card's Linux driver"]
    return lines + _table(
        ["number", "ioctl", "structure", "what"],
        (
            [
                ioctl.number,
                f"`{ioctl.name}`",
                f"{ioctl.struct.name} ({ioctl.access})" if ioctl.struct else "",
                ioctl.doc,
            ]
            for ioctl in contract.ioctls
        ),
    )


def _offset(register: Register) -> str:
    text = f"{register.offset:#06x}"
    if not register.is_array:
        return text
    return f"{text} + {register.stride:#x} * i, i < {register.count.name or register.count.value}"


def _reset(register: Register) -> str:
    return _field_reset(register.fields[0]) if register.is_whole else ""


def _field_reset(field: RegisterField) -> str:
    if field.reset is not None:
        return f"{field.reset.value:#x}"
    return "0" if field.is_stored else "device"


def _bits(field: RegisterField) -> str:
    return f"{field.lsb}" if field.bits == 1 else f"{field.lsb + field.bits - 1}:{field.lsb}"


def _struct_lines(struct: Struct) -> list[str]:
    lines = ["", f"### {struct.name}", "", f"{struct.size} bytes. {struct.doc}"]
    return lines + _table(
        ["byte", "field", "type", "rule", "what"],
        (
            [field.offset, f"`{field.name}`", _type(field), _rule(field), field.doc]
            for field in struct.fields
        ),
    )


def _type(field: Field) -> str:
    count = f"[{field.count.value}]" if field.is_array else ""
    kind = f" {field.kind}" if field.kind else ""
    return f"{field.type}{field.bits}{count}{kind}"


def _rule(field: Field) -> str:
    return "0" if field.is_reserved else rule_text(field)


def _page_lines(contract: Contract) -> list[str]:
    page = contract.page
    lines = [
        "",
        "## Page layout",
        "",
        f"A page is a `{page.header.name}` ({page.header.size} bytes; magic {page.magic:#x},"
        f" version {page.version}), then these arrays in this order, each starting at a multiple of"
        " BURST_BYTES; its size is rounded up to PAGE_GRAIN_BYTES. `/` rounds down. The examples"
        " are bytes for bf16 in DELTA4 with value_dim = head_dim.",
    ]
    sizes = {dim: array_sizes(contract, _example_shape(contract, dim)) for dim in EXAMPLE_DIMS}
    rows: list[list[object]] = [
        [
            f"`{array.name}`",
            array.size.text,
            _when(array.when),
            *(sizes[dim][array.name] for dim in EXAMPLE_DIMS),
            array.doc,
        ]
        for array in page.arrays
    ]
    totals = [page_bytes(contract, sizes[dim]) for dim in EXAMPLE_DIMS]
    rows.append(["whole page", "", "", *totals, "Header and arrays."])
    heads = [f"head_dim {dim}" for dim in EXAMPLE_DIMS]
    lines += _table(["array", "bytes", "present", *heads, "what"], rows)
    lines += ["", "### Row forms", "", "Bytes of one row of dim channels; K rows have head_dim, V"
              " rows value_dim."]  # fmt: skip
    return lines + _table(
        ["form", "bytes"], ([form.value.name, form.size.text] for form in page.row_forms)
    )


def _example_shape(contract: Contract, dim: int) -> dict[str, int]:
    values = {
        (enum.name, value.name): value.value for enum in contract.enums for value in enum.values
    }
    form = values["row_form", "DELTA4"]
    return {
        "k_form": form,
        "v_form": form,
        "dtype": values["dtype", "BF16"],
        "flags": 0,
        "head_dim": dim,
        "value_dim": dim,
    }


def _when(when: Condition | None) -> str:
    if when is None:
        return "always"
    if when.value:
        return f"{when.field.name} = {when.value.name}"
    return f"flag {when.flag.name}" if when.flag else ""


def _status_lines(contract: Contract) -> list[str]:
    lines = [
        "",
        "## Statuses",
        "",
        "How a command ended. The C API and the driver return the errno, negated.",
    ]
    return lines + _table(
        ["status", "value", "errno", "message"],
        ([f"`{v.name}`", v.value, v.errno, v.message] for v in contract.enum("status").values),
    )


def _enum_lines(contract: Contract) -> list[str]:
    lines = ["", "## Enumerations"]
    for enum in contract.enums:
        if enum.name != "status":
            lines += ["", f"### {enum.name}", "", enum.doc]
            rows = ([f"`{v.name}`", v.value, v.doc] for v in enum.values)
            lines += _table(["name", "value", "what"], rows)
    lines += ["", "## Flags"]
    for flags in contract.flag_sets:
        lines += ["", f"### {flags.name}", "", flags.doc]
        lines += _table(
            ["name", "bit", "what"], ([f"`{f.name}`", f.bit, f.doc] for f in flags.flags)
        )
    return lines


def _constant_lines(contract: Contract) -> list[str]:
    identity: list[list[object]] = [
        ["ABI id", f"{contract.abi_id:#018x}"],
        ["ABI major", contract.abi_major],
        ["ABI minor", contract.abi_minor],
    ]
    limits = ([f"`{item.name}`", item.value, item.unit, item.doc] for item in contract.limits)
    formats = ([f"`{item.name}`", item.value, item.doc] for item in contract.formats)
    return [
        "",
        "## Limits",
        *_table(["limit", "value", "unit", "what"], limits),
        "",
        "## Number formats",
        *_table(["format", "value", "what"], formats),
        "",
        "## Identity",
        *_table(["what", "value"], identity),
    ]
