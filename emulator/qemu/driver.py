"""The card's driver, built against the guest's kernel."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .packages import PackageError, Report

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "driver"
CONTRACT = ROOT / "rtl" / "abi" / "gen"


def build_driver(cache: Path, kernel_root: Path, release: str, report: Report) -> Path:
    """nearkv.ko for the kernel whose packages are unpacked at `kernel_root`; built once."""
    key = hashlib.sha256(str(kernel_root).encode())
    for path in _sources():
        key.update(path.name.encode() + path.read_bytes())
    folder = cache / f"driver-{key.hexdigest()[:16]}"
    module = folder / "nearkv.ko"
    if not module.exists():
        report("building the driver")
        shutil.rmtree(folder, ignore_errors=True)
        make_module(folder, kernel_headers(kernel_root, release))
    return module


def make_module(folder: Path, headers: Path, words: Sequence[str] = ()) -> None:
    """Builds nearkv.ko in `folder`, which is made; `words` are more for make.

    PackageError with what was said, where there is a warning.
    """
    folder.mkdir(parents=True)
    for path in _sources():
        shutil.copy2(path, folder)
    command = ["make", "--silent", f"-j{os.cpu_count()}", "-C", str(headers)]
    command += [f"M={folder}", f"NEARKV_ABI_INCLUDE={folder}", "W=1", "KCFLAGS=-Werror"]
    # Type information for tracing would need pahole.
    command += ["CONFIG_DEBUG_INFO_BTF_MODULES=", *words, "modules"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PackageError(f"the driver does not build:\n{done.stderr or done.stdout}")


def kernel_headers(kernel_root: Path, release: str) -> Path:
    """Where make finds the kernel's headers; their makefile names the system's own folder."""
    headers = kernel_root / "usr" / "src" / f"linux-headers-{release}"
    makefile = headers / "Makefile"
    text = makefile.read_text(encoding="utf-8")
    found = text.replace("include /usr/src/", f"include {kernel_root}/usr/src/")
    # Another process may be reading what is right already.
    if found != text:
        makefile.write_text(found, encoding="utf-8")
    return headers


def _sources() -> list[Path]:
    sources = sorted([*SOURCE.glob("*.[ch]"), SOURCE / "Kbuild"])
    return [*sources, CONTRACT / "nkv_abi.h", CONTRACT / "nkv_card.h"]
