"""What tells apart the K and V of models that go by the same name: the files they are made of."""

import fcntl
import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

__all__ = ["digest_of_file", "model_identity"]

_logger = logging.getLogger(__name__)

_SETTINGS = {".json", ".py"}
_KINDS = {".safetensors", ".bin", ".pt", ".pth", ".gguf", *_SETTINGS}
# Files of these kinds that lie beside weights, and change neither K nor V of any token.
_OTHERS = (
    "optimizer",
    "scheduler",
    "rng_state",
    "trainer_state",
    "training_args",
    "tokenizer",
    "generation_config",
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


def model_identity(
    name: str, version: str = "", *, revision: str | None = None, **settings: Any
) -> str:
    """32 hexadecimal digits, the same for engines that may use each other's K and V.

    Where nothing tells the weights, a warning says how the user can.

    Args:
        name: A folder or file, or the id of a model whose snapshot is in the Hugging Face cache.
        version: What the user calls the weights. If it is given, no file is looked at.
        revision: The branch, tag or commit of an id.
        settings: What else the engine was told that changes K or V, as JSON.
    """
    try:
        weights = f"version {version}" if version else _weights_of(name, revision)
    except OSError as error:
        _logger.warning("NearKV: %s", error)
        weights = ""
    if not weights:
        _logger.warning(
            "NearKV cannot see the files of the model '%s', and so not tell when its weights "
            "change: give another model_version with other weights",
            name,
        )
    text = json.dumps([weights, settings], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def digest_of_file(file: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal.

    It is noted in $XDG_CACHE_HOME/nearkv/digests, so that the file is read again only after it
    changed, and by one of the processes that ask at once. Raises OSError.
    """
    with file.open("rb") as data, _note_of(file) as note:
        seen = os.fstat(data.fileno())
        stamp = " ".join(
            map(str, (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
        )
        known, _, digest = note.read().partition("\n")
        if known != stamp or len(digest) != 64:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
            note.truncate(0)
            note.write(f"{stamp}\n{digest}")
    return digest


def _weights_of(name: str, revision: str | None) -> str:
    """A commit of a hub, or a digest of files; "" if weights are not here."""
    path = Path(name) if name and Path(name).exists() else _snapshot(name, revision)
    if path is None:
        return ""
    if path.parent.name == "snapshots" and _COMMIT.fullmatch(path.name):
        return path.name
    files = [path] if path.is_file() else [file for file in path.iterdir() if _is_of_model(file)]
    if not {file.suffix for file in files} - _SETTINGS:
        return ""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        digests = threads.map(digest_of_file, files)
    return json.dumps(sorted(zip((file.name for file in files), digests, strict=True)))


def _is_of_model(file: Path) -> bool:
    return file.suffix in _KINDS and not file.name.startswith(_OTHERS) and file.is_file()


def _snapshot(name: str, revision: str | None) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    for file in ("config.json", "params.json"):
        try:
            found = try_to_load_from_cache(name, file, revision=revision)
        except HFValidationError:
            return None
        if isinstance(found, str):
            return Path(found).parent
    return None


@contextmanager
def _note_of(file: Path) -> Iterator[IO[str]]:
    """Where a file's digest is noted, for one process at a time; nowhere if it cannot be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(str(file.resolve()).encode()).hexdigest()
    with ExitStack() as stack:
        try:
            (cache / "nearkv" / "digests").mkdir(parents=True, exist_ok=True)
            note = stack.enter_context((cache / "nearkv" / "digests" / name).open("a+"))
        except OSError:
            note = stack.enter_context(tempfile.TemporaryFile("a+"))
        fcntl.flock(note, fcntl.LOCK_EX)
        note.seek(0)
        yield note
