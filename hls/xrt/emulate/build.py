"""The simulator of a card, and the folder that an application runs with."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .card import Card
from .failure import EmulationError
from .kernel import Kernel
from .verilated import Module, compile_module, run

_ROOT = Path(__file__).parents[3]

_HARNESS = """\
// Made by nearkv xrt-emu: the kernels of this simulator.
#include "xrt/simulator/verilated_model.hpp"
{includes}

std::unique_ptr<nearkv::hw_emu::KernelModel> nearkv::hw_emu::make_kernel_model(
    std::string_view kernel, std::string_view instance) {{
  const std::string name(instance);
{kernels}
  return nullptr;
}}
"""

_HARNESS_KERNEL = """\
  if (kernel == "{name}") {{
    return std::make_unique<VerilatedModel<{class_name}>>(
        name, "{clock}", [](auto& top, auto& ports) {{
{ports}
        }});
  }}"""


@dataclass(frozen=True)
class Toolchain:
    """Where this build of NearKV has what simulators are made of."""

    compiler: str
    include: str
    libraries: list[str]
    xclbin_writer: str
    script: str
    xrt_libraries: str
    missing: str = ""

    @staticmethod
    def find() -> Toolchain:
        """Of this checkout's release build."""
        path = _ROOT / "build" / "release" / "xrt_emu.json"
        try:
            found = json.loads(path.read_text())
        except OSError as error:
            raise EmulationError("NearKV is not built here: call ./nearkv build") from error
        if found["missing"]:
            raise EmulationError(f"{found['missing']}, then call again")
        return Toolchain(**found)


def build_simulator(
    toolchain: Toolchain, modules: Sequence[Module], kernels: Sequence[Kernel], objects: Path
) -> Path:
    """Compiles the program that XRT will start."""
    harness = objects / "kernels.cpp"
    harness.write_text(
        _HARNESS.format(
            includes="\n".join(f'#include "{module.class_name}.h"' for module in modules),
            kernels="\n".join(
                _write_kernel(module, kernel)
                for module, kernel in zip(modules, kernels, strict=True)
            ),
        )
    )
    folders = [module.folder for module in modules]
    launcher = [ccache] if (ccache := shutil.which("ccache")) else []
    verilator = Path(_verilator_root()) / "include"
    runtime = sorted({name for folder in folders for name in _runtime_of(folder)})
    waves = "verilated_fst_c" in runtime
    compiled = []
    for source in (harness, *(verilator / f"{name}.cpp" for name in runtime)):
        compiled.append(objects / f"{source.stem}.o")
        command = [
            *launcher, toolchain.compiler, "-std=c++20", "-O2", "-c", str(source),
            "-o", str(compiled[-1]), "-DVM_TRACE=1", f"-DVM_TRACE_FST={int(waves)}",
            f"-I{toolchain.include}", f"-I{verilator}", f"-I{verilator / 'vltstd'}",
            *(f"-I{folder}" for folder in folders),
        ]  # fmt: skip
        run(command, "the simulator cannot be compiled", objects / f"{source.stem}.log")
    simulator = objects / "simulator"
    command = [
        toolchain.compiler, "-o", str(simulator), *map(str, compiled),
        *(str(compile_module(module, launcher)) for module in modules),
        *toolchain.libraries, "-pthread", "-latomic", *(["-lz"] if waves else []),
    ]  # fmt: skip
    run(command, "the simulator cannot be linked", objects / "simulator.log")
    return simulator


def write_package(
    toolchain: Toolchain, card: Card, simulator: Path, name: str, output: Path
) -> Path:
    """Writes the xclbin, and what XRT needs beside it; returns the xclbin."""
    description = simulator.parent / "description.json"
    description.write_text(json.dumps(card, indent=1) + "\n")
    command = [
        toolchain.xclbin_writer,
        "--description", str(description), "--simulator", str(simulator),
        "--script", toolchain.script, "--xrt-libraries", toolchain.xrt_libraries,
        "--name", name, "--output", str(output),
    ]  # fmt: skip
    run(command, "the xclbin cannot be written", simulator.parent / "xclbin.log")
    return output / f"{name}.xclbin"


def _write_kernel(module: Module, kernel: Kernel) -> str:
    ports = "\n".join(
        f'          ports.add("{port.name}", top.{port.member}, {port.bits});'
        for port in module.ports.values()
    )
    return _HARNESS_KERNEL.format(
        name=kernel.name, class_name=module.class_name, clock=kernel.clock, ports=ports
    )


def _runtime_of(folder: Path) -> list[str]:
    """Verilator's own sources that a module of this folder needs."""
    text = next(folder.glob("V*_classes.mk")).read_text()
    parts = re.findall(r"^VM_GLOBAL_(?:FAST|SLOW) \+= \\\n((?:\t\w+ \\\n)*)", text, re.M)
    return re.findall(r"\w+", " ".join(parts))


def _verilator_root() -> str:
    done = subprocess.run(
        ["verilator", "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
