"""The source of the guest's kernel, out of Debian's package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .packages import Report, Suite, run_command

_SOURCE = "linux-source-6.12"


def fetch_source(suite: Suite, report: Report) -> Path:
    """The archive of the source."""
    return suite.fetch([_SOURCE], report) / "usr" / "src" / f"{_SOURCE}.tar.xz"


def unpack_source(archive: Path, folder: Path, names: Sequence[str] = ()) -> Path:
    """Unpacks the source into `folder`, or only these of its files; the path of its tree."""
    chosen = [f"{_SOURCE}/{name}" for name in names]
    run_command(["tar", "-C", str(folder), "-xf", str(archive), *chosen])
    return folder / _SOURCE
