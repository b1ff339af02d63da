"""Compiling the plug-in: a small project of CMake's, in the user's cache."""

import fcntl
import hashlib
import importlib.util
import os
import subprocess
from pathlib import Path

from nearkv.nixl.compat import NixlError, headers_of, installed_wheel

_HERE = Path(__file__).parent


def build_plugin() -> Path:
    """Builds libplugin_NEARKV.so for the NIXL that is installed, as far as it is not; its path.

    NEARKV_NIXL_HEADERS may name a checkout of NIXL at the release's tag; without it, git fetches
    one. Raises NixlError, which says what to do: no NIXL, no headers, headers of another release,
    no compiler.
    """
    _, release = installed_wheel()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearkv" / "nixl"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        headers = headers_of(release, cache)
        sources, library, includes = _ours()
        told = "\n".join(map(str, (headers, release, sources, library)))
        folder = cache / f"{release}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
        definitions = {
            "NEARKV_NIXL_HEADERS": headers,
            "NEARKV_NIXL_VERSION": release,
            "NEARKV_LIBRARY": library,
            "NEARKV_INCLUDE": ";".join(map(str, includes)),
        }
        words = [f"-D{name}={value}" for name, value in definitions.items()]
        _cmake("-S", str(sources), "-B", str(folder), *words)
        _cmake("--build", str(folder), "--parallel", "2")
    return folder / "libplugin_NEARKV.so"


def _ours() -> tuple[Path, Path, list[Path]]:
    """The plug-in's sources, libnearkv.so, folders of headers: in a wheel or a checkout."""
    extension = importlib.util.find_spec("_nearkv")
    if extension is None or extension.origin is None:
        raise NixlError("NearKV's extension is not here: build it (./nearkv build, pip install .)")
    beside = Path(extension.origin).parent
    if (_HERE / "plugin").exists():
        return _HERE / "plugin", beside / "nearkv/lib/libnearkv.so", [_HERE.parent / "include"]
    checkout = _HERE.parents[2]
    includes = [checkout / "host_lib/include", checkout / "rtl/abi/gen"]
    return checkout / "engine_integration/nixl", beside.parent / "lib/libnearkv.so", includes


def _cmake(*words: str) -> None:
    try:
        done = subprocess.run(["cmake", *words], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NixlError("CMake is not here: apt-get install cmake g++") from error
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise NixlError("the plug-in cannot be built:\n" + "\n".join(said[-12:]))
