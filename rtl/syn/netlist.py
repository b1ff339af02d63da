"""Counts and logic depth of a flat netlist that Yosys mapped to Xilinx UltraScale+ cells.

Depth is counted as a designer counts it: LUT levels between registers, and carry chains entered.
A LUT that feeds a carry chain is a level, the chain itself is none; inverters and the wide
multiplexers of a slice are free; a LUT memory that is read is a level. Registers, block memories
and DSPs with a register inside begin and end paths, and so do ports and modules that were left
out. Reset is no path.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Bit = int | str  # Yosys numbers nets; constants are texts.

# LUTs that a memory or shift register of this kind takes.
_LUT_RAM = {
    "RAM32M16": 8,
    "RAM64M8": 8,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32X1S": 1,
    "RAM64X1S": 1,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1S": 2,
    "RAM128X1D": 4,
    "RAM256X1S": 4,
    "RAM256X1D": 8,
    "RAM512X1S": 8,
    "SRL16E": 1,
    "SRLC16E": 1,
    "SRLC32E": 1,
}
# The address port of a LUT memory that is written through; of the rest one reads.
_WRITE_ADDRESS = {"RAM32M16": "ADDRH", "RAM64M8": "ADDRH", "RAM32M": "ADDRD", "RAM64M": "ADDRD"}
_FLIP_FLOPS = ("FD", "LDCE", "LDPE")
_CARRIES = ("CARRY4", "CARRY8")
_NO_PATH = ("C", "CLK", "WCLK", "G", "CLR", "PRE")


class AreaCount(NamedTuple):
    """What a block takes. LUTs of memories are in `lut_ram`, not in `lut`."""

    lut: int
    lut_ram: int
    ff: int
    carry8: int
    dsp: int
    bram36: float
    uram: int


@dataclass(frozen=True)
class Path:
    """The deepest path by one measure, from register or port to register or port."""

    levels: int
    chains: int
    start: str
    end: str


@dataclass(frozen=True)
class Depth:
    """The path of most LUT levels, that of most carry chains, and the registers beyond a limit."""

    deepest: Path
    most_chains: Path
    beyond: dict[str, Path]  # By register, array indices left out.


class _Reach(NamedTuple):
    """How far a net lies behind its register."""

    levels: int
    chains: int
    start: Bit


def count(cells: Mapping[str, Mapping[str, Any]]) -> AreaCount:
    """Adds up the cells of a flat netlist."""
    kinds = Counter(cell["type"] for cell in cells.values())

    def total(*prefixes: str) -> int:
        return sum(number for kind, number in kinds.items() if kind.startswith(prefixes))

    return AreaCount(
        lut=sum(number for kind, number in kinds.items() if re.fullmatch(r"LUT\d", kind)),
        lut_ram=sum(luts * kinds[kind] for kind, luts in _LUT_RAM.items()),
        ff=total(*_FLIP_FLOPS),
        carry8=kinds["CARRY8"] + (kinds["CARRY4"] + 1) // 2,
        dsp=total("DSP48"),
        bram36=kinds["RAMB36E2"] + kinds["RAMB18E2"] / 2,
        uram=kinds["URAM288"],
    )


def count_by_instance(
    cells: Mapping[str, Mapping[str, Any]], levels: int = 1
) -> dict[str, AreaCount]:
    """The same for each instance below the top, `levels` deep; generated arrays are one."""
    groups: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, cell in cells.items():
        groups.setdefault(_instance(name, levels), {})[name] = cell
    return {name: count(group) for name, group in sorted(groups.items())}


def _instance(cell: str, levels: int) -> str:
    """`u_a.u_b` of Yosys' names for the cells of flattened instances; generated arrays are one."""
    path = []
    for part in filter(None, re.split(r"\$flatten\\|\\", cell)):
        found = re.match(r"((?:[a-z]\w*(?:\[\d+\])?\.)+)", part)
        if not found:
            break
        path += found[1].rstrip(".").split(".")
    return ".".join(re.sub(r"\[\d+\]", "", part) for part in path[:levels])


def measure_depth(module: Mapping[str, Any], max_levels: int, max_chains: int) -> Depth:
    """Walks all paths of a flat module."""
    return _Walk(module).depth(max_levels, max_chains)


class _Walk:
    def __init__(self, module: Mapping[str, Any]) -> None:
        self._cells = module["cells"]
        self._names = _net_names(module)
        self._ports = module.get("ports", {})
        self._driver: dict[Bit, tuple[str, str, int]] = {}
        for name, cell in self._cells.items():
            for port, bits in cell["connections"].items():
                if cell["port_directions"][port] == "output":
                    for i, bit in enumerate(bits):
                        self._driver[bit] = (name, port, i)
        self._by_levels: dict[Bit, _Reach] = {}
        self._by_chains: dict[Bit, _Reach] = {}

    def depth(self, max_levels: int, max_chains: int) -> Depth:
        deepest = most_chains = Path(0, 0, "", "")
        beyond: dict[str, Path] = {}
        for bit, end in self._ends():
            levels, chains = self._reach(bit)
            if (levels.levels, levels.chains) > (deepest.levels, deepest.chains):
                deepest = self._path(levels, end)
            if (chains.chains, chains.levels) > (most_chains.chains, most_chains.levels):
                most_chains = self._path(chains, end)
            worst = levels if levels.levels > max_levels else chains
            if worst.levels > max_levels or worst.chains > max_chains:
                register = re.sub(r"\[\d+\]", "", end)
                known = beyond.get(register)
                if known is None or worst.levels > known.levels:
                    beyond[register] = self._path(worst, end)
        return Depth(deepest, most_chains, beyond)

    def _path(self, reach: _Reach, end: str) -> Path:
        return Path(reach.levels, reach.chains, self._name(reach.start), end)

    def _name(self, bit: Bit) -> str:
        if bit in self._names:
            return self._names[bit]
        return _short(self._driver[bit][0]) if bit in self._driver else "constant"

    def _ends(self) -> Iterator[tuple[Bit, str]]:
        """Every bit at which a path ends, and the name of what it ends in."""
        for name, cell in self._cells.items():
            ends = _end_ports(cell)
            if not ends:
                continue
            outputs = cell["connections"].get("Q") or []
            target = self._name(outputs[0]) if outputs else _short(name)
            for port in ends:
                for bit in cell["connections"][port]:
                    yield bit, target
        for name, port in self._ports.items():
            if port["direction"] == "output":
                for bit in port["bits"]:
                    yield bit, name

    def _reach(self, bit: Bit) -> tuple[_Reach, _Reach]:
        """How far a net lies behind its farthest register: by levels, and by chains."""
        stack = [bit]
        while stack:
            at = stack[-1]
            if at in self._by_levels:
                stack.pop()
                continue
            inputs = self._inputs(at)
            if missing := [b for b, _, _ in inputs if b not in self._by_levels]:
                stack.extend(missing)
                continue
            stack.pop()
            by_levels = by_chains = _Reach(0, 0, at)
            for source, level, chain in inputs:
                far = self._by_levels[source]
                if (far.levels + level, far.chains + chain) > by_levels[:2]:
                    by_levels = _Reach(far.levels + level, far.chains + chain, far.start)
                far = self._by_chains[source]
                if (far.chains + chain, far.levels + level) > (by_chains.chains, by_chains.levels):
                    by_chains = _Reach(far.levels + level, far.chains + chain, far.start)
            self._by_levels[at] = by_levels
            self._by_chains[at] = by_chains
        return self._by_levels[bit], self._by_chains[bit]

    def _inputs(self, bit: Bit) -> list[tuple[Bit, int, int]]:
        """The nets that a net depends on within the cycle, with levels and chains added."""
        if isinstance(bit, str) or bit not in self._driver:
            return []
        name, port, index = self._driver[bit]
        cell = self._cells[name]
        kind, nets = cell["type"], cell["connections"]
        if kind in _CARRIES:
            last = index if port == "O" else index + 1
            entering = [*nets["S"][: index + 1], *nets["DI"][:last]]
            inputs = [(b, 0, 1) for b in entering]
            inputs += [(b, 0, 0) for b in nets["CI"]]
            inputs += [(b, 0, 1) for b in nets.get("CYINIT", nets.get("CI_TOP", []))]
        elif kind in _LUT_RAM:
            written = _WRITE_ADDRESS.get(kind)
            reads = [p for p in nets if p.startswith(("A", "DPRA")) and p != written]
            if port == "DPO":
                reads = [p for p in reads if p.startswith("DPRA")]
            elif written and port.startswith("DO"):
                reads = [f"ADDR{port[2]}"]
            inputs = [(b, 1, 0) for p in reads for b in nets[p]]
        elif _is_sequential(cell):
            inputs = []
        else:
            level = int(bool(re.fullmatch(r"LUT\d", kind)) or kind.startswith("DSP48"))
            inputs = [(b, level, 0) for p in _inputs_of(cell) if p not in _NO_PATH for b in nets[p]]
        return [(b, level, chain) for b, level, chain in inputs if not isinstance(b, str)]


def _is_sequential(cell: Mapping[str, Any]) -> bool:
    kind = cell["type"]
    if kind.startswith("DSP48"):
        return _dsp_registers(cell)
    return kind.startswith((*_FLIP_FLOPS, "RAMB", "URAM")) or _is_left_out(cell)


def _is_left_out(cell: Mapping[str, Any]) -> bool:
    """Whether it is a module of the design, whose inside is another netlist."""
    return cell["type"].lstrip("\\").startswith("nkv_")


def _dsp_registers(cell: Mapping[str, Any]) -> bool:
    """Whether a register of the DSP stands between its factors and its output."""
    a, b, m, p = (
        int(str(cell["parameters"].get(register, "0")), 2)
        for register in ("AREG", "BREG", "MREG", "PREG")
    )
    return bool(p or m or (a and b))


def _end_ports(cell: Mapping[str, Any]) -> list[str]:
    """The inputs of a cell at which paths end."""
    kind = cell["type"]
    if kind in _LUT_RAM:
        written = _WRITE_ADDRESS.get(kind)
        return [
            p for p in _inputs_of(cell) if p.startswith(("DI", "WE", "CE")) or p in ("D", written)
        ]
    if _is_sequential(cell):
        return [p for p in _inputs_of(cell) if p not in _NO_PATH and "CLK" not in p]
    return []


def _inputs_of(cell: Mapping[str, Any]) -> list[str]:
    return [p for p in cell["connections"] if cell["port_directions"][p] == "input"]


def _net_names(module: Mapping[str, Any]) -> dict[Bit, str]:
    """The designer's name of each net, with its place in the bus."""
    names: dict[Bit, str] = {}
    for name, net in module["netnames"].items():
        if net.get("hide_name") or "$" in name:
            continue
        for i, bit in enumerate(net["bits"]):
            label = f"{name}[{i}]" if len(net["bits"]) > 1 else name
            if bit not in names or len(label) < len(names[bit]):
                names[bit] = label
    # A register that was turned round for its reset value has the name of what it stands for.
    for cell in module["cells"].values():
        if cell["type"] == "INV":
            (inverted,), (named,) = cell["connections"]["I"], cell["connections"]["O"]
            if named in names:
                names.setdefault(inverted, names[named])
    return names


def _short(cell: str) -> str:
    """What a register or memory was called before it was mapped to cells."""
    name = re.sub(r"\\(FD|LD|RAM|SRL|URAM|DSP)\w*$|(\.\d+)+$", "", cell)
    return re.sub(r"\$flatten\\|\$\S*\$\d*|\\", "", name).rstrip(".")
