"""The generated Python module says what the contract says."""

from __future__ import annotations

import errno
import importlib.util
import itertools
import struct
import sys
from types import ModuleType

import pytest
from contract_oracle import CONTRACT, Oracle

pytestmark = pytest.mark.quick

OUTPUTS = CONTRACT.parent / "gen"


def load_module() -> ModuleType:
    """The generated module, imported from its file."""
    spec = importlib.util.spec_from_file_location("nkv_abi", OUTPUTS / "nkv_abi.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


abi = load_module()
oracle = Oracle()


@pytest.mark.parametrize("name", oracle.toml["struct"])
def test_structures_pack_to_their_places(name: str) -> None:
    record = getattr(abi, name.upper())
    fields = oracle.fields(name)
    assert record.offsets == {field.name: field.offset for field in fields}
    assert record.size_bytes == oracle.toml["struct"][name]["size"]
    assert record.format[0] == "<", "little endian without padding, whatever the machine"
    assert struct.calcsize(record.format) == record.size_bytes
    # Each fits a byte, the narrowest field there is.
    values = [index % 128 for index in range(sum(field.count for field in fields))]
    packed = struct.pack(record.format, *values)
    value = iter(values)
    for field in fields:
        size = field.bits // 8
        for element in range(field.count):
            at = field.offset + element * size
            expected = next(value)
            raw = int.from_bytes(packed[at : at + size], "little")
            as_float = struct.unpack("<f", packed[at : at + size])[0] if size == 4 else None
            assert expected in (raw, as_float), field.name


def test_limits_and_formats_have_their_values() -> None:
    for section in ("limit", "format"):
        for name, item in oracle.toml[section].items():
            assert getattr(abi, name) == item["value"]


def test_enumerations_and_flags_have_their_values() -> None:
    for section, key in (("enum", "value"), ("flags", "bit")):
        for name in oracle.toml[section]:
            members = getattr(abi, name.title().replace("_", "")).__members__
            items = oracle.members(section, name).items()
            expected = {member: item[key] for member, item in items}
            if key == "bit":
                expected = {member: 1 << bit for member, bit in expected.items()}
            assert {member: int(value) for member, value in members.items()} == expected


def test_statuses_have_an_errno_and_a_message() -> None:
    assert abi.STATUS[abi.Status.OK] == (0, "done")
    assert abi.STATUS[abi.Status.STALE_PAGE].errno == errno.ESTALE
    assert {status: text.message for status, text in abi.STATUS.items()} == {
        item["value"]: item["message"] for item in oracle.members("enum", "status").values()
    }


def test_registers_have_their_offsets() -> None:
    for item in oracle.toml["register"]:
        register = getattr(abi, f"REG_{item['name']}")
        if "stride" in item:
            assert register.at(0) == item["offset"]
            assert register.at(5) == item["offset"] + 5 * item["stride"]
            with pytest.raises(IndexError):
                register.at(oracle.limits[item["count"]])
        else:
            assert register == item["offset"]
        shift = 0
        for field in item.get("fields", []):
            bits = getattr(abi, f"REG_{item['name']}_{field['name']}")
            assert (bits.shift, bits.bits) == (shift, field["bits"])
            shift += field["bits"]
    assert abi.REG_LIMITS_HEAD_DIM.get(0x0000_5566_3344_2211) == 0x3344


def test_pages_are_laid_out_as_the_contract_says() -> None:
    dims = (0, 1, 16, 17, 64, 128, 576, 65535)
    for k_form, v_form, dtype, flags in itertools.product(range(4), range(4), range(7), (0, 1, 2)):
        for head_dim, value_dim in itertools.product(dims, (0, 64, 65535)):
            shape = {
                "k_form": k_form,
                "v_form": v_form,
                "dtype": dtype,
                "flags": flags,
                "head_dim": head_dim,
                "value_dim": value_dim,
            }
            layout, expected = abi.page_layout(abi.PageShape(**shape)), oracle.layout(shape)
            assert (layout.offset, layout.bytes) == (expected.offsets, expected.sizes)
            assert layout.total_bytes == expected.total
