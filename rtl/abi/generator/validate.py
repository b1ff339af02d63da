"""Judges a contract: whatever would be wrong, ambiguous or impossible in an output language."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator

from .model import (
    DEVICE,
    Constant,
    Contract,
    ContractError,
    Enum,
    Field,
    FlagSet,
    PageArray,
    Struct,
)
from .text import pascal
from .validate_registers import register_problems
from .words import languages_reserving

LOWER_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
UPPER_NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
LARGEST_INT = 2**31 - 1
LARGEST_IOCTL = 255
# What the generator adds to the C tags of structures and enumerations.
GENERATED_TAGS = ("page_shape", "page_layout", "page_array")


def validate(contract: Contract) -> None:
    """Raises ContractError with one line for each problem."""
    problems = [
        *_name_problems(contract),
        *_identity_problems(contract),
        *(problem for enum in contract.enums for problem in _enum_problems(enum)),
        *(problem for flags in contract.flag_sets for problem in _flag_problems(flags)),
        *(problem for struct in contract.structs for problem in _struct_problems(struct)),
        *_command_problems(contract),
        *_scope_problems(contract),
        *_ioctl_problems(contract),
        *register_problems(contract),
    ]
    # Page sizes are computed from the rest, which must be sound for that.
    if not problems:
        problems = [*_page_problems(contract)]
    if problems:
        raise ContractError("\n".join(problems))


def _scope_problems(contract: Contract) -> Iterator[str]:
    """What a device speaks cannot be told in words of hosts: SystemVerilog does not have them."""
    others = {item.name for item in contract.limits if item.scope != DEVICE}
    for struct in contract.structs:
        if struct.scope != DEVICE:
            continue
        for field in struct.fields:
            parts = [part for part in (field.enum, field.flags) if part is not None]
            names = [part.name for part in parts if part.scope != DEVICE]
            numbers = (field.count, field.min, field.max, field.multiple)
            names += [number.name for number in numbers if number and number.name in others]
            for name in names:
                yield f"struct.{struct.name}.{field.name}: `{name}` is not of scope device"


def _ioctl_problems(contract: Contract) -> Iterator[str]:
    for ioctl in contract.ioctls:
        if ioctl.number > LARGEST_IOCTL:
            yield f"ioctl.{ioctl.name}: number {ioctl.number} is beyond {LARGEST_IOCTL}"
        others = [item for item in contract.ioctls if item.number == ioctl.number]
        if others[0] is not ioctl:
            yield f"ioctl.{ioctl.name}: duplicate number of {others[0].name}"


def _name_problems(contract: Contract) -> Iterator[str]:
    yield from _case_problems(
        LOWER_NAME,
        [(f"enum.{enum.name}", enum.name) for enum in contract.enums]
        + [(f"flags.{flags.name}", flags.name) for flags in contract.flag_sets]
        + [(f"struct.{struct.name}", struct.name) for struct in contract.structs]
        + [
            (f"struct.{struct.name}.{field.name}", field.name)
            for struct in contract.structs
            for field in struct.fields
        ],
    )
    yield from _case_problems(UPPER_NAME, _constant_names(contract))
    bare = [
        *((f"struct.{s.name}.{f.name}", f.name) for s in contract.structs for f in s.fields),
        *((f"register.{register.name}", register.name) for register in contract.registers),
        *(
            (f"register.{register.name}.{field.name}", field.name)
            for register in contract.registers
            for field in register.fields
        ),
    ]
    for path, name in bare:
        languages = languages_reserving(name)
        if languages:
            yield f"{path}: `{name}` is a reserved word of {', '.join(languages)}; rename it"
    for struct in contract.structs:
        fields = [(f"struct.{struct.name}.{field.name}", field.name) for field in struct.fields]
        yield from _duplicate_problems(fields)
    tags = [("the generator", tag) for tag in GENERATED_TAGS]
    tags += [(f"enum.{enum.name}", enum.name) for enum in contract.enums]
    tags += [(f"struct.{struct.name}", struct.name) for struct in contract.structs]
    yield from _duplicate_problems(tags)
    yield from _duplicate_problems(_flat_names(contract))


def _constant_names(contract: Contract) -> list[tuple[str, str]]:
    names = [(f"limit.{item.name}", item.name) for item in contract.limits]
    names += [(f"format.{item.name}", item.name) for item in contract.formats]
    names += [
        (f"enum.{e.name}.{value.name}", value.name) for e in contract.enums for value in e.values
    ]
    names += [
        (f"flags.{s.name}.{flag.name}", flag.name) for s in contract.flag_sets for flag in s.flags
    ]
    names += [(f"page.arrays.{array.name}", array.name) for array in contract.page.arrays]
    for register in contract.registers:
        names.append((f"register.{register.name}", register.name))
        names += [
            (f"register.{register.name}.{field.name}", field.name)
            for field in register.fields
            if not register.is_whole
        ]
    return names


def _flat_names(contract: Contract) -> list[tuple[str, str]]:
    """Every constant as the outputs spell it, where C, SystemVerilog and Python have one scope."""
    names = [("abi", f"ABI_{key}") for key in ("ID", "MAJOR", "MINOR")]
    names += [("page", f"PAGE_{key}") for key in ("MAGIC", "VERSION", "ARRAY_COUNT")]
    names += [("register", "REG_MAP_BYTES")]
    names += [(f"limit.{item.name}", item.name) for item in contract.limits]
    names += [(f"format.{item.name}", item.name) for item in contract.formats]
    for enum in contract.enums:
        prefix = f"enum.{enum.name}"
        names += [(f"{prefix}.{v.name}", f"{enum.name}_{v.name}") for v in enum.values]
    for flags in contract.flag_sets:
        prefix = f"flags.{flags.name}"
        names.append((prefix, f"{flags.name}_ALL"))
        names += [(f"{prefix}.{f.name}", f"{flags.name}_{f.name}") for f in flags.flags]
    for struct in contract.structs:
        names += [
            (f"struct.{struct.name}", struct.name),
            (f"struct.{struct.name}", f"{struct.name}_BYTES"),
        ]
    names += [(f"ioctl.{ioctl.name}", f"IOCTL_{ioctl.name}") for ioctl in contract.ioctls]
    for array in contract.page.arrays:
        names.append((f"page.arrays.{array.name}", f"PAGE_ARRAY_{array.name}"))
    for register in contract.registers:
        prefix = f"register.{register.name}"
        suffixes = ["", "_COUNT", "_STRIDE"] if register.is_array else [""]
        names += [(prefix, f"REG_{register.name}{suffix}") for suffix in suffixes]
        if not register.is_whole:
            names += [
                (f"{prefix}.{f.name}", f"REG_{register.name}_{f.name}") for f in register.fields
            ]
    return names


def _case_problems(pattern: re.Pattern[str], names: Iterable[tuple[str, str]]) -> Iterator[str]:
    for path, name in names:
        if not pattern.fullmatch(name):
            case = "lower" if pattern is LOWER_NAME else "upper"
            yield f"{path}: `{name}` must be words in {case} case joined by single underscores"


def _duplicate_problems(names: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names that some output would spell alike; SystemVerilog drops the underscores."""
    seen: dict[str, str] = {}
    for path, name in names:
        spelling = pascal(name)
        if spelling in seen:
            yield f"{path}: duplicate name `{name}`, also made by {seen[spelling]}"
        seen[spelling] = path


def _identity_problems(contract: Contract) -> Iterator[str]:
    if contract.abi_id >= 2**64:
        yield "abi.id: does not fit 64 bits"
    for key, value in (("major", contract.abi_major), ("minor", contract.abi_minor)):
        if value >= 2**16:
            yield f"abi.{key}: does not fit 16 bits"
    if contract.page.magic >= 2**32:
        yield "page.magic: does not fit 32 bits"
    yield from _constant_problems("limit", contract.limits)
    yield from _constant_problems("format", contract.formats)


def _constant_problems(section: str, constants: Iterable[Constant]) -> Iterator[str]:
    for constant in constants:
        if constant.value > LARGEST_INT:
            yield f"{section}.{constant.name}: {constant.value} does not fit a C int"


def _enum_problems(enum: Enum) -> Iterator[str]:
    path = f"enum.{enum.name}"
    if enum.width not in (8, 16, 32):
        yield f"{path}: width {enum.width}; an enumeration has 8, 16 or 32 bits"
    seen: dict[int, str] = {}
    for value in enum.values:
        if value.value >= 1 << enum.width:
            yield f"{path}.{value.name}: {value.value} does not fit {enum.width} bits"
        if value.value in seen:
            other = seen[value.value]
            yield f"{path}.{value.name}: duplicate value {value.value}, also that of {other}"
        seen[value.value] = value.name
        if value.errno and value.errno != "0" and not hasattr(errno, value.errno):
            yield f"{path}.{value.name}: unknown errno `{value.errno}`"


def _flag_problems(flags: FlagSet) -> Iterator[str]:
    seen: dict[int, str] = {}
    for flag in flags.flags:
        if flag.bit in seen:
            other = seen[flag.bit]
            yield f"flags.{flags.name}.{flag.name}: duplicate bit {flag.bit}, also that of {other}"
        seen[flag.bit] = flag.name


def _struct_problems(struct: Struct) -> Iterator[str]:
    path = f"struct.{struct.name}"
    for field in struct.fields:
        yield from _field_problems(f"{path}.{field.name}", field)
    filled = sum(field.size_bytes for field in struct.fields)
    if filled != struct.size:
        yield f"{path}: fields fill {filled} of {struct.size} bytes; write padding as `reserved`"
    widest = max((field.bits // 8 for field in struct.fields), default=1)
    if struct.size % widest:
        yield f"{path}: {struct.size} bytes is no multiple of its widest field, {widest} bytes"


def _field_problems(path: str, field: Field) -> Iterator[str]:
    if field.offset % (field.bits // 8):
        yield f"{path}: {field.bits} bits at byte {field.offset} is not naturally aligned"
    if field.count.value < 1:
        yield f"{path}: count must be at least 1"
    if field.type not in ("u", "i", "f"):
        yield f"{path}: type `{field.type}` is none of u, i, f"
    if field.type == "f" and field.bits != 32:
        yield f"{path}: type f has 32 bits"
    if field.kind not in ("", "address"):
        yield f"{path}: kind `{field.kind}` is unknown; only `address` is"
    if field.kind == "address" and (field.bits, field.type) != (64, "u"):
        yield f"{path}: an address is 64 bits unsigned"
    if field.enum and field.enum.width != field.bits:
        yield f"{path}: {field.bits} bits hold `{field.enum.name}` of {field.enum.width}"
    if field.flags and field.flags.mask > field.largest:
        yield f"{path}: {field.bits} bits cannot hold every flag of `{field.flags.name}`"
    yield from _bound_problems(path, field)


def _bound_problems(path: str, field: Field) -> Iterator[str]:
    bounds = [bound for bound in (field.min, field.max, field.multiple) if bound]
    is_checked = bool(bounds or field.enum or field.flags)
    if is_checked and (field.is_array or field.is_reserved or field.type != "u"):
        yield f"{path}: only a single unsigned field that is not reserved can be checked"
    if field.is_reserved and field.type != "u":
        yield f"{path}: a reserved field is unsigned"
    if sum(map(bool, (field.enum, field.flags, bounds))) > 1:
        yield f"{path}: `enum`, `flags` and bounds exclude each other"
    for bound in bounds:
        if bound.value > field.largest:
            yield f"{path}: bound {bound.name or bound.value} does not fit {field.bits} bits"
    if field.min and field.max and field.min.value > field.max.value:
        yield f"{path}: min {field.min.value} is above max {field.max.value}"
    multiple = field.multiple.value if field.multiple else 1
    if multiple < 1 or multiple & (multiple - 1):
        yield f"{path}: multiple {multiple} is not a power of two, so hardware would divide"


def _command_problems(contract: Contract) -> Iterator[str]:
    seen: dict[str, str] = {}
    for struct in contract.commands:
        path = f"struct.{struct.name}"
        if struct.size != contract.limit_values["COMMAND_BYTES"]:
            yield f"{path}: {struct.size} bytes; a command has COMMAND_BYTES"
        first = struct.fields[0]
        if first.name != "opcode" or not first.enum or first.enum.name != "opcode":
            yield f"{path}: a command starts with the field `opcode` of enum `opcode`"
        for value in first.values:
            if value.name in seen:
                other = seen[value.name]
                yield f"{path}.{first.name}: opcode {value.name} belongs to struct.{other} already"
            seen[value.name] = struct.name


def _page_problems(contract: Contract) -> Iterator[str]:
    forms = contract.enum("row_form").values
    given = [form.value.name for form in contract.page.row_forms]
    for value in forms:
        times = given.count(value.name)
        if times != 1:
            yield f"page.row_bytes: form {value.name} must be given once, not {times} times"
    if contract.page.header.size % contract.limit_values["BURST_BYTES"]:
        yield "struct.page_header: its size must be a multiple of BURST_BYTES"
    scopes = [array.scope == DEVICE for array in contract.page.arrays]
    if scopes != sorted(scopes, reverse=True):
        yield "page.arrays: those of other scopes than device come last"
    largest = sum(_largest_bytes(contract, array) for array in contract.page.arrays)
    if largest >= 2**31:
        yield f"page.arrays: a page could take {largest} bytes, beyond 32-bit sizes"


def _largest_bytes(contract: Contract, array: PageArray) -> int:
    """The array's size with the widest dimensions that a header can hold, sane or not."""
    dim = 2**16 - 1
    element = max(value.element_bytes or 0 for value in contract.enum("dtype").values)
    limits = contract.limit_values
    row = max(
        form.size.evaluate({**limits, "dim": dim, "element_bytes": element})
        for form in contract.page.row_forms
    )
    names = {"head_dim": dim, "value_dim": dim, "k_row_bytes": row, "v_row_bytes": row}
    return array.size.evaluate({**limits, **names})
