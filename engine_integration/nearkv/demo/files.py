"""Files that a demo is asked to write."""

from collections.abc import Callable
from pathlib import Path

from nearkv.demo import DemoError


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Writes it in folders that are made for it, and says so. DemoError if it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
    except OSError as error:
        raise DemoError(f"cannot write {path}: {error.strerror}") from error
    print(f"written: {path}")
