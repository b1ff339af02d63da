"""A unit bench of the release build, made anew from other sources or with other options.

Ninja knows how each test was made: the command of Verilator, those of the test's own sources and
the one that links. A variant repeats them in a folder of its own. Verilator's output is compiled
as one file: most of the time of many small ones goes into the same headers.
"""

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "release"
RTL = ROOT / "rtl"


class BuildError(Exception):
    """What a tool said when a bench could not be made."""


class ToolError(Exception):
    """A tool, or what the release build has to hold, is missing."""


@dataclass(frozen=True)
class Bench:
    """How a test of one module was made. Paths are relative to the build folder, or absolute."""

    name: str
    prefix: str
    verilator: tuple[str, ...]
    compilers: tuple[tuple[str, ...], ...]  # One per source of the test itself.
    linker: tuple[str, ...]

    @property
    def generated(self) -> str:
        """The folder of Verilator's output."""
        return self.verilator[self.verilator.index("--Mdir") + 1]

    @property
    def module(self) -> str:
        """The library of the Verilated module."""
        return next(word for word in self.linker if word.endswith(f"lib{self.name}_module.a"))

    @property
    def sources(self) -> list[Path]:
        """The SystemVerilog files, packages first."""
        return [Path(word) for word in self.verilator if word.endswith(".sv")]

    @property
    def program(self) -> Path:
        """The test of the release build."""
        return BUILD / self.linker[self.linker.index("-o") + 1]


def find_bench(name: str) -> Bench:
    """Reads from the release build how a test was made."""
    steps = [shlex.split(line) for line in _commands(name)]
    verilator = next(step for step in steps if f"{name}_module.dir" in " ".join(step))
    verilator = _command(verilator, "--prefix")
    compilers = [step for step in steps if "-c" in step and f"/{name}.dir/" in _output(step)]
    linker = [word for word in steps[-1] if word not in (":", "&&")]
    prefix = verilator[verilator.index("--prefix") + 1]
    return Bench(name, prefix, tuple(verilator), tuple(map(tuple, compilers)), tuple(linker))


def all_benches() -> list[str]:
    """The names of all benches of the release build."""
    done = subprocess.run(
        ["ninja", "-C", str(BUILD), "-t", "targets", "all"], capture_output=True, text=True
    )
    libraries = [line.partition(":")[0] for line in done.stdout.splitlines()]
    # Each is listed by its path, and by its name alone.
    names = {Path(path).name for path in libraries if path.endswith("_test_module.a")}
    return sorted(name.removeprefix("lib").removesuffix("_module.a") for name in names)


def require_tools() -> None:
    """Raises ToolError where something is missing that every variant needs."""
    for tool in ("verilator_bin", "make", "ninja"):
        if shutil.which(tool) is None:
            raise ToolError(f"no {tool} (install verilator, make, ninja-build)")
    if not (BUILD / "build.ninja").exists():
        raise ToolError("nothing is built (./nearkv build)")


def verilate(
    bench: Bench, folder: Path, replaced: Mapping[Path, Path], options: Sequence[str] = ()
) -> None:
    """Runs Verilator into a folder, with some sources replaced by others."""
    words = [str(replaced.get(Path(word), word)) for word in bench.verilator]
    words[words.index("--Mdir") + 1] = str(folder)
    run([*words, "--make", "gmake", *options], ROOT)


def compile_module(bench: Bench, folder: Path) -> None:
    """Compiles what Verilator made into one object."""
    make = ["make", "--silent", "-f", f"{bench.prefix}.mk", f"{bench.prefix}__ALL.a"]
    run([*make, "VM_PARALLEL_BUILDS=0", "OPT_FAST=-O1"], folder)


def compile_tests(bench: Bench, folder: Path, flags: Sequence[str]) -> dict[str, Path]:
    """Compiles the test's own sources for the module of a folder; the objects by the first's."""
    objects = {}
    for command in bench.compilers:
        output = _output(command)
        objects[output] = folder / Path(output).name
        words = [word.replace(bench.generated, str(folder)) for word in command]
        words = [word.replace(output, str(objects[output])) for word in words]
        run([*words, *flags], BUILD)
    return objects


def link(bench: Bench, folder: Path, objects: Mapping[str, Path], more: Sequence[str] = ()) -> Path:
    """Links the test with the module of a folder; what that lacks comes from the release build."""
    program = folder / bench.name
    words: list[str] = []
    for word in bench.linker:
        if word == bench.module:
            words += [str(folder / f"{bench.prefix}__ALL.a"), *more]
        words.append(str(objects.get(word, word)))
    words[words.index("-o") + 1] = str(program)
    run(words, BUILD)
    return program


def compile_runtime(name: str, folder: Path) -> Path:
    """Compiles a part of Verilator's runtime that the release build does not have."""
    root = subprocess.run(
        ["verilator", "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True
    ).stdout.strip()
    include = Path(root) / "include"
    compiler = ["c++", "-std=c++20", "-O2", "-fPIC", f"-I{include}", f"-I{include}/vltstd"]
    compiled = folder / f"{name}.o"
    run([*compiler, "-c", str(include / f"{name}.cpp"), "-o", str(compiled)], folder)
    return compiled


def _commands(name: str) -> list[str]:
    # The path of a test's program differs from its name by its folder only.
    programs = [path for path in (BUILD / "tests" / "rtl").glob(f"*/{name}") if path.is_file()]
    if len(programs) != 1:
        raise ToolError(f"{name} is not built (./nearkv build)")
    target = str(programs[0].relative_to(BUILD))
    ninja = ["ninja", "-C", str(BUILD), "-t", "commands", target]
    return subprocess.run(ninja, capture_output=True, text=True, check=True).stdout.splitlines()


def _command(step: Sequence[str], option: str) -> list[str]:
    """The one command of a step's several, joined by &&, that has an option."""
    ends = [-1, *(place for place, word in enumerate(step) if word == "&&"), len(step)]
    commands = [list(step[a + 1 : b]) for a, b in pairwise(ends)]
    return next(command for command in commands if option in command)


def _output(step: Sequence[str]) -> str:
    return step[step.index("-o") + 1]


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Runs a program in a folder; raises BuildError with what it said when it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{done.stdout}{done.stderr}".strip())
