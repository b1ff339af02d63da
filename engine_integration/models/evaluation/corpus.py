"""The text to measure on: one in 25 pages of documentation and one chapter, as plain text.

The models of other shapes were taught on the other pages. A corpus folder holds `heldout.txt` and
`manifest.json` (packages, versions, licences, sizes, checksums). Pages are chosen and ordered by a
hash of their name, so the same packages always give the same bytes.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from evaluation.html_text import html_to_text
from evaluation.sources import SOURCES, fetch, package_version, unpack

MIN_PAGE_CHARS = 600
HELD_OUT_ONE_IN = 25
# The chapter that is `documents/postgresql-high-availability.txt`, in reading order.
DOCUMENT_PACKAGE = "postgresql-doc-15"
DOCUMENT_PAGES = (
    "high-availability.html",
    "different-replication-solutions.html",
    "warm-standby.html",
    "warm-standby-failover.html",
    "hot-standby.html",
)


@dataclass(frozen=True)
class Page:
    """One documentation page; `name` is package/file and unique."""

    name: str
    text: str

    @property
    def rank(self) -> str:
        """Order of the page in the corpus: as good as random, and stable."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    @property
    def held_out(self) -> bool:
        """Whether the page is part of the text to measure on."""
        package, _, path = self.name.partition("/")
        in_document = package == DOCUMENT_PACKAGE and Path(path).name in DOCUMENT_PAGES
        return in_document or int(self.rank[:8], 16) % HELD_OUT_ONE_IN == 0


def heldout_path(folder: Path) -> Path:
    """The text; builds the corpus in `folder` if it is not there."""
    if not (folder / "manifest.json").exists():
        _build(folder)
    return folder / "heldout.txt"


def _build(folder: Path) -> None:
    """Fetches the packages into `folder`/packages and writes the corpus files."""
    pages: list[Page] = []
    packages = []
    for source in SOURCES:
        cache = folder / "packages"
        deb = fetch(source, cache)
        read = _read_pages(source.package, unpack(source, deb, cache))
        version = package_version(deb)
        pages += read
        packages.append(
            {
                "package": source.package,
                "version": version,
                "as_in_table": version == source.version,
                "licence": source.licence,
                "pages": len(read),
                "text_bytes": sum(len(page.text.encode()) for page in read),
                "deb_sha256": hashlib.sha256(deb.read_bytes()).hexdigest(),
            }
        )
        print(f"corpus: {source.package} {version}: {len(read)} pages", flush=True)

    chosen = sorted((page for page in pages if page.held_out), key=lambda page: page.rank)
    data = "\n".join(page.text for page in chosen).encode()
    (folder / "heldout.txt").write_bytes(data)
    manifest = {
        "packages": packages,
        "heldout": {
            "pages": len(chosen),
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def _read_pages(package: str, paths: list[Path]) -> list[Page]:
    """Pages of a package, without short ones and without repeated texts."""
    pages: dict[str, Page] = {}
    for path in paths:
        text = _page_text(path)
        if len(text) >= MIN_PAGE_CHARS:
            name = f"{package}/{path.as_posix().rpartition('/usr/share/doc/')[2]}"
            pages.setdefault(text, Page(name, text))
    return list(pages.values())


def _page_text(path: Path) -> str:
    return html_to_text(path.read_text(encoding="utf-8", errors="replace"))
