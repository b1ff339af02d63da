"""Programs of this build for the guest: an archive that the kernel unpacks over the initramfs.

They run against the guest's libc, with those of their other libraries that the guest lacks.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .archive import write_archive

PROGRAMS = Path("opt/nearkv/bin")
LIBRARIES = Path("opt/nearkv/lib")
MODULE = Path("opt/nearkv/nearkv.ko")
FIRMWARE = Path("opt/nearkv/firmware")
_LIBRARY = re.compile(r"=> (/\S+) \(")


def write_overlay(
    folder: Path,
    base_root: Path,
    programs: Sequence[Path],
    plugins: Sequence[Path],
    module: Path,
    images: Sequence[Path],
    target: Path,
) -> None:
    """Archives programs, plug-ins of host_lib, the libraries that `base_root` lacks, the driver.

    And `images` of the card's firmware.

    `folder` is made anew and holds what `target` is made of.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / PROGRAMS).mkdir(parents=True)
    (folder / LIBRARIES).mkdir(parents=True)
    present = {path.name for path in base_root.glob("usr/lib*/**/*.so*")}
    for program in programs:
        _strip(program, folder / PROGRAMS)
    for plugin in plugins:
        _strip(plugin, folder / LIBRARIES)
    for library in sorted(_libraries([*programs, *plugins])):
        if library.name not in present:
            _strip(library, folder / LIBRARIES)
    subprocess.run(["strip", "--strip-debug", "-o", folder / MODULE, module], check=True)
    (folder / FIRMWARE).mkdir()
    for image in images:
        shutil.copy(image, folder / FIRMWARE)
    write_archive(folder, base_root / "usr" / "bin" / "busybox", target)


def write_modules(
    folder: Path, base_root: Path, release: str, modules: Sequence[Path], target: Path
) -> None:
    """Archives the modules of `base_root` with `modules` among them, and their index.

    One of a name that is there takes its place. `folder` is made anew.
    """
    shutil.rmtree(folder, ignore_errors=True)
    place = folder / "usr" / "lib" / "modules" / release
    shutil.copytree(base_root / "usr" / "lib" / "modules" / release, place)
    (folder / "lib").symlink_to("usr/lib")
    for module in modules:
        (same,) = [*place.rglob(module.name)] or [place / module.name]
        shutil.copy2(module, same)
    subprocess.run(["depmod", "-b", str(folder), release], check=True)
    write_archive(folder, base_root / "usr" / "bin" / "busybox", target)


def _libraries(files: Sequence[Path]) -> set[Path]:
    found: set[Path] = set()
    for file in files:
        text = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True).stdout
        found |= {Path(path) for path in _LIBRARY.findall(text)}
    return found


def _strip(source: Path, folder: Path) -> None:
    subprocess.run(["strip", "-o", str(folder / source.name), str(source)], check=True)
