"""What makes the K and V of models differ, although they go by one name."""

import hashlib
import os
import shutil
from pathlib import Path
from unittest import mock

import pytest

from nearkv.store.model_identity import digest_of_file, model_identity

COMMITS = "0123456789" * 4, "abcdef0123" * 4


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where digests are noted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder as engines take it: not a model, but files of the names that matter."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model-00001-of-00002.safetensors").write_bytes(bytes(4096))
    (folder / "model-00002-of-00002.safetensors").write_bytes(bytes(4096))
    (folder / "config.json").write_text('{"rope_theta": 10000.0}')
    (folder / "tokenizer.json").write_text("{}")
    return folder


def replaced(file: Path, at: int, byte: int) -> None:
    """One byte of a file, in place, and its time as it was."""
    before = file.stat()
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(bytes([byte]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_copies_of_a_model_are_one_model(model, tmp_path):
    shutil.copytree(model, tmp_path / "copy", copy_function=shutil.copyfile)
    assert model_identity(str(tmp_path / "copy")) == model_identity(str(model))


CHANGES = {
    "weights": lambda model: replaced(model / "model-00002-of-00002.safetensors", 2000, 1),
    "rope settings": lambda model: (model / "config.json").write_text('{"rope_theta": 5e5}'),
    "quantisation": lambda model: (model / "quantize_config.json").write_text('{"bits": 4}'),
    "an adapter in the folder": lambda model: (model / "adapter_model.bin").write_bytes(b"1"),
    "code": lambda model: (model / "modeling.py").write_text("import torch"),
    "weights that change places": lambda model: [
        (model / f"model-0000{a}-of-00002.safetensors").write_bytes(b * 4096)
        for a, b in ((1, b"a"), (2, b"b"))
    ],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_k_and_v_makes_another_model(model, change):
    known = model_identity(str(model))
    CHANGES[change](model)
    assert model_identity(str(model)) != known


@pytest.mark.parametrize("name", ["tokenizer.json", "optimizer.pt", "README.md", "train.log"])
def test_what_does_not_leaves_it_the_same(model, name):
    known = model_identity(str(model))
    (model / name).write_text("changed")
    assert model_identity(str(model)) == known


def test_what_an_engine_is_told_is_part_of_it(model):
    plain, yarn, other = (
        model_identity(str(model), overrides=told) for told in ("", "yarn", "dynamic")
    )
    assert len({plain, yarn, other, model_identity(str(model), overrides="", dtype="half")}) == 4


def test_weights_are_read_once_and_again_when_they_changed(model):
    weights = model / "model-00001-of-00002.safetensors"
    known = digest_of_file(weights)
    assert known == hashlib.sha256(bytes(4096)).hexdigest()
    with mock.patch.object(hashlib, "file_digest", wraps=hashlib.file_digest) as reads:
        assert digest_of_file(weights) == known
        assert reads.call_count == 0
        replaced(weights, 4095, 7)
        assert digest_of_file(weights) == hashlib.sha256(bytes(4095) + b"\7").hexdigest()
        assert reads.call_count == 1


def test_a_note_that_is_broken_is_no_digest(model, cache):
    weights = model / "model-00001-of-00002.safetensors"
    known = digest_of_file(weights)
    [note] = (cache / "nearkv" / "digests").iterdir()
    note.write_text(note.read_text()[:-5])  # A process was killed while it wrote.
    assert digest_of_file(weights) == known


def test_where_nothing_can_be_noted_files_are_read_each_time(model, cache):
    cache.write_text("no folder")
    assert model_identity(str(model)) == model_identity(str(model))


def test_a_model_of_a_hub_is_the_commit_that_is_here(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    here = tmp_path / "models--an--id"
    for commit in COMMITS:
        (here / "snapshots" / commit).mkdir(parents=True)
        (here / "snapshots" / commit / "config.json").write_text("{}")
    (here / "refs").mkdir()
    told = []
    for commit in COMMITS:
        (here / "refs" / "main").write_text(commit)
        told.append(model_identity("an/id"))
        # By its commit, and as the folder of its snapshot.
        assert model_identity("an/id", revision=commit) == told[-1]
        assert model_identity(str(here / "snapshots" / commit)) == told[-1]
    assert told[0] != told[1]


@pytest.mark.parametrize("name", ["a name that engines serve", "", "settings alone"])
def test_where_weights_are_not_seen_the_user_is_asked_for_a_version(tmp_path, name, caplog):
    if name == "settings alone":
        (tmp_path / "config.json").write_text("{}")
        name = str(tmp_path)
    unknown = model_identity(name)
    assert "model_version" in caplog.text
    caplog.clear()
    assert len({unknown, model_identity(name, "1"), model_identity(name, "2")}) == 3
    assert not caplog.text
