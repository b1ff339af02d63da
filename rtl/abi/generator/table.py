"""Reading a TOML table strictly: wrong types and keys that nobody asks for are errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

from .model import ContractError

T = TypeVar("T")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion to append to an error message, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


class Table:
    """A TOML table and its path. Ask for every key, then call `finish`."""

    def __init__(self, data: object, path: str) -> None:
        if not isinstance(data, dict):
            raise ContractError(f"{path}: must be a table")
        self._data: dict[str, Any] = dict(data)
        self._asked: list[str] = []
        self.path = path

    def has(self, key: str) -> bool:
        """Whether the table has the key, which is one that it may have."""
        self._asked.append(key)
        return key in self._data

    def text(self, key: str, default: str | None = None) -> str:
        """A line of text; required unless there is a default."""
        value: str = self._take(key, str, "text", default)
        if "*/" in value or "\n" in value:
            raise ContractError(f"{self.path}.{key}: must be one line without `*/`")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer from 0 up; required unless there is a default."""
        value: int = self._take(key, int, "an integer", default)
        if isinstance(value, bool) or value < 0:
            raise ContractError(f"{self.path}.{key}: must be an integer from 0 up")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false unless it is there."""
        value: bool = self._take(key, bool, "true or false", False)
        return value

    def raw(self, key: str) -> int | str | list[Any]:
        """A value that may be an integer, a name or a list of names."""
        value: int | str | list[Any]
        value = self._take(key, (int, str, list), "an integer, a name or a list", None)
        return value

    def table(self, key: str) -> Table:
        """A table within this one; required."""
        return Table(self._take(key, dict, "a table", None), f"{self.path}.{key}".lstrip("."))

    def tables(self) -> list[tuple[str, Table]]:
        """Whatever keys are left, all of which must be tables, in the file's order."""
        left = [key for key in self._data if key not in self._asked]
        return [(key, self.table(key)) for key in left]

    def records(self, key: str) -> list[Table]:
        """A list of tables that each carry a `name`, which becomes part of their path."""
        items: list[Any] = self._take(key, list, "a list of tables", [])
        path = f"{self.path}.{key}".lstrip(".")
        records = []
        for index, item in enumerate(items):
            name = item.get("name", index) if isinstance(item, dict) else index
            records.append(Table(item, f"{path}.{name}"))
        return records

    def finish(self) -> None:
        """Every key of the table must have been asked for."""
        for key in self._data:
            if key not in self._asked:
                where = f"{self.path}: " if self.path else ""
                raise ContractError(f"{where}unknown key `{key}`{did_you_mean(key, self._asked)}")

    def _take(
        self, key: str, kind: type[T] | tuple[type, ...], what: str, default: T | None
    ) -> Any:
        self._asked.append(key)
        if key not in self._data:
            if default is None:
                raise ContractError(f"{self.path or 'top level'}: `{key}` is missing")
            return default
        value = self._data[key]
        if not isinstance(value, kind):
            raise ContractError(f"{self.path}.{key}".lstrip(".") + f": must be {what}")
        return value
