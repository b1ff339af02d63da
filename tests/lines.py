"""Counts the lines of code and tests that people wrote: python3 tests/lines.py --folders.

What git tracks, but for generated files, data, documents and licences.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_CODE = {
    *(".c", ".h", ".cpp", ".hpp", ".cu", ".cl", ".sv", ".inc"),
    *(".py", ".sh", ".tpl", ".proto", ".cmake", ".tcl"),
}
_GENERATED = "/gen/"


def count_lines() -> Counter[str]:
    """Lines of code and tests, by the first two folders of their paths."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    )
    lines: Counter[str] = Counter()
    for name in filter(None, listing.stdout.split("\0")):
        path = ROOT / name
        is_code = path.suffix in _CODE or path.name in ("CMakeLists.txt", "nearkv", "Kbuild")
        if is_code and path.is_file() and not path.is_symlink() and _GENERATED not in name:
            lines["/".join(name.split("/")[:-1][:2]) or "."] += path.read_bytes().count(b"\n")
    return lines


def main() -> None:
    """Prints the sum, and with --folders what it is made of."""
    lines = count_lines()
    if "--folders" in sys.argv[1:]:
        for folder, count in lines.most_common():
            print(f"{count:8,}  {folder}")
    print(f"{lines.total():8,}  lines of code and tests")


if __name__ == "__main__":
    main()
