"""Reads lists of sources such as rtl/nkv_top.f."""

from __future__ import annotations

from pathlib import Path

TOP = Path(__file__).resolve().parents[1] / "nkv_top.f"


def read(path: Path = TOP) -> list[Path]:
    """The files that a list names, in its order, those of the lists that it includes among them."""
    files = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("-F "):
            files += read((path.parent / line.removeprefix("-F ").strip()).resolve())
        elif line and not line.startswith("//"):
            files.append((path.parent / line).resolve())
    return files
