"""Archives that a kernel unpacks as its first file system."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path


def write_archive(root: Path, busybox: Path, target: Path) -> None:
    """Archives all below `root` as root's, in place of `target` once it is whole."""
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    archive = subprocess.run(
        [str(busybox), "cpio", "-o", "-H", "newc", "-R", "0:0"],
        cwd=root,
        input="\n".join(names).encode(),
        capture_output=True,
        check=True,
    )
    unfinished = target.with_suffix(".unfinished")
    unfinished.write_bytes(gzip.compress(archive.stdout, 1))
    unfinished.rename(target)
