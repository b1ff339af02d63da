"""Debian documentation packages that the corpus comes from, and how they are fetched.

Only packages whose documentation is permissively licensed (or in the public domain) are listed.
Packages are downloaded and unpacked into a cache folder; nothing is installed.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """One Debian package and the HTML pages in it that are used.

    `pages` and `excluded` are glob patterns below /usr/share/doc in the package.
    """

    package: str
    version: str
    licence: str
    pages: tuple[str, ...]
    excluded: tuple[str, ...] = ()


SOURCES = (
    Source(
        "python3.11-doc",
        "3.11.2-6+deb12u9",
        "PSF-2.0",
        ("python3.11/html/*/*.html", "python3.11/html/*/*/*.html"),
    ),
    Source(
        "postgresql-doc-15", "15.20-0+deb12u1", "PostgreSQL", ("postgresql-doc-15/html/*.html",)
    ),
    Source(
        "sqlite3-doc",
        "3.40.1-2+deb12u2",
        "public domain",
        ("sqlite3/*.html", "sqlite3/c3ref/*.html", "sqlite3/session/*.html"),
        tuple(
            f"sqlite3/{page}.html"
            for page in ("capi3ref", "requirements", "doc_*", "doclist", "keyword_index", "sitemap")
        ),
    ),
    Source(
        "llvm-14-doc",
        "1:14.0.6-12",
        "Apache-2.0 WITH LLVM-exception",
        (
            "llvm-14-doc/html/*.html",
            "llvm-14-doc/html/CommandGuide/*.html",
            "llvm-14-doc/html/tutorial/*.html",
            "llvm-14-doc/html/tutorial/*/*.html",
        ),
    ),
    Source(
        "clang-14-doc", "1:14.0.6-12", "Apache-2.0 WITH LLVM-exception", ("clang-14/html/*.html",)
    ),
    Source(
        "python-django-doc",
        "3:3.2.25-0+deb12u7",
        "BSD-3-Clause",
        ("python-django-doc/html/**/*.html",),
    ),
    Source(
        "nodejs-doc",
        "18.20.4+dfsg-1~deb12u3",
        "MIT",
        ("nodejs/api/*.html",),
        ("nodejs/api/all.html",),
    ),
    Source(
        "rust-doc",
        "1.63.0+dfsg1-2",
        "MIT OR Apache-2.0",
        tuple(
            f"rust-doc/html/{book}/**/*.html"
            for book in ("book", "reference", "rust-by-example", "nomicon", "rustc", "rustdoc")
        ),
    ),
    Source(
        "cmake-doc",
        "3.25.1-1",
        "BSD-3-Clause",
        tuple(
            f"cmake-data/html/{room}/**/*.html" for room in ("command", "manual", "guide", "module")
        ),
    ),
)

# Listings, search pages and one-page copies of what other pages already say.
EXCLUDED_PAGE_NAMES = frozenset(
    {"genindex.html", "search.html", "print.html", "bookindex.html", "py-modindex.html", "toc.html"}
)


def package_version(deb: Path) -> str:
    """Version written in a .deb file."""
    return _output("dpkg-deb", "--field", str(deb), "Version").strip()


def fetch(source: Source, cache: Path) -> Path:
    """Returns the .deb of a source, downloading it into `cache` unless it is there.

    Asks apt for the version the table names, and for whatever version apt offers if that one is
    gone from the archive; the corpus manifest records the version that was used.
    Raises RuntimeError if the tools are missing or apt cannot supply the package.
    """
    cache.mkdir(parents=True, exist_ok=True)
    cached = sorted(cache.glob(f"{source.package}_*.deb"))
    if cached:
        return cached[-1]
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise RuntimeError(
                f"{tool} not found: run on Debian or Ubuntu, or put the .deb files of the packages"
                f" named in sources.py into {cache}"
            )
    for wanted in (f"{source.package}={source.version}", source.package):
        done = subprocess.run(
            ["apt-get", "download", wanted], cwd=cache, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return sorted(cache.glob(f"{source.package}_*.deb"))[-1]
    raise RuntimeError(f"apt-get download {source.package} failed: {done.stderr.strip()}")


def unpack(source: Source, deb: Path, cache: Path) -> list[Path]:
    """Unpacks a .deb below `cache` and returns the pages of the source, sorted by path."""
    root = cache / source.package
    if not root.is_dir():
        partial = cache / f"{source.package}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        _output("dpkg-deb", "--extract", str(deb), str(partial))
        partial.rename(root)
    doc = root / "usr/share/doc"
    excluded = {page for pattern in source.excluded for page in doc.glob(pattern)}
    pages = {page for pattern in source.pages for page in doc.glob(pattern)} - excluded
    return sorted(page for page in pages if page.name not in EXCLUDED_PAGE_NAMES)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
