"""The examples, run as their readers run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)

pytestmark = pytest.mark.quick

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, EXAMPLES / name, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_object_store(tmp_path: Path) -> None:
    assert run("object_store.py", str(tmp_path / "blocks")) == (
        "8 of 12 blocks found, equal\n32 parts read, 8 objects recovered\n"
    )


def test_every_example_is_tested() -> None:
    assert [path.name for path in EXAMPLES.glob("*.py")] == ["object_store.py"]
