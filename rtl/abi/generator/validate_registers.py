"""Judges the register map: places, widths, access, and what the CSR block can decode."""

from __future__ import annotations

from collections.abc import Iterator

from .model import REGISTER_BITS, REGISTER_BYTES, Contract, Register, RegisterField

ADDRESS_LIMIT = 2**20


def register_problems(contract: Contract) -> Iterator[str]:
    """One line for each problem of the registers."""
    sound = True
    for register in contract.registers:
        problems = [*_place_problems(register), *_field_problems(contract, register)]
        sound = sound and not problems
        yield from problems
    if sound:
        yield from _overlap_problems(contract)
        yield from _block_problems(contract)


def _place_problems(register: Register) -> Iterator[str]:
    path = f"register.{register.name}"
    if register.offset % REGISTER_BYTES:
        yield f"{path}: offset {register.offset:#x} is misaligned; registers are 64 bits"
    if register.offset >= ADDRESS_LIMIT:
        yield f"{path}: offset {register.offset:#x} is beyond the register map"
    if register.access not in ("ro", "rw"):
        yield f"{path}: access `{register.access}` is neither ro nor rw"
    if not register.is_array:
        return
    count = register.count.value
    if count < 2 or count & (count - 1):
        yield f"{path}: count {count} must be a power of two, so that an index is a slice of bits"
    if register.stride < REGISTER_BYTES or register.stride & (register.stride - 1):
        yield f"{path}: stride {register.stride:#x} must be a power of two, at least 8"
    elif register.span and register.offset % register.span >= register.stride:
        yield (
            f"{path}: offset {register.offset:#x} must lie in the first {register.stride:#x} bytes"
            f" of a block aligned to {register.span:#x}"
        )


def _field_problems(contract: Contract, register: Register) -> Iterator[str]:
    path = f"register.{register.name}"
    bits = sum(field.bits for field in register.fields)
    if bits > REGISTER_BITS:
        yield f"{path}: fields take {bits} bits, {bits - REGISTER_BITS} more than a register has"
    for field in register.fields:
        field_path = f"{path}.{field.name}" if field.name else path
        yield from _access_problems(field_path, field)
        if field.access == "w1p" and register.is_array:
            yield f"{field_path}: a pulse belongs to a single register, not to an array"
        if field.cleared_by:
            yield from _clear_problems(contract, field_path, field)
        if register.is_external and (field.reset or field.cleared_by or field.access == "w1p"):
            yield f"{field_path}: an external register has no `reset`, `cleared_by` or pulse"
    if register.is_stored and register.is_driven:
        yield f"{path}: some fields are written, others driven by the device; make two registers"
    if register.flags and not register.is_whole:
        yield f"{path}: `flags` and `fields` exclude each other"


def _access_problems(path: str, field: RegisterField) -> Iterator[str]:
    if field.bits < 1:
        yield f"{path}: a field has at least one bit"
    if field.access not in ("ro", "rw", "w1p"):
        yield f"{path}: access `{field.access}` is none of ro, rw, w1p"
    if field.access == "w1p" and field.bits != 1:
        yield f"{path}: a pulse has one bit"
    if field.reset and field.is_stored:
        yield f"{path}: only constants have `reset`; what software writes starts at 0"
    if field.reset and field.reset.value >> field.bits:
        yield f"{path}: reset {field.reset.value:#x} does not fit {field.bits} bits"


def _clear_problems(contract: Contract, path: str, field: RegisterField) -> Iterator[str]:
    name, _, field_name = field.cleared_by.partition(".")
    register = next((item for item in contract.registers if item.name == name), None)
    pulse = register.find(field_name) if register else None
    if not register or not pulse or pulse.access != "w1p":
        yield f"{path}: cleared_by `{field.cleared_by}` names no w1p field"
    if field.access != "rw":
        yield f"{path}: only a rw field can be cleared"


def _overlap_problems(contract: Contract) -> Iterator[str]:
    owners: dict[int, Register] = {}
    for register in contract.registers:
        for offset in register.offsets():
            owner = owners.setdefault(offset, register)
            if owner is not register:
                yield f"register.{register.name}: overlaps {owner.name} at {offset:#x}"
                break


def _block_problems(contract: Contract) -> Iterator[str]:
    """Arrays that share a block must repeat alike, and nothing else may lie in it."""
    blocks: list[Register] = []
    for register in contract.registers:
        for other in blocks:
            start = other.offset - other.offset % other.span
            inside = start <= register.offset < start + other.span
            alike = (register.stride, register.span) == (other.stride, other.span)
            if inside and not alike:
                yield (
                    f"register.{register.name}: lies in the block of {other.name}"
                    f" ({start:#x} to {start + other.span:#x}) but does not repeat with it"
                )
                break
        else:
            if register.is_array:
                blocks.append(register)
