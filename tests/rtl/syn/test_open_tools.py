"""Tools that end badly are told apart, and no two processes prepare a tool at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import open_tools
import pytest

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, here a folder of the test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def make_tool(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_what_a_tool_says_is_returned(tmp_path: Path) -> None:
    tool = make_tool(tmp_path, "prover", 'echo "$1 in $(pwd)"')
    assert open_tools.run_tool([tool, "proved"], tmp_path) == f"proved in {tmp_path}\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("kill -BUS $$", "prover was ended by SIGBUS"),
        ("exit 3", "prover ended with exit status 3"),
        ("echo no such module >&2; exit 1", "prover ended with exit status 1\nno such module"),
    ],
)
def test_a_failure_names_the_tool_and_how_it_ended(tmp_path: Path, script: str, said: str) -> None:
    tool = make_tool(tmp_path, "prover", script)
    with pytest.raises(open_tools.ToolError) as failure:
        open_tools.run_tool([tool], tmp_path)
    assert str(failure.value) == said


def test_a_tool_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    tool = make_tool(tmp_path, "prover", "exec sleep 60")
    with pytest.raises(open_tools.ToolError, match=r"prover: not done after 0\.1 s"):
        open_tools.run_tool([tool], tmp_path, seconds=0.1)


def test_a_missing_tool_is_no_failure_of_a_tool() -> None:
    with pytest.raises(open_tools.MissingTool, match="nkv-a or nkv-b is missing"):
        open_tools.find_tool("nkv-a", "nkv-b")


def test_one_process_at_a_time_prepares_a_tool(tmp_path: Path) -> None:
    alone = 'mkdir "$0.busy" || exit 9; sleep 0.2; rmdir "$0.busy"'
    tool = make_tool(tmp_path, "yowasp-prover", f'if [ "$1" = --version ]; then {alone}; fi')
    program = f"import open_tools, pathlib; open_tools.run_tool([{tool!r}], pathlib.Path())"
    environment = os.environ | {"PYTHONPATH": str(Path(open_tools.__file__).parent)}
    users = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(4)]
    assert [user.wait(timeout=60) for user in users] == [0] * 4


def test_a_tool_that_cannot_be_prepared_is_told(tmp_path: Path) -> None:
    tool = make_tool(tmp_path, "yowasp-prover", "exit 1")
    with pytest.raises(open_tools.ToolError, match="yowasp-prover ended with exit status 1"):
        open_tools.run_tool([tool], tmp_path)


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(open_tools.ToolError, match="name another folder with XDG_CACHE_HOME"):
        open_tools.run_tool([make_tool(tmp_path, "yowasp-prover", "true")], tmp_path)
