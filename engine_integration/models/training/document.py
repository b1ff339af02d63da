"""Writes the demo document: one chapter of the PostgreSQL manual, which training never sees.

python -m training.document --packages DIR --out FILE
"""

import argparse
from pathlib import Path

from training.html_text import html_to_text
from training.sources import SOURCES, fetch, unpack

PACKAGE = "postgresql-doc-15"
# "High Availability, Load Balancing, and Replication", in reading order.
PAGES = (
    "high-availability.html",
    "different-replication-solutions.html",
    "warm-standby.html",
    "warm-standby-failover.html",
    "hot-standby.html",
)


def demo_document(packages: Path) -> str:
    """The chapter as one plain text; fetches the package into `packages` if it is not there."""
    source = next(source for source in SOURCES if source.package == PACKAGE)
    paths = {path.name: path for path in unpack(source, fetch(source, packages), packages)}
    return "\n".join(html_to_text(paths[name].read_text(encoding="utf-8")) for name in PAGES)


def main() -> int:
    """Writes the document where the command line says."""
    parser = argparse.ArgumentParser(prog="python -m training.document", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--packages", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    arguments.out.write_text(demo_document(arguments.packages), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
