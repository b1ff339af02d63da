"""A file of TOML's tables, of which every key and the kind of every value is checked."""

import dataclasses
from collections.abc import Collection
from typing import Any


class ConfigError(ValueError):
    """A configuration that cannot be; the text says which key, and what it may be."""


def tables_at(table: dict[str, Any], key: str) -> list[Any]:
    """What `[[key]]` has. ConfigError for one `[key]`."""
    tables = table.get(key, [])
    if not isinstance(tables, list):
        raise ConfigError(f"write [[{key}]], with two brackets, for each {key}")
    return tables


def record_of(kind: type[Any], table: Any, where: str, *, but: Collection[str] = ()) -> Any:
    """A dataclass out of a table; `but` are fields that no table gives. ConfigError."""
    fields = {field.name: field.type for field in dataclasses.fields(kind) if field.name not in but}
    checked(table, where, fields)
    try:
        return kind(**table)
    except TypeError:
        raise ConfigError(f"{where} needs a name") from None


def checked(table: Any, where: str, types: dict[str, Any]) -> dict[str, Any]:
    """The table, if all of its keys have a type and their values are of it. ConfigError."""
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is a table, not {table!r}")
    for key, value in table.items():
        if key not in types:
            raise ConfigError(f"{where} has no key {key!r}; there are {', '.join(types)}")
        wanted = types[key]
        fits = isinstance(value, wanted) or (wanted is float and isinstance(value, int))
        if not fits or isinstance(value, bool):
            raise ConfigError(f"{where}: {key} is a {wanted.__name__}, not {value!r}")
    return table
