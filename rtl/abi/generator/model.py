"""The contract as plain data: `load` fills it, `validate` judges it, the emitters read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from .expression import Expression

REGISTER_BITS = 64
REGISTER_BYTES = REGISTER_BITS // 8

DEVICE, HOST, CARD, FIRMWARE = "device", "host", "card", "firmware"
SCOPES = (DEVICE, HOST, CARD, FIRMWARE)
"""Who speaks a part of the contract: hosts and the engine; hosts alone; a card's driver."""


class ContractError(Exception):
    """The contract is wrong; the message names the culprit by its path in the TOML file."""


@dataclass(frozen=True)
class Number:
    """A number, and the name of the limit or identity that it was written as, if any."""

    value: int
    name: str = ""


@dataclass(frozen=True)
class Constant:
    """A limit or a number format."""

    name: str
    value: int
    unit: str
    doc: str
    scope: str = DEVICE


@dataclass(frozen=True)
class EnumValue:
    """One value of an enumeration; `errno` and `message` belong to statuses only."""

    name: str
    value: int
    doc: str
    element_bytes: int | None = None
    errno: str = ""
    message: str = ""


@dataclass(frozen=True)
class Enum:
    name: str
    doc: str
    width: int
    values: tuple[EnumValue, ...]
    scope: str = DEVICE

    def find(self, name: str) -> EnumValue | None:
        """The value of that name."""
        return next((value for value in self.values if value.name == name), None)


@dataclass(frozen=True)
class Flag:
    name: str
    bit: int
    doc: str


@dataclass(frozen=True)
class FlagSet:
    name: str
    doc: str
    flags: tuple[Flag, ...]
    scope: str = DEVICE

    @property
    def mask(self) -> int:
        return sum(1 << flag.bit for flag in self.flags)

    def find(self, name: str) -> Flag | None:
        """The flag of that name."""
        return next((flag for flag in self.flags if flag.name == name), None)


@dataclass(frozen=True)
class Field:
    """A field of a structure: `count` elements of `bits` bits from byte `offset` on."""

    name: str
    bits: int
    count: Number
    type: str
    doc: str
    offset: int
    kind: str = ""
    enum: Enum | None = None
    flags: FlagSet | None = None
    values: tuple[EnumValue, ...] = ()
    min: Number | None = None
    max: Number | None = None
    multiple: Number | None = None

    @property
    def size_bytes(self) -> int:
        return self.bits // 8 * self.count.value

    @property
    def is_array(self) -> bool:
        return self.count.value > 1

    @property
    def is_reserved(self) -> bool:
        return self.name.rstrip("0123456789") == "reserved"

    @property
    def largest(self) -> int:
        """The largest value that the bits can hold."""
        return (1 << self.bits) - 1

    @property
    def allowed(self) -> tuple[EnumValue, ...]:
        """The enumeration's values that may stand here; empty for a field without one."""
        return self.values or (self.enum.values if self.enum else ())


@dataclass(frozen=True)
class Struct:
    name: str
    size: int
    doc: str
    fields: tuple[Field, ...]
    scope: str = DEVICE

    @property
    def is_command(self) -> bool:
        """Commands name the opcodes that use them."""
        return any(item.values for item in self.fields)

    def find(self, name: str) -> Field | None:
        """The field of that name."""
        return next((item for item in self.fields if item.name == name), None)


@dataclass(frozen=True)
class RegisterField:
    """Bits of a register. `name` is empty where the register has no fields: it is one value."""

    name: str
    bits: int
    lsb: int
    access: str
    doc: str
    reset: Number | None = None
    cleared_by: str = ""

    @property
    def is_constant(self) -> bool:
        return self.reset is not None

    @property
    def is_stored(self) -> bool:
        return self.access in ("rw", "w1p")

    @property
    def is_driven(self) -> bool:
        return self.access == "ro" and not self.is_constant

    @property
    def mask(self) -> int:
        return ((1 << self.bits) - 1) << self.lsb


@dataclass(frozen=True)
class Register:
    """A register, or an array of `count` of them `stride` bytes apart."""

    name: str
    offset: int
    access: str
    doc: str
    fields: tuple[RegisterField, ...]
    stride: int = 0
    count: Number = field(default_factory=lambda: Number(1))
    flags: FlagSet | None = None
    is_external: bool = False

    @property
    def is_array(self) -> bool:
        return self.stride > 0

    @property
    def is_whole(self) -> bool:
        """One 64-bit value rather than fields."""
        return self.fields[0].name == ""

    @property
    def is_stored(self) -> bool:
        """The CSR block keeps what software writes."""
        return not self.is_external and any(item.is_stored for item in self.fields)

    @property
    def is_driven(self) -> bool:
        """The CSR block is told by the device what software reads."""
        return not self.is_external and any(item.is_driven for item in self.fields)

    @property
    def span(self) -> int:
        """Bytes of the naturally aligned block in which an array repeats."""
        return self.stride * self.count.value

    def offsets(self) -> range:
        """The byte offset of each element."""
        step = self.stride or REGISTER_BYTES
        return range(self.offset, self.offset + step * self.count.value, step)

    def find(self, name: str) -> RegisterField | None:
        """The field of that name."""
        return next((item for item in self.fields if item.name == name), None)


@dataclass(frozen=True)
class Condition:
    """When a page array is there: a header field has a value, or a page flag is set."""

    field: Field
    value: EnumValue | None = None
    flag: Flag | None = None


@dataclass(frozen=True)
class RowForm:
    value: EnumValue
    size: Expression


@dataclass(frozen=True)
class PageArray:
    name: str
    size: Expression
    doc: str
    when: Condition | None = None
    scope: str = DEVICE


@dataclass(frozen=True)
class Page:
    """A page: its header, then the arrays. `shape` are the header fields that decide the sizes."""

    magic: int
    version: int
    header: Struct
    shape: tuple[Field, ...]
    row_forms: tuple[RowForm, ...]
    arrays: tuple[PageArray, ...]


@dataclass(frozen=True)
class Ioctl:
    """A call of the driver; `access` is as the contract has it."""

    name: str
    number: int
    access: str
    struct: Struct | None
    doc: str


Scoped = TypeVar("Scoped", Constant, Enum, FlagSet, PageArray, Struct)


def _of(items: tuple[Scoped, ...], scopes: tuple[str, ...]) -> tuple[Scoped, ...]:
    return tuple(item for item in items if item.scope in scopes)


@dataclass(frozen=True)
class Contract:
    name: str
    title: str
    abi_id: int
    abi_major: int
    abi_minor: int
    limits: tuple[Constant, ...]
    formats: tuple[Constant, ...]
    enums: tuple[Enum, ...]
    flag_sets: tuple[FlagSet, ...]
    structs: tuple[Struct, ...]
    page: Page
    registers: tuple[Register, ...]
    ioctls: tuple[Ioctl, ...] = ()

    @cached_property
    def limit_values(self) -> dict[str, int]:
        return {limit.name: limit.value for limit in self.limits}

    @property
    def commands(self) -> Iterator[Struct]:
        return (struct for struct in self.structs if struct.is_command)

    @property
    def register_map_bytes(self) -> int:
        """Bytes from the first register to the end of the last block of registers."""
        ends = [
            register.offsets()[-1] // register.span * register.span + register.span
            if register.is_array
            else register.offset + REGISTER_BYTES
            for register in self.registers
        ]
        return max(ends)

    def part(self, *scopes: str) -> Contract:
        """What of it these speak."""
        return replace(
            self,
            limits=_of(self.limits, scopes),
            enums=_of(self.enums, scopes),
            flag_sets=_of(self.flag_sets, scopes),
            structs=_of(self.structs, scopes),
            page=replace(self.page, arrays=_of(self.page.arrays, scopes)),
        )

    def enum(self, name: str) -> Enum:
        """The enumeration of that name, which must be there."""
        return next(enum for enum in self.enums if enum.name == name)

    def flag_set_bits(self, flag_set: FlagSet) -> int:
        """Width of the fields and registers that hold the flags."""
        widths = [
            item.bits for struct in self.structs for item in struct.fields if item.flags is flag_set
        ]
        held_by_register = any(register.flags is flag_set for register in self.registers)
        return max([*widths, REGISTER_BITS if held_by_register else 8])
