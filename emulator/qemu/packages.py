"""Debian packages unpacked into a folder, without root and without touching the system.

apt-get runs with lists, cache and sources of its own, from the mirror that the system's own apt
sources name. What is fetched stays; a package is unpacked once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRROR_VARIABLE = "NEARKV_DEBIAN_MIRROR"

Report = Callable[[str], None]
"""Takes a line that says what happens now."""


class PackageError(RuntimeError):
    """Packages cannot be had; the text says what to do."""


@dataclass(frozen=True)
class Suite:
    """Releases of Debian that packages are taken from, under a folder of its own."""

    folder: Path
    releases: tuple[str, ...]
    prefer: str = ""
    """Of several releases, the one whose packages win."""
    knows_installed: bool = False
    """Whether what the system has installed counts: else all that is needed has to be named."""

    def fetch(self, names: Sequence[str], report: Report) -> Path:
        """Unpacks packages, and with `knows_installed` what they depend on; gives their root.

        Of a metapackage this is nothing: see `dependency`.
        """
        key = hashlib.sha256("\n".join([*self.releases, *sorted(names)]).encode()).hexdigest()[:16]
        root = self.folder / f"root-{key}"
        if root.exists():
            return root
        others = f" and {len(names) - 1} packages more" if names[1:] else ""
        report(f"fetching {names[0]}{others}")
        self._refresh()
        downloads = self.folder / f"debs-{key}"
        (downloads / "partial").mkdir(parents=True, exist_ok=True)
        if self.knows_installed:
            words = ["install", "--yes", "--download-only", "--no-install-recommends", *names]
            self._apt([f"-oDir::Cache::archives={downloads}", *words])
        else:
            self._apt(["download", *names], folder=downloads)
        unpacked = self.folder / f"unpacking-{key}"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        for package in sorted(downloads.glob("*.deb")):
            run_command(["dpkg-deb", "--extract", str(package), str(unpacked)])
        shutil.rmtree(downloads)
        unpacked.rename(root)
        return root

    def dependency(self, name: str, pattern: str) -> str:
        """The package matching `pattern` that `name` depends on: what a metapackage stands for."""
        self._refresh()
        text = run_command(["apt-cache", *self._options(), "depends", name])
        found = re.findall(rf"Depends: ({pattern})$", text, re.MULTILINE)
        if not found:
            raise PackageError(
                f"package {name} of {self.prefer or self.releases[0]} names no {pattern}"
            )
        return str(found[0])

    def _refresh(self) -> None:
        lists = self.folder / "lists"
        if (lists / "fresh").exists():
            return
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        (self.folder / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        if not _KEYRING.exists():
            raise PackageError(
                f"{_KEYRING} is not here; this line installs it: "
                "sudo apt-get install debian-archive-keyring"
            )
        (self.folder / "debian.sources").write_text(
            f"Types: deb\nURIs: {mirror()}\nSuites: {' '.join(self.releases)}\nComponents: main\n"
            f"Architectures: amd64\nSigned-By: {_KEYRING}\n",
            encoding="utf-8",
        )
        self._apt(["update"])
        (lists / "fresh").touch()

    def _apt(self, words: Sequence[str], folder: Path | None = None) -> None:
        run_command(["apt-get", "--quiet=2", *self._options(), *words], folder)

    def _options(self) -> list[str]:
        options = {
            "Dir::Etc::sourcelist": self.folder / "debian.sources",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self.folder / "lists",
            "Dir::Cache": self.folder / "cache",
            "Debug::NoLocking": "1",
        }
        if not self.knows_installed:
            options["Dir::State::status"] = "/dev/null"
        if self.prefer:
            options["APT::Default-Release"] = self.prefer
        if os.geteuid() == 0:
            options["APT::Sandbox::User"] = "root"
        return [f"-o{name}={value}" for name, value in options.items()]


def mirror() -> str:
    """The Debian mirror of this system's apt sources, or what NEARKV_DEBIAN_MIRROR says."""
    if chosen := os.environ.get(_MIRROR_VARIABLE):
        return chosen
    query = [
        "apt-get",
        "indextargets",
        "--format",
        "$(ORIGIN) $(LABEL) $(SITE)",
        "Created-By: Packages",
    ]
    for line in run_command(query).splitlines():
        if line.startswith("Debian Debian "):
            return line.split(" ", 2)[2]
    raise PackageError(
        "the guest is made of Debian's packages, and this system's apt sources name no mirror of "
        f"Debian; set {_MIRROR_VARIABLE} to the address of one"
    )


def run_command(command: Sequence[str], folder: Path | None = None, told_lines: int = 1) -> str:
    """What a program prints. If it fails, PackageError with the last lines of what it said."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        text = "\n".join(said[-told_lines:]) if said else done.returncode
        raise PackageError(f"{command[0]} failed: {text}")
    return done.stdout
