"""A kernel's module, compiled to C++ by Verilator, and its ports as they stand in that C++."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .failure import EmulationError

# VL_IN8(&ap_clk,0,0); VL_OUTW(&m_axi_gmem_wdata,511,0,16); with "&" left out in a second place.
_PORT = re.compile(r"^\s*VL_(IN|OUT|INOUT)(8|16|64|W)?\(\(?&(\w+)\)?(\[[^,]*)?,(\d+),(\d+)", re.M)
# Verilator's name of a port that C++ does not take as it is, such as interrupt.
_RENAMED = "__SYM__"


@dataclass(frozen=True)
class Port:
    """A port of a module."""

    name: str
    member: str  # Of the C++ class.
    bits: int
    is_input: bool


@dataclass(frozen=True)
class Module:
    """A Verilated module."""

    name: str
    source: Path
    folder: Path  # Of its C++.
    ports: dict[str, Port]

    @property
    def class_name(self) -> str:
        """Of the C++ class."""
        return f"V{self.name}"


@dataclass(frozen=True)
class Options:
    """What Verilator is told of all modules."""

    sources: Sequence[Path] = ()
    include: Sequence[str] = ()
    define: Sequence[str] = ()
    parameter: Sequence[str] = ()
    waves: bool = False

    def arguments(self) -> list[str]:
        """Of Verilator."""
        return [
            *(f"-I{folder}" for folder in self.include),
            *(f"-D{name}" for name in self.define),
            *(f"-G{name}" for name in self.parameter),
            *(["--trace-fst", "--trace-structs"] if self.waves else []),
        ]


def verilate(source: Path, module: str, options: Options, objects: Path) -> Module:
    """Turns a module into C++ below `objects`."""
    program = shutil.which("verilator")
    if program is None:
        raise EmulationError(
            "there is no verilator here; this line installs it: sudo apt-get install verilator"
        )
    folder = objects / module
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        program, "--cc", "-O3", "--assert", "--no-timing",
        "-Wno-fatal", "-Wno-SYMRSVDWORD", "-Wno-STMTDLY",
        "--top-module", module, "--prefix", f"V{module}", "-Mdir", str(folder),
        "-CFLAGS", "-O2",
        *options.arguments(), *(str(path) for path in options.sources), str(source),
    ]  # fmt: skip
    run(command, f"Verilator does not take {source}", folder / "verilator.log")
    header = (folder / f"V{module}.h").read_text()
    ports: dict[str, Port] = {}
    for direction, _, member, array, high, low in _PORT.findall(header):
        name = member.removeprefix(_RENAMED)
        if array:
            raise EmulationError(f"{module}: port {name} is an unpacked array; kernels have none")
        ports[name] = Port(name, member, int(high) - int(low) + 1, direction == "IN")
    return Module(module, source, folder, ports)


def compile_module(module: Module, launcher: Sequence[str]) -> Path:
    """Compiles a module's C++ to the library that it returns."""
    library = f"{module.class_name}__ALL.a"
    command = [
        "make", "-C", str(module.folder), "-f", f"{module.class_name}.mk", library,
        f"OBJCACHE={' '.join(launcher)}",
    ]  # fmt: skip
    run(command, f"{module.name} cannot be compiled", module.folder / "compile.log")
    return module.folder / library


def run(command: Sequence[str], failure: str, log: Path) -> None:
    """Runs a compiler; what it said is shown if it fails, and kept in `log`."""
    with log.open("w") as text:
        status = subprocess.run(command, stdout=text, stderr=subprocess.STDOUT, check=False)
    if status.returncode != 0:
        words = "\n".join(log.read_text().splitlines()[-30:])
        raise EmulationError(f"{failure}:\n{words}")
