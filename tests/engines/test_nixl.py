"""NIXL's agents on stores, through the plug-in NEARKV."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import ROOT, Environment
from bench.engines.serving import Daemon

# The first makes NIXL's environment and compiles the plug-in.
pytestmark = pytest.mark.timeout(900)
PROGRAM = Path(__file__).parent / "nixl_program.py"
README = ROOT / "engine_integration/nearkv/nixl/README.md"
MEMORY = {"uri": "cpu:?memory=512MiB"}
OBJECTS = {f"block {i}": [1 + i, 4096, 70000 - i] for i in range(300)}


class Agents:
    """Runs functions of the program, each in a process with one agent."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def run(self, do: str, **arguments: Any) -> Any:
        return self.environment.run(PROGRAM, {"do": do, **arguments}, timeout_s=300)


@pytest.fixture(scope="module")
def agents(nixl: Environment) -> Agents:
    made = Agents(nixl)
    if missing := made.run("build").get("missing"):
        pytest.skip(missing)
    return made


def test_the_readme_stores_a_block(agents, daemon):
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    code = code.replace("/run/nearkv/nearkv.sock", daemon.socket)
    given = "import numpy\nblock = numpy.arange(65536, dtype=numpy.uint8)\n"
    asks = '\nprint([state, agent.query_memory([(0, 0, 0, "hash of the block")], "NEARKV", "OBJ")])'
    done = subprocess.run(
        [agents.environment.python, "-c", given + code + asks],
        capture_output=True,
        text=True,
        env=os.environ | agents.environment.variables,
    )
    assert done.stdout.splitlines()[-1:] == ["['DONE', [{}]]"], done.stderr


def test_what_one_agent_writes_another_process_reads(agents, daemon):
    mine = {"socket": daemon.socket, "tenant": "0", "model": "m", "salt": "mine"}
    assert agents.run("put", parameters=mine, objects=OBJECTS) == "DONE"
    got = agents.run("get", parameters=mine, objects=OBJECTS)
    assert got == {"present": [True] * len(OBJECTS), "state": "DONE", "same": True}
    others = agents.run("get", parameters=mine | {"salt": "others"}, objects=OBJECTS)
    assert not any(others["present"])
    assert others["state"] == "nixlNotFoundError"


def test_a_damaged_object_is_an_error_and_then_missing(agents, tmp_path):
    pool = tmp_path / "pool"
    parameters = {"uri": f"cpu:{pool}?memory=64MiB"}
    objects = {"damaged": [100000], "sound": [100000]}
    assert agents.run("put", parameters=parameters, objects=objects) == "DONE"
    flip_a_bit_after(pool, agents.run("beginning", key="damaged", size=100000))
    got = agents.run("each", parameters=parameters, objects=objects)
    assert got["sound"] == [["DONE", True]] * 2
    assert [state for state, _ in got["damaged"]] == ["nixlBackendError", "nixlNotFoundError"]


def flip_a_bit_after(pool: Path, beginning: list[int]) -> None:
    """In the object that begins with these bytes."""
    found = pool.read_bytes().index(bytes(beginning))
    with pool.open("r+b") as file:
        file.seek(found + 500)
        (byte,) = file.read(1)
        file.seek(found + 500)
        file.write(bytes([byte ^ 1]))


def test_a_transfer_fails_when_its_daemon_dies_and_works_with_the_next_one(agents, tmp_path):
    told = agents.run(
        "outlive",
        parameters={"socket": Daemon(tmp_path).socket},
        objects={f"block {i}": [1 << 20] for i in range(32)},
        folder=str(tmp_path),
    )
    assert (told["before"], told["posted"]) == ("DONE", "PROC")
    assert (told["during"], told["while_away"]) == ("nixlBackendError", "nixlBackendError")
    assert (told["again"], told["after"]) == ("DONE", ["DONE", True])


def test_a_stopped_daemon_holds_up_a_release_for_seconds_only(agents, daemon):
    told = agents.run(
        "release_while_stopped",
        parameters={"socket": daemon.socket},
        objects={f"block {i}": [1 << 20] for i in range(32)},
        daemon=daemon.process_id,
    )
    assert (told["posted"], told["stopped"]) == ("PROC", "nixlRepostActiveError")
    assert told["waited_s"] < 10
    assert any("its daemon does not answer; release it again" in line for line in told["told"])
    # Until then the transfer was there still.
    assert (told["continued"], told["whole"]) == ("None", True)


@pytest.mark.parametrize(("overwrite", "kept"), [("true", 2), ("false", 1)])
def test_a_write_replaces_what_is_there_unless_told_otherwise(agents, overwrite, kept):
    assert agents.run("replace", parameters=MEMORY | {"overwrite": overwrite}) == [kept]


def test_what_no_store_can_do_is_refused(agents):
    told = agents.run("misuse", parameters=MEMORY)
    assert (told["too small"], told["too large"]) == ("nixlMismatchError", "nixlMismatchError")
    assert told["part"] == "nixlNotSupportedError"
    assert told["number"] == "nixlBackendError"
    assert told["file"] == "nixlNotFoundError"
    assert any("names another object already" in line for line in told["told"])
    assert told["after"] == ["DONE", True]


def test_a_released_transfer_stops_and_leaves_whole_objects(agents):
    told = agents.run("cancel", parameters=MEMORY, count=1000, size=262144)
    assert told["state"] == "PROC"
    assert told["whole"] == told["there"] < 1000


def test_an_agent_may_leave_with_a_transfer_on_its_way(agents):
    objects = {f"block {i}": [4 << 20] for i in range(20)}
    assert agents.run("leave", parameters=MEMORY, objects=objects) == "PROC"


def test_threads_share_an_agent(agents):
    assert agents.run("share", parameters=MEMORY, threads=4, rounds=10) == [True] * 4


def test_costs_are_estimated_from_transfers_that_were_made(agents):
    told = agents.run("estimate", parameters=MEMORY)
    assert (told["before"], told["read"]) == ("nixlNotPostedError", "nixlNotPostedError")
    assert 0 < told["small"][0] <= told["large"][0]


WRONG = (
    ({}, "needs a uri, or the socket of a daemon"),
    ({"url": "cpu:"}, "no parameter 'url'; is uri meant?"),
    ({"uri": "cpu:", "model_name": "m"}, "no parameter 'model_name'; is model meant?"),
    ({"uri": "cpu:", "socket": "x"}, "and not both"),
    ({"uri": "cpu:", "tenant": "70000"}, "tenant is a number up to 65535"),
    ({"uri": "cpu:", "workers": "many"}, "workers is a number from 1 to 64"),
    ({"uri": "cpu:", "overwrite": "yes"}, "overwrite is true or false"),
    ({"socket": "/nonexistent/nearkv.sock"}, "/nonexistent/nearkv.sock"),
    ({"uri": "tape:"}, "tape"),
)


def test_wrong_parameters_are_refused_with_what_is_wrong(agents):
    told = agents.run("refuse", parameters=[given for given, _ in WRONG])
    for lines, (_, said) in zip(told, WRONG, strict=True):
        assert any(line.startswith("NEARKV: ") and said in line for line in lines), (said, lines)


def test_the_plug_in_is_not_built_with_another_releases_headers(agents, tmp_path, monkeypatch):
    (tmp_path / "src/api/cpp/backend").mkdir(parents=True)
    (tmp_path / "src/api/cpp/backend/backend_plugin.h").touch()
    (tmp_path / "meson.build").write_text("project('nixl', 'CPP', version: '1.3.9',\n")
    monkeypatch.setenv("NEARKV_NIXL_HEADERS", str(tmp_path))
    done = subprocess.run(
        [agents.environment.python, "-m", "nearkv.nixl"],
        capture_output=True,
        text=True,
        env=os.environ | agents.environment.variables,
    )
    assert done.returncode == 1
    assert "the headers are NIXL 1.3.9's" in " ".join(done.stderr.split())


def test_a_plug_in_of_another_release_is_not_loaded(agents, tmp_path, monkeypatch):
    plugin = Path(agents.run("build")["plugin"])
    monkeypatch.setenv("NIXL_PLUGIN_DIR", str(tmp_path))
    (tmp_path / plugin.name).write_bytes(plugin.read_bytes())
    assert agents.run("plugins") == ["NEARKV"]
    (tmp_path / plugin.name).write_bytes(plugin.read_bytes().replace(b"1.4.0", b"1.3.9"))
    name, *told = agents.run("plugins")
    assert name.startswith("NEARKV: this plug-in was built for NIXL 1.3.9, and this is NIXL 1.4.0")
    assert told
