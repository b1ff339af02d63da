"""The card's driver, built against the guest's kernel."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from .packages import PackageError, Report

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "driver"
CONTRACT = ROOT / "rtl" / "abi" / "gen"


def build_driver(cache: Path, kernel_root: Path, release: str, report: Report) -> Path:
    """nearkv.ko for the kernel whose packages are unpacked at `kernel_root`; built once."""
    sources = sorted([*SOURCE.glob("*.[ch]"), SOURCE / "Kbuild"])
    headers = [CONTRACT / "nkv_abi.h", CONTRACT / "nkv_card.h"]
    key = hashlib.sha256(str(kernel_root).encode())
    for path in [*sources, *headers]:
        key.update(path.name.encode() + path.read_bytes())
    folder = cache / f"driver-{key.hexdigest()[:16]}"
    module = folder / "nearkv.ko"
    if not module.exists():
        report("building the driver")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in [*sources, *headers]:
            shutil.copy2(path, folder)
        _make(_kernel_headers(kernel_root, release), folder)
    return module


def _kernel_headers(kernel_root: Path, release: str) -> Path:
    """Where make finds the kernel's headers; their makefile names the system's own folder."""
    headers = kernel_root / "usr" / "src" / f"linux-headers-{release}"
    makefile = headers / "Makefile"
    text = makefile.read_text(encoding="utf-8")
    makefile.write_text(
        text.replace("include /usr/src/", f"include {kernel_root}/usr/src/"), encoding="utf-8"
    )
    return headers


def _make(headers: Path, folder: Path) -> None:
    # Type information for tracing would need the kernel's image with its own.
    words = [f"M={folder}", f"NEARKV_ABI_INCLUDE={folder}", "CONFIG_DEBUG_INFO_BTF_MODULES="]
    done = subprocess.run(
        ["make", "--silent", "-C", str(headers), *words, "W=1", "KCFLAGS=-Werror", "modules"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PackageError(f"the driver does not build:\n{done.stderr or done.stdout}")
