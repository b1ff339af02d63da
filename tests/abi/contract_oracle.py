"""A second, independent reading of the contract, against which the generator's outputs are held.

No code of the generator is used: offsets, rules and page sizes are worked out anew from the TOML.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTRACT = Path(__file__).resolve().parents[2] / "rtl" / "abi" / "nearkv.toml"


@dataclass(frozen=True)
class FieldRule:
    """A field's place, and the values that each of its elements may have."""

    name: str
    offset: int
    bits: int
    count: int
    min: int
    max: int
    multiple: int
    mask: int
    allowed: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Offsets and sizes of a page's arrays, in the contract's order."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    total: int


class Oracle:
    """The contract file with its references looked up."""

    def __init__(self, path: Path = CONTRACT) -> None:
        self.toml: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        self.limits = {name: item["value"] for name, item in self.toml["limit"].items()}

    @property
    def device_structs(self) -> dict[str, Any]:
        """The structures that SystemVerilog knows."""
        structs = self.toml["struct"].items()
        return {name: item for name, item in structs if item.get("scope", "device") == "device"}

    @property
    def device_arrays(self) -> list[dict[str, Any]]:
        """The page arrays that SystemVerilog knows, which come first."""
        arrays = self.toml["page"]["arrays"]
        return [item for item in arrays if item.get("scope", "device") == "device"]

    @property
    def commands(self) -> list[str]:
        """The structures that carry an opcode of the engine."""
        structs = self.device_structs.items()
        return [name for name, item in structs if item["fields"][0]["name"] == "opcode"]

    def members(self, section: str, name: str) -> dict[str, Any]:
        """The values of an enumeration or the flags of a set, without what describes the whole."""
        items = self.toml[section][name].items()
        return {key: item for key, item in items if isinstance(item, dict)}

    def fields(self, struct: str) -> list[FieldRule]:
        """The structure's fields in byte order."""
        rules, offset = [], 0
        for field in self.toml["struct"][struct]["fields"]:
            rules.append(self._rule(field, offset))
            offset += rules[-1].bits // 8 * rules[-1].count
        return rules

    def layout(self, shape: dict[str, int]) -> Layout:
        """The page layout of a shape, which may be nonsense."""
        names = {
            **self.limits,
            **shape,
            "k_row_bytes": self._row_bytes(shape["k_form"], shape["dtype"], shape["head_dim"]),
            "v_row_bytes": self._row_bytes(shape["v_form"], shape["dtype"], shape["value_dim"]),
        }
        burst, grain = self.limits["BURST_BYTES"], self.limits["PAGE_GRAIN_BYTES"]
        end = self.toml["struct"]["page_header"]["size"]
        offsets, sizes = [], []
        for array in self.toml["page"]["arrays"]:
            present = self._holds(array.get("when"), shape)
            sizes.append(_evaluate(array["bytes"], names) if present else 0)
            end += -end % burst
            offsets.append(end)
            end += sizes[-1]
        return Layout(tuple(offsets), tuple(sizes), end + -end % grain)

    def _rule(self, field: dict[str, Any], offset: int) -> FieldRule:
        bits = field["bits"]
        largest = 2**bits - 1
        allowed: list[int] = []
        if "enum" in field:
            values = self.members("enum", field["enum"])
            names = field.get("value", list(values))
            names = [names] if isinstance(names, str) else names
            allowed = [values[name]["value"] for name in names]
        mask = largest
        if "flags" in field:
            flags = self.members("flags", field["flags"])
            mask = sum(1 << flag["bit"] for flag in flags.values())
        reserved = field["name"].startswith("reserved")
        return FieldRule(
            name=field["name"],
            offset=offset,
            bits=bits,
            count=self._number(field.get("count", 1)),
            min=self._number(field.get("min", 0)),
            max=0 if reserved else self._number(field.get("max", largest)),
            multiple=self._number(field.get("multiple", 1)),
            mask=mask,
            allowed=tuple(allowed),
        )

    def _number(self, value: int | str) -> int:
        return self.limits[value] if isinstance(value, str) else value

    def _row_bytes(self, form: int, dtype: int, dim: int) -> int:
        forms = self.toml["enum"]["row_form"]
        dtypes = self.members("enum", "dtype").values()
        element = [item["bytes"] for item in dtypes if item["value"] == dtype]
        for row in self.toml["page"]["row_bytes"]:
            if forms[row["form"]]["value"] == form:
                names = {"dim": dim, "element_bytes": element[0] if element else 0}
                return _evaluate(row["bytes"], {**self.limits, **names})
        return 0

    def _holds(self, when: str | None, shape: dict[str, int]) -> bool:
        if when is None:
            return True
        if "==" not in when:
            return bool(shape["flags"] >> self.toml["flags"]["page_flag"][when.upper()]["bit"] & 1)
        field, form = (part.strip() for part in when.split("=="))
        value: int = self.toml["enum"]["row_form"][form]["value"]
        return shape[field] == value


def _evaluate(expression: str, names: dict[str, int]) -> int:
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}, names))
