"""The guest's kernel with KASAN, lockdep and DEBUG_OBJECTS, built from Debian's source package.

Laid out as kernel packages are, so that guest and driver are made for it as for any other. Takes 5
to 20 minutes once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from .kernel_source import fetch_source, unpack_source
from .packages import PackageError, Report, Suite, run_command

_CONFIG = Path(__file__).parent / "guest" / "debug.config"
_PROGRAMS = ("flex", "bison", "bc")


def build_debug_kernel(cache: Path, suite: Suite, report: Report) -> tuple[Path, str]:
    """Where it is laid out, and its release."""
    archive = fetch_source(suite, report)
    key = hashlib.sha256(_CONFIG.read_bytes() + str(archive).encode()).hexdigest()[:16]
    root = cache / f"debug-{key}"
    if not (root / "release").exists():
        if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
            words = " ".join([*_PROGRAMS, "libelf-dev"])
            raise PackageError(f"no {missing[0]}; this line installs it: apt-get install {words}")
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        _build(archive, root, report)
    return root, (root / "release").read_text().strip()


def build_mock_modules(root: Path, report: Report) -> list[Path]:
    """The modules of cxl_test, for the kernel laid out at `root`; and what they need besides.

    They make mock CXL devices. Among them are the kernel's own CXL drivers, linked so that these
    devices can answer where others do: they stand in for those of the same names.
    """
    objects, target = root / "objects", root / "cxl_test"
    if not target.exists():
        report("building cxl_test")
        folder = (objects / "source").resolve() / "tools" / "testing" / "cxl"
        make = ["make", "--silent", "-C", str(objects), f"M={folder}"]
        _run([*make, f"-j{os.cpu_count()}", "modules"])
        unfinished = root / "cxl_test.unfinished"
        _run([*make, "modules_install", f"INSTALL_MOD_PATH={unfinished}", "INSTALL_MOD_STRIP=1"])
        unfinished.rename(target)
    needed = next((root / "lib" / "modules").rglob("libnvdimm.ko"))
    return [*sorted(target.rglob("*.ko")), needed]


def _build(archive: Path, root: Path, report: Report) -> None:
    report("unpacking the kernel's source")
    source = unpack_source(archive, root)
    objects = root / "objects"
    objects.mkdir()
    make = ["make", "--silent", "-C", str(source), f"O={objects}"]
    _run([*make, "allnoconfig", f"KCONFIG_ALLCONFIG={_CONFIG}"])
    report("building a kernel with KASAN and lockdep: minutes")
    _run([*make, f"-j{os.cpu_count()}", "bzImage", "modules"])
    _run([*make, "modules_install", f"INSTALL_MOD_PATH={root}", "INSTALL_MOD_STRIP=1"])
    release = (objects / "include" / "config" / "kernel.release").read_text().strip()
    (root / "boot").mkdir()
    shutil.copy(objects / "arch" / "x86" / "boot" / "bzImage", root / "boot" / f"vmlinuz-{release}")
    headers = root / "usr" / "src"
    headers.mkdir(parents=True)
    (headers / f"linux-headers-{release}").symlink_to(objects)
    (root / "release").write_text(release + "\n")


def _run(words: list[str]) -> None:
    run_command(words, told_lines=40)
