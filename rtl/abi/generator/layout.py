"""Evaluates the page layout, for the tables of the reference."""

from __future__ import annotations

from .model import Contract, PageArray


def array_sizes(contract: Contract, shape: dict[str, int]) -> dict[str, int]:
    """Bytes of each page array, where `shape` gives the shape fields by name."""
    row_bytes = {
        tensor: _row_bytes(contract, shape[f"{tensor}_form"], shape["dtype"], shape[dim])
        for tensor, dim in (("k", "head_dim"), ("v", "value_dim"))
    }
    names = {
        **contract.limit_values,
        "head_dim": shape["head_dim"],
        "value_dim": shape["value_dim"],
        "k_row_bytes": row_bytes["k"],
        "v_row_bytes": row_bytes["v"],
    }
    return {
        array.name: array.size.evaluate(names) if _is_present(array, shape) else 0
        for array in contract.page.arrays
    }


def page_bytes(contract: Contract, sizes: dict[str, int]) -> int:
    """Bytes of a page whose arrays have these sizes."""
    burst, grain = (contract.limit_values[name] for name in ("BURST_BYTES", "PAGE_GRAIN_BYTES"))
    end = contract.page.header.size + sum(_round_up(size, burst) for size in sizes.values())
    return _round_up(end, grain)


def _row_bytes(contract: Contract, form: int, dtype: int, dim: int) -> int:
    size = next(item.size for item in contract.page.row_forms if item.value.value == form)
    element = next(v.element_bytes for v in contract.enum("dtype").values if v.value == dtype)
    return size.evaluate({**contract.limit_values, "dim": dim, "element_bytes": element or 0})


def _is_present(array: PageArray, shape: dict[str, int]) -> bool:
    when = array.when
    if when is None:
        return True
    value = shape[when.field.name]
    if when.value:
        return value == when.value.value
    return bool(when.flag and value >> when.flag.bit & 1)


def _round_up(value: int, grain: int) -> int:
    return -(-value // grain) * grain
