"""What each kernel takes of a GPU's processor, as nvcc says when it compiles it, without a GPU."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import Context
from nearkv.results import Goal, Result

_ROOT = Path(__file__).parents[2]
_CUDA = _ROOT / "engine_integration" / "cuda"
_INCLUDED = (
    _CUDA / "src",
    _CUDA,
    _CUDA / "include",
    _ROOT / "host_lib" / "include",
    _ROOT / "rtl" / "abi" / "gen",
)
_ARCHITECTURE = "sm_90"
_REGISTERS = 65536  # Of a processor of that architecture, and the most threads that it holds.
_THREADS = 2048
_WARP_THREADS = 32
_COMPILED = re.compile(
    r"Compiling entry function '(?P<symbol>\S+)'.*?(?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)
# nearkv::cuda::entry<nearkv::cuda::Attend<8u>>, as the linker knows it: a name behind its length.
_ENTRY = re.compile(r"5entryINS0_(?P<length>\d+)(?P<named>.*)")
_NUMBERS = re.compile(r"I((?:L[a-z]\d+E)+)E")


@dataclass(frozen=True)
class Taken:
    """What one compiled kernel takes."""

    kernel: str
    """Its type, and the numbers that it is a template of: "Attend_8"."""
    registers: int
    """A thread."""
    spilled_bytes: int
    """A thread stores and loads, because its registers do not suffice."""

    @property
    def threads(self) -> int:
        """That a processor holds at once, as far as registers decide; they come in eights."""
        warp_registers = -(-self.registers // 8) * 8 * _WARP_THREADS
        return min(_THREADS, _REGISTERS // warp_registers * _WARP_THREADS)


def taken_in(told: str) -> Iterator[Taken]:
    """Of each kernel that ptxas tells of; of none that is not a type of ours."""
    for compiled in _COMPILED.finditer(told):
        if (entry := _ENTRY.search(compiled["symbol"])) is None:
            continue
        length = int(entry["length"])
        given = _NUMBERS.match(entry["named"][length:])
        numbers = re.findall(r"\d+", given[1]) if given else []
        kernel = "_".join([entry["named"][:length], *numbers])
        spilled = int(compiled["stores"]) + int(compiled["loads"])
        yield Taken(kernel, int(compiled["registers"]), spilled)


def run(context: Context) -> Iterator[Result]:
    """Yields each kernel's threads that a processor holds, and what spills; none without nvcc."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        context.progress("there is no nvcc, so what kernels take is not told")
        return
    for source in sorted((_CUDA / "src").glob("*.cpp")):
        context.progress(f"compiling {source.name} for {_ARCHITECTURE}")
        for taken in taken_in(_compile(nvcc, source)):
            yield Result(
                name=f"cuda/{taken.kernel}/threads",
                value=taken.threads,
                unit="threads a processor",
                peer="all that it holds",
                peer_value=_THREADS,
                device=f"cuda:{_ARCHITECTURE}",
                extra={"registers": taken.registers},
            )
            yield Result(
                name=f"cuda/{taken.kernel}/spilled",
                value=taken.spilled_bytes,
                unit="bytes a thread",
                goal=Goal("<=", 0),
                device=f"cuda:{_ARCHITECTURE}",
            )


def _compile(nvcc: str, source: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, "-std=c++20", "-x", "cu", f"-arch={_ARCHITECTURE}", "-cubin"]
        command += ["-Xptxas", "-v", "-diag-suppress=2810", "-o", f"{folder}/kernels.cubin"]
        command += [f"-I{included}" for included in _INCLUDED]
        done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"nvcc failed on {source.name}:\n{done.stderr}")
    return done.stdout + done.stderr
