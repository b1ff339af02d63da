"""What the kernel's own tools say of the driver's source."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from .driver import SOURCE, make_module
from .kernel_source import fetch_source, unpack_source
from .packages import Report, Suite

_CHECKPATCH = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")


def check_types(folder: Path, headers: Path) -> None:
    """Builds the driver in `folder`, which is made, with sparse beside the compiler.

    PackageError with what they say, where that is anything.
    """
    make_module(folder, headers, ["C=2", "CF=-Wsparse-error"])


def check_style(cache: Path, suite: Suite, report: Report) -> str:
    """What `checkpatch --strict` says of the driver: nothing of a clean one.

    The contract's headers are not looked at: they are generated, for C++ programs too.
    """
    checkpatch = _fetch_checkpatch(cache, suite, report)
    files = sorted([*SOURCE.glob("*.[ch]"), SOURCE / "Kbuild", SOURCE / "Makefile"])
    words = ["--no-tree", "--strict", "--terse", "--show-types", "--no-summary", "--file"]
    done = subprocess.run(
        ["perl", str(checkpatch), *words, *map(str, files)],
        cwd=checkpatch.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def _fetch_checkpatch(cache: Path, suite: Suite, report: Report) -> Path:
    """It comes with the kernel's source alone: 150 MB, of which three files are kept."""
    archive = fetch_source(suite, report)
    key = hashlib.sha256(str(archive).encode()).hexdigest()[:16]
    folder = cache / f"checkpatch-{key}"
    if not folder.exists():
        report("unpacking checkpatch")
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        scripts = [f"scripts/{name}" for name in _CHECKPATCH]
        (unpack_source(archive, unfinished, scripts) / "scripts").rename(folder)
        shutil.rmtree(unfinished)
    return folder / _CHECKPATCH[0]
