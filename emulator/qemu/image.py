"""The guest: kernel, and an initramfs of packaged programs and modules. Made without root.

The kernel is Debian's of bookworm-backports, whose headers' programs run on every system that we
support; `cxl` and `daxctl` are trixie's, the first that can make a RAM region.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .archive import write_archive
from .debug_kernel import build_debug_kernel
from .packages import PackageError, Report, Suite

_HERE = Path(__file__).parent
_BACKPORTS = ("bookworm", "bookworm-backports")
_KERNEL = "linux-headers-amd64"  # The metapackage that names the present kernel.
_PROGRAMS = ["busybox-static", "cxl", "daxctl"]
# fmt: off
_LIBRARIES = [
    "libc6", "libgcc-s1", "libcap2", "libcxl1", "libdaxctl1", "libndctl6", "libiniparser4",
    "libjson-c5", "libkeyutils1", "libkmod2", "liblzma5", "libssl3t64", "libtraceevent1",
    "libtracefs1", "libudev1", "libuuid1", "libzstd1", "zlib1g",
]
# fmt: on
_MODULES = ["cxl_acpi", "cxl_port", "cxl_pci", "cxl_mem", "dax_cxl", "device_dax", "kmem"]
_MODULES += ["9pnet_virtio", "9p"]


@dataclass(frozen=True)
class Guest:
    """What QEMU boots."""

    kernel: Path
    initramfs: tuple[Path, ...]
    """Archives, each unpacked over those before it."""
    root: Path
    """What the first archive holds."""
    kernel_root: Path
    """Where the kernel's packages are unpacked, headers among them."""
    release: str
    """The kernel's."""


def build_guest(cache: Path, report: Report, debugs: bool = False) -> Guest:
    """Fetches what the guest is made of and makes it, unless `cache` has it already.

    With a kernel that finds its own errors and those of drivers, if it `debugs`.
    """
    kernel_root, release = fetch_kernel(cache, report, debugs)
    programs = Suite(cache / "trixie", ("trixie",)).fetch([*_PROGRAMS, *_LIBRARIES], report)
    kernel = kernel_root / "boot" / f"vmlinuz-{release}"
    recipe = hashlib.sha256(Path(__file__).read_bytes() + (_HERE / "guest" / "init").read_bytes())
    recipe.update(f"{kernel_root}{programs}".encode())
    recipe.update((_HERE / "archive.py").read_bytes())
    key = recipe.hexdigest()[:16]
    initramfs, root = cache / f"initramfs-{key}.gz", cache / f"root-{key}"
    if not initramfs.exists():
        report("making the guest's initramfs")
        _make_initramfs(root, kernel_root, programs, release, initramfs)
    return Guest(kernel, (initramfs,), root, kernel_root, release)


def fetch_kernel(cache: Path, report: Report, debugs: bool = False) -> tuple[Path, str]:
    """Where the kernel's packages are unpacked, headers among them, and its release."""
    fetch = build_debug_kernel if debugs else _fetch_packaged
    return fetch(cache, backports(cache), report)


def backports(cache: Path) -> Suite:
    """The releases that the kernel is of."""
    return Suite(cache / "backports", _BACKPORTS, prefer="bookworm-backports")


def find_qemu(cache: Path, report: Report) -> tuple[list[str], dict[str, str]]:
    """QEMU with volatile CXL memory: the command's first words and its environment.

    The system's, if it is new enough; else that of bookworm-backports, unpacked.
    """
    if (installed := shutil.which("qemu-system-x86_64")) and _knows_volatile_memory(
        [installed], {}
    ):
        return [installed], {}
    suite = Suite(cache / "qemu", _BACKPORTS, prefer="bookworm-backports", knows_installed=True)
    root = suite.fetch(["qemu-system-x86"], report)
    libraries = [root / top / "lib" / "x86_64-linux-gnu" for top in ("usr", ".")]
    firmware = [root / "usr" / "share" / name for name in ("qemu", "seabios")]
    command = [str(root / "usr" / "bin" / "qemu-system-x86_64")]
    for folder in firmware:
        command += ["-L", str(folder)]
    environment = {
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "QEMU_MODULE_DIR": str(libraries[0] / "qemu"),
    }
    if not _knows_volatile_memory(command, environment):
        raise PackageError(f"{command[0]} does not run here, or has no volatile CXL memory")
    return command, environment


def _knows_volatile_memory(command: list[str], environment: dict[str, str]) -> bool:
    done = subprocess.run(
        [*command, "-device", "cxl-type3,help"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return "volatile-memdev" in done.stdout


def _fetch_packaged(_cache: Path, suite: Suite, report: Report) -> tuple[Path, str]:
    headers = suite.dependency(_KERNEL, r"linux-headers-\S+-amd64")
    release = headers.removeprefix("linux-headers-")
    common = f"linux-headers-{release.removesuffix('-amd64')}-common"
    kbuild = f"linux-kbuild-{release.removesuffix('-amd64')}"
    return suite.fetch([f"linux-image-{release}", headers, common, kbuild], report), release


def _make_initramfs(
    root: Path, kernel_root: Path, programs: Path, release: str, target: Path
) -> None:
    shutil.rmtree(root, ignore_errors=True)
    library = Path("usr/lib/x86_64-linux-gnu")
    for folder in ("dev", "proc", "sys", "tmp", "etc", "usr/bin", "usr/sbin", library, "usr/lib64"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    for name in ("bin/busybox", "usr/bin/busybox", "usr/bin/cxl", "usr/bin/daxctl"):
        if (programs / name).exists():
            shutil.copy2(programs / name, root / "usr" / "bin")
    for source in sorted((programs / library).glob("*.so.*")):
        shutil.copy2(source, root / library, follow_symlinks=False)
    for source in sorted((programs / "usr" / "lib64").iterdir()):
        shutil.copy2(source, root / "usr" / "lib64", follow_symlinks=False)
    _add_modules(root, kernel_root, release)
    shutil.copy2(_HERE / "guest" / "init", root / "init")
    (root / "init").chmod(0o755)
    write_archive(root, root / "usr" / "bin" / "busybox", target)


def _add_modules(root: Path, kernel_root: Path, release: str) -> None:
    """The modules of the CXL stack and what they depend on, as plain files with their index."""
    source = next(path for path in kernel_root.glob(f"**/lib/modules/{release}") if path.is_dir())
    target = root / "usr" / "lib" / "modules" / release
    subprocess.run(["depmod", "-b", str(source.parents[2]), release], check=True)
    needed: set[Path] = set()
    index = dict(line.split(":", 1) for line in (source / "modules.dep").read_text().splitlines())
    for module in _MODULES:
        for path, others in index.items():
            if Path(path).name.split(".")[0].replace("-", "_") == module:
                needed |= {Path(path), *map(Path, others.split())}
    for path in sorted(needed):
        place = target / path.with_suffix("" if path.suffix == ".xz" else path.suffix)
        place.parent.mkdir(parents=True, exist_ok=True)
        data = (source / path).read_bytes()
        place.write_bytes(lzma.decompress(data) if path.suffix == ".xz" else data)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy2(source / name, target)
    subprocess.run(["depmod", "-b", str(root), release], check=True)
