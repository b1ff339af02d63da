"""Check that kernels stay within what C++ synthesis takes: python hls/check [FILE...]."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from hls.check.source import MissingParserError, Source
from hls.check.streams import stream_findings
from hls.check.subset import subset_findings

_KERNELS = Path(__file__).parents[1] / "kernels"


def findings_of(files: list[Path]) -> list[str]:
    """What is wrong with the files, each as FILE:LINE: text."""
    found: set[str] = set()
    for file in files:
        source = Source(file)
        found |= {str(finding) for finding in subset_findings(source)}
        found |= {str(finding) for finding in stream_findings(source)}
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="hls/check",
        description="No recursion, no dynamic memory, no calls beyond the kernels' own headers, "
        "bounded loops, a reason for every initiation interval; in dataflow one writer and one "
        "reader for each stream and array, one process for each port.",
    )
    parser.add_argument("files", nargs="*", type=Path, help="default: all kernels")
    files = parser.parse_args().files or sorted(_KERNELS.glob("*.cpp"))
    try:
        found = findings_of(files)
    except MissingParserError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 1
    print("\n".join(found or [f"{len(files)} files: nothing found"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
