"""Reads the TOML file into a `Contract`, resolving every reference by name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TypeVar

from .expression import Expression, ExpressionError
from .model import (
    DEVICE,
    REGISTER_BITS,
    SCOPES,
    Condition,
    Constant,
    Contract,
    ContractError,
    Enum,
    EnumValue,
    Field,
    Flag,
    FlagSet,
    Ioctl,
    Number,
    Page,
    PageArray,
    Register,
    RegisterField,
    RowForm,
    Struct,
)
from .table import Table, did_you_mean

SHAPE_FIELDS = ("k_form", "v_form", "dtype", "flags", "head_dim", "value_dim")
REQUIRED_ENUMS = ("opcode", "status", "dtype", "row_form")
REQUIRED_LIMITS = ("BURST_BYTES", "COMMAND_BYTES", "PAGE_GRAIN_BYTES")
IOCTL_ACCESSES = ("none", "read", "write", "both")
ROW_NAMES = {"dim", "element_bytes"}
ARRAY_NAMES = {"head_dim", "value_dim", "k_row_bytes", "v_row_bytes"}

T = TypeVar("T")


def load(path: Path) -> Contract:
    """The contract in the file, complete in itself; `validate` still has to judge it.

    Raises ContractError for what cannot even be read: bad TOML, unknown or missing keys,
    wrong types, references to nothing.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ContractError(
            f"{path.name}: not valid TOML (a name given twice?): {error}"
        ) from error
    return _Loader(Table(data, "")).contract()


class _Loader:
    def __init__(self, root: Table) -> None:
        self._root = root
        self._numbers: dict[str, Number] = {}
        self._enums: dict[str, Enum] = {}
        self._flag_sets: dict[str, FlagSet] = {}

    def contract(self) -> Contract:
        root = self._root
        name, title = root.text("name"), root.text("title")
        abi = root.table("abi")
        identity = {key: abi.integer(key) for key in ("id", "major", "minor")}
        abi.finish()
        limits = self._constants("limit")
        formats = self._constants("format")
        self._numbers = {item.name: Number(item.value, item.name) for item in limits}
        self._enums = self._section("enum", self._enum)
        self._flag_sets = self._section("flags", self._flag_set)
        _require("limit", REQUIRED_LIMITS, self._numbers)
        _require("enum", REQUIRED_ENUMS, self._enums)
        structs = self._section("struct", self._struct)
        page = self._page(root.table("page"), structs)
        self._numbers |= {
            f"abi.{key}": Number(value, f"ABI_{key.upper()}") for key, value in identity.items()
        }
        registers = tuple(self._register(table) for table in root.records("register"))
        ioctls = self._ioctls(root.table("ioctl"), structs) if root.has("ioctl") else ()
        root.finish()
        return Contract(
            name=name,
            title=title,
            abi_id=identity["id"],
            abi_major=identity["major"],
            abi_minor=identity["minor"],
            limits=limits,
            formats=formats,
            enums=tuple(self._enums.values()),
            flag_sets=tuple(self._flag_sets.values()),
            structs=tuple(structs.values()),
            page=page,
            registers=registers,
            ioctls=ioctls,
        )

    def _section(self, key: str, make: Callable[[str, Table], T]) -> dict[str, T]:
        return {name: make(name, table) for name, table in self._root.table(key).tables()}

    def _scope(self, table: Table) -> str:
        scope = table.text("scope", DEVICE)
        if scope not in SCOPES:
            raise ContractError(
                f"{table.path}.scope: no `{scope}`{did_you_mean(scope, SCOPES)}; one of {SCOPES}"
            )
        return scope

    def _constants(self, section: str) -> tuple[Constant, ...]:
        constants = []
        for name, table in self._root.table(section).tables():
            unit = table.text("unit") if section == "limit" else ""
            value, doc = table.integer("value"), table.text("doc")
            constants.append(Constant(name, value, unit, doc, self._scope(table)))
            table.finish()
        return tuple(constants)

    def _enum(self, name: str, table: Table) -> Enum:
        doc, width, scope = table.text("doc"), table.integer("width", 8), self._scope(table)
        values = []
        for value_name, item in table.tables():
            number = item.integer("value")
            if name == "status":
                errno, message = item.text("errno"), item.text("message")
                values.append(EnumValue(value_name, number, message, None, errno, message))
            else:
                size = item.integer("bytes") if name == "dtype" else None
                values.append(EnumValue(value_name, number, item.text("doc"), size))
            item.finish()
        return Enum(name, doc, width, tuple(values), scope)

    def _flag_set(self, name: str, table: Table) -> FlagSet:
        doc, scope = table.text("doc"), self._scope(table)
        flags = []
        for flag_name, item in table.tables():
            flags.append(Flag(flag_name, item.integer("bit"), item.text("doc")))
            item.finish()
        return FlagSet(name, doc, tuple(flags), scope)

    def _struct(self, name: str, table: Table) -> Struct:
        size, doc, scope = table.integer("size"), table.text("doc"), self._scope(table)
        fields: list[Field] = []
        offset = 0
        for item in table.records("fields"):
            fields.append(self._field(item, offset))
            offset += fields[-1].size_bytes
        table.finish()
        return Struct(name, size, doc, tuple(fields), scope)

    def _field(self, table: Table, offset: int) -> Field:
        enum = self._reference(table, "enum", self._enums)
        field = Field(
            name=table.text("name"),
            bits=table.integer("bits"),
            count=self._number(table, "count") or Number(1),
            type=table.text("type", "u"),
            doc=table.text("doc"),
            offset=offset,
            kind=table.text("kind", ""),
            enum=enum,
            flags=self._reference(table, "flags", self._flag_sets),
            values=self._enum_values(table, enum),
            min=self._number(table, "min"),
            max=self._number(table, "max"),
            multiple=self._number(table, "multiple"),
        )
        table.finish()
        if field.bits not in (8, 16, 32, 64):
            raise ContractError(f"{table.path}: {field.bits} bits; a field has 8, 16, 32 or 64")
        return field

    def _enum_values(self, table: Table, enum: Enum | None) -> tuple[EnumValue, ...]:
        if not table.has("value"):
            return ()
        if enum is None:
            raise ContractError(f"{table.path}: `value` needs `enum`")
        names = table.raw("value")
        names = names if isinstance(names, list) else [names]
        return tuple(_enum_value(enum, name, f"{table.path}.value") for name in names)

    def _reference(self, table: Table, key: str, known: dict[str, T]) -> T | None:
        if not table.has(key):
            return None
        name = table.text(key)
        if name not in known:
            what = {"enum": "enumeration", "flags": "set of flags"}.get(key, "structure")
            raise ContractError(f"{table.path}: unknown {what} `{name}`{did_you_mean(name, known)}")
        return known[name]

    def _number(self, table: Table, key: str) -> Number | None:
        if not table.has(key):
            return None
        value = table.raw(key)
        if isinstance(value, int):
            return Number(table.integer(key))
        if not isinstance(value, str) or value not in self._numbers:
            suggestion = did_you_mean(str(value), self._numbers)
            raise ContractError(f"{table.path}.{key}: unknown limit `{value}`{suggestion}")
        return self._numbers[value]

    def _register(self, table: Table) -> Register:
        name, access = table.text("name"), table.text("access")
        offset, doc = table.integer("offset"), table.text("doc")
        flags = self._reference(table, "flags", self._flag_sets)
        is_external = table.flag("external")
        stride, count = 0, Number(1)
        if table.has("stride") or table.has("count"):
            stride, count = table.integer("stride"), self._number(table, "count") or Number(0)
        fields: list[RegisterField] = []
        lsb = 0
        for item in table.records("fields"):
            field = RegisterField(
                name=item.text("name"),
                bits=item.integer("bits"),
                lsb=lsb,
                access=item.text("access", access),
                doc=item.text("doc"),
                reset=self._number(item, "reset"),
                cleared_by=item.text("cleared_by", ""),
            )
            item.finish()
            fields.append(field)
            lsb += field.bits
        if not fields:
            reset = self._number(table, "reset")
            fields = [RegisterField("", REGISTER_BITS, 0, access, doc, reset)]
        table.finish()
        return Register(name, offset, access, doc, tuple(fields), stride, count, flags, is_external)

    def _ioctls(self, table: Table, structs: dict[str, Struct]) -> tuple[Ioctl, ...]:
        ioctls = []
        for name, item in table.tables():
            access = item.text("access")
            if access not in IOCTL_ACCESSES:
                known = did_you_mean(access, IOCTL_ACCESSES)
                raise ContractError(f"{item.path}.access: no `{access}`{known}")
            struct = self._reference(item, "struct", structs)
            if (access == "none") != (struct is None):
                raise ContractError(f"{item.path}: `struct` unless `access` is none")
            ioctls.append(Ioctl(name, item.integer("number"), access, struct, item.text("doc")))
            item.finish()
        return tuple(ioctls)

    def _page(self, table: Table, structs: dict[str, Struct]) -> Page:
        header = structs.get("page_header")
        if header is None:
            raise ContractError("page: the structure `page_header` is missing")
        shape = tuple(_require_field(header, name) for name in SHAPE_FIELDS)
        row_form = header.find("k_form")
        forms = row_form.enum if row_form else None
        if forms is None:
            raise ContractError("struct.page_header.fields.k_form: needs `enum`")
        row_forms = []
        for item in table.records("row_bytes"):
            value = _enum_value(forms, item.text("form"), item.path)
            row_forms.append(RowForm(value, self._expression(item, ROW_NAMES)))
            item.finish()
        arrays = []
        for item in table.records("arrays"):
            when = _condition(item, shape) if item.has("when") else None
            size = self._expression(item, ARRAY_NAMES)
            name, doc, scope = item.text("name"), item.text("doc"), self._scope(item)
            arrays.append(PageArray(name, size, doc, when, scope))
            item.finish()
        magic, version = table.integer("magic"), table.integer("version")
        table.finish()
        return Page(magic, version, header, shape, tuple(row_forms), tuple(arrays))

    def _expression(self, table: Table, quantities: set[str]) -> Expression:
        try:
            expression = Expression(table.text("bytes"))
        except ExpressionError as error:
            raise ContractError(f"{table.path}.bytes: {error}") from error
        known = quantities | set(self._numbers)
        for name in sorted(expression.names - known):
            suggestion = did_you_mean(name, known)
            raise ContractError(f"{table.path}.bytes: unknown quantity `{name}`{suggestion}")
        return expression


def _require(section: str, names: Iterable[str], given: Collection[str]) -> None:
    for name in names:
        if name not in given:
            raise ContractError(f"{section}.{name}: missing; the generator needs it")


def _require_field(header: Struct, name: str) -> Field:
    field = header.find(name)
    if field is None:
        raise ContractError(f"struct.page_header: the field `{name}` decides page sizes; missing")
    return field


def _enum_value(enum: Enum, name: object, path: str) -> EnumValue:
    value = enum.find(str(name))
    if value is None:
        suggestion = did_you_mean(str(name), [item.name for item in enum.values])
        raise ContractError(f"{path}: `{enum.name}` has no value `{name}`{suggestion}")
    return value


def _condition(table: Table, shape: tuple[Field, ...]) -> Condition:
    """`field == VALUE`, or the name of a page flag in lower case."""
    text, path = table.text("when"), f"{table.path}.when"
    name, equals, value = (part.strip() for part in text.partition("=="))
    for field in shape:
        if equals and field.name == name and field.enum:
            return Condition(field, value=_enum_value(field.enum, value, path))
        flag = field.flags.find(name.upper()) if field.flags and not equals else None
        if flag:
            return Condition(field, flag=flag)
    raise ContractError(f"{path}: `{text}` is neither `field == VALUE` nor a page flag")
