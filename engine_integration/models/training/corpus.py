"""The training text: documentation pages as plain text, split by page into two parts.

A corpus folder holds `train.txt`, `heldout.txt` and `manifest.json` (packages, versions, licences,
sizes, checksums). Pages are ordered and split by a hash of their name, so the same packages always
give the same bytes.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from training import document
from training.html_text import html_to_text
from training.sources import SOURCES, fetch, package_version, unpack

MIN_PAGE_CHARS = 600
HELD_OUT_ONE_IN = 25


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
        """Whether the model must not learn from the page."""
        package, _, path = self.name.partition("/")
        in_demo = package == document.PACKAGE and Path(path).name in document.PAGES
        return in_demo or int(self.rank[:8], 16) % HELD_OUT_ONE_IN == 0


def train_path(folder: Path) -> Path:
    """The text that a model learns from; builds the corpus in `folder` if it is not there."""
    return _part(folder, "train")


def heldout_path(folder: Path) -> Path:
    """The text that a model never sees; builds the corpus in `folder` if it is not there."""
    return _part(folder, "heldout")


def _part(folder: Path, name: str) -> Path:
    if not (folder / "manifest.json").exists():
        build(folder)
    return folder / f"{name}.txt"


def build(folder: Path) -> None:
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

    parts = {}
    for part, wanted in (("train", False), ("heldout", True)):
        chosen = sorted((p for p in pages if p.held_out is wanted), key=lambda page: page.rank)
        data = "\n".join(page.text for page in chosen).encode()
        (folder / f"{part}.txt").write_bytes(data)
        parts[part] = {
            "pages": len(chosen),
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    manifest = {"packages": packages, "parts": parts}
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
