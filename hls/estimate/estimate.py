"""Cycles of a kernel: its slowest process, and what the first item takes through all of them."""

from __future__ import annotations

import ast
import operator
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
KERNELS = _HERE.parent / "kernels"
_LABEL = re.compile(r"^\s*(\w+):$")
_PIPELINE = re.compile(r"#pragma HLS pipeline II = (\d+)")
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Sizes:
    """What a kernel works on; rows are bf16."""

    pages: int = 512
    channels: int = 128
    is_delta4: bool = False
    planes: int = 3
    k: int = 256

    def names(self) -> dict[str, float]:
        """The sizes that the expressions of dataflow.toml name."""
        row_bytes = self.channels * 3 // 2 if self.is_delta4 else self.channels * 2
        low_pieces = -(-self.channels // 64)
        words = -(-self.channels // 32)
        exponents = low_pieces if self.is_delta4 else 0
        return {
            "pages": self.pages,
            "channels": self.channels,
            "words": words,
            "row_pieces": low_pieces + 1 if self.is_delta4 else words,
            "row_bursts": row_bytes + exponents,  # 64 rows in bursts of 64 bytes.
            "digest_bursts": -(-self.channels // 32),
            "plane_bursts": self.channels // 8,
            "planes": self.planes,
            "k": self.k,
        }


def model() -> dict[str, Any]:
    """dataflow.toml."""
    return tomllib.loads((_HERE / "dataflow.toml").read_text(encoding="utf-8"))


def kernel_names() -> list[str]:
    """The kernels that the model has."""
    return [name for name, part in model().items() if "process" in part]


def estimate(kernel: str, sizes: Sizes | None = None) -> int:
    """Cycles of a kernel; KeyError if the model has none of that name."""
    parts, names = model(), (sizes or Sizes()).names()
    depths = parts["depth"]
    of_kernel = parts[kernel]
    before = sum(_cycles(parts[name], names, depths) for name in of_kernel.get("before", []))
    processes = [_cycles(loops, names, depths) for loops in of_kernel["process"].values()]
    # Each process begins with the first item of the one before it: a body's depth later.
    filling = sum(
        min(depths[loop["depth"]] for loop in loops.values())
        for loops in of_kernel["process"].values()
    )
    after = sum(_cycles(loops, names, depths) for loops in of_kernel.get("after", {}).values())
    return round(before + max(processes) + filling + after)


def _cycles(loops: dict[str, Any], names: dict[str, float], depths: dict[str, int]) -> float:
    return sum(
        _evaluate(loop["trips"], names) * loop["ii"]
        + _evaluate(loop["starts"], names) * depths[loop["depth"]]
        for loop in loops.values()
    )


def _evaluate(text: str, names: dict[str, float]) -> float:
    """Sums and products of numbers and names, nothing else."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Name):
            return names[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        raise ValueError(f"{text}: {ast.dump(node)} is neither number, name, sum nor product")

    return value(ast.parse(text, mode="eval").body)


def loops_of_model() -> Iterator[tuple[str, int]]:
    """Label and initiation interval of every loop in dataflow.toml."""

    def walk(part: dict[str, Any]) -> Iterator[tuple[str, int]]:
        for name, value in part.items():
            if isinstance(value, dict):
                if "ii" in value:
                    yield name, value["ii"]
                else:
                    yield from walk(value)

    yield from walk(model())


def loops_of_sources() -> dict[str, set[int]]:
    """Initiation intervals of the labelled loops of the kernels; a loop without one counts as 1."""
    found: dict[str, set[int]] = {}
    for file in sorted(KERNELS.glob("*.[ch]pp")):
        label = None
        for line in file.read_text(encoding="utf-8").splitlines():
            if match := _LABEL.match(line):
                label = match[1]
                found.setdefault(label, set())
            elif (match := _PIPELINE.search(line)) and label:
                found[label].add(int(match[1]))
    return {label: intervals or {1} for label, intervals in found.items()}
