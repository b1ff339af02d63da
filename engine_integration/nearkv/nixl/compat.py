"""Which releases of NIXL the plug-in is built for, and where their headers come from.

NIXL's wheels bring no headers, so they are taken from its repository: of a release that is known
here, at the commit that was looked at, and of no other.
"""

import importlib.util
import os
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REPOSITORY = "https://github.com/ai-dynamo/nixl.git"
COMMITS = {"1.4.0": "c0a1102b94d173049a5478c23e765ba37681e2ca"}
"""Releases that it was tested with, and the commits of their tags."""

_WHEELS = ("nixl-cu12", "nixl-cu13")
_NEEDED = ("meson.build", "src/api/cpp", "src/core/telemetry", "src/utils/common")


class NixlError(RuntimeError):
    """NIXL cannot be given the plug-in; the text says why, and what to do."""


class HeadersMissing(NixlError):
    """NIXL's headers are not here and cannot be fetched."""


def installed_wheel() -> tuple[str, str]:
    """The name and release of the NIXL that this interpreter imports. Raises NixlError."""
    for name in _WHEELS:
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    raise NixlError(f"NIXL is not installed here: pip install nixl-cu12=={max(COMMITS)}")


def stock_plugins() -> Path:
    """The folder of the wheel's own plug-ins."""
    name, _ = installed_wheel()
    module = name.replace("-", "_")
    found = importlib.util.find_spec(module)
    assert found is not None and found.origin is not None
    return Path(found.origin).parents[1] / f".{module}.mesonpy.libs" / "plugins"


def headers_of(release: str, cache: Path) -> Path:
    """A checkout of NIXL with a release's headers: NEARKV_NIXL_HEADERS, or what git fetches.

    Raises NixlError. Whether a checkout of the user's own is that release's, the build looks.
    """
    if given := os.environ.get("NEARKV_NIXL_HEADERS"):
        return Path(given)
    commit = COMMITS.get(release)
    if commit is None:
        raise NixlError(
            f"NIXL {release} is not known here; install {' or '.join(COMMITS)}, or set "
            f"NEARKV_NIXL_HEADERS to a checkout of NIXL's tag v{release}"
        )
    checkout = cache / f"headers-{commit[:12]}"
    if not checkout.exists():
        _fetch(commit, checkout, release)
    return checkout


def _fetch(commit: str, checkout: Path, release: str) -> None:
    """One commit, and of it only what the plug-in includes."""
    unfinished = checkout.with_suffix(".unfinished")
    git = ["git", "-C", str(unfinished)]
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        for command in (
            [*git, "init", "--quiet"],
            [*git, "fetch", "--quiet", "--depth=1", REPOSITORY, commit],
            [*git, "checkout", "--quiet", commit, "--", *_NEEDED],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        unfinished.rename(checkout)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise HeadersMissing(
            f"NIXL's headers cannot be fetched from {REPOSITORY}: {said[-1]}; on a machine that "
            f"can, check out its tag v{release}, and set NEARKV_NIXL_HEADERS to the folder here"
        ) from error
