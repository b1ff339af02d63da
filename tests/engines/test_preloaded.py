"""Programs that start in a process which has imported an engine; here it has imported wave."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engines.environment import Environment
from tests.engines.preloaded import preloaded

ANSWER = """
import json, os, sys
asked, is_alone = json.loads(sys.argv[1]), os.getpgrp() == os.getpid()
print(json.dumps([asked, "wave" in sys.modules, os.environ["ASKED"], is_alone]))
"""


@pytest.fixture
def environment() -> Iterator[Environment]:
    with preloaded(Environment(Path(sys.executable)), {"ASKED": "at first"}, "wave") as ready:
        yield ready


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program.py"


def test_a_program_finds_what_was_imported_and_the_variables_of_now(
    environment: Environment, program: Path, monkeypatch: pytest.MonkeyPatch
):
    program.write_text(ANSWER)
    assert environment.run(program, {"a": 1}, timeout_s=60) == [{"a": 1}, True, "at first", True]
    monkeypatch.setenv("ASKED", "later")
    assert environment.run(program, [2], timeout_s=60) == [[2], True, "later", True]


def test_one_that_fails_says_why_and_the_next_one_runs(environment: Environment, program: Path):
    program.write_text(
        "import os\nprint('so far')\nos.environ['ASKED'] = ''\nraise KeyError('gone')"
    )
    with pytest.raises(AssertionError, match=r"(?s)so far.*KeyError: 'gone'"):
        environment.run(program, None, timeout_s=60)
    program.write_text(ANSWER)
    assert environment.run(program, None, timeout_s=60)[2] == "at first"


def test_one_that_takes_too_long_is_ended(environment: Environment, program: Path):
    program.write_text("import time\ntime.sleep(600)")
    with pytest.raises(subprocess.TimeoutExpired):
        environment.run(program, None, timeout_s=0.5)
    program.write_text(ANSWER)
    assert environment.run(program, None, timeout_s=60)[1]
