"""LMCache's own storage manager and backends over a NearKV store, on the CPU."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import (
    ROOT,
    Environment,
)
from bench.engines.serving import Daemon, damage

# The first makes LMCache's environment.
pytestmark = pytest.mark.timeout(900)
PROGRAM = Path(__file__).parent / "lmcache_program.py"
README = ROOT / "engine_integration" / "nearkv" / "lmcache" / "README.md"


@pytest.fixture
def ask(lmcache: Environment) -> Any:
    """Asks a function of the program."""
    return lambda do, **given: lmcache.run(PROGRAM, {"do": do, **given}, timeout_s=200)


def adapter(**params: Any) -> dict[str, Any]:
    """The README's adapter, over another store."""
    [shown] = re.findall(r"--l2-adapter '(.*?)'", README.read_text(), re.DOTALL)
    config = json.loads(shown)
    del config["adapter_params"]["uri"]
    config["adapter_params"] |= params
    return config


def pool(folder: Path, size: str = "256MiB") -> str:
    return f"cpu:{folder}/pool?memory={size}"


def test_what_is_stored_comes_back_to_its_salt_and_no_other(ask, tmp_path):
    told = ask("round_trip", adapter=adapter(uri=pool(tmp_path)))
    chunk_bytes = told["chunk_bytes"]
    assert told["fetched"] == {"l1": 0, "l2": 6, "same": True}
    assert told["strangers"]["l2"] == 0
    assert told["usage"] == {"mine": 6 * chunk_bytes, "others": 3 * chunk_bytes}
    assert told["usage_after_delete"] == {"mine": 3 * chunk_bytes, "others": 3 * chunk_bytes}
    assert told["after_delete"] == {"l1": 0, "l2": 3, "same": True}
    assert told["other_dtype"]["l2"] == 0


def test_a_later_process_finds_what_is_whole_and_misses_what_is_damaged(ask, tmp_path):
    config = adapter(uri=pool(tmp_path))
    ask("put", adapter=config, chunks=8)
    assert ask("get", adapter=config, chunks=8) == [{"l1": 0, "l2": 1, "same": True}] * 8
    assert damage(tmp_path / "pool") > 0
    again = ask("get", adapter=config, chunks=8)
    assert all(one["same"] for one in again)
    assert sum(one["l2"] for one in again) < 8


@pytest.mark.parametrize("through", ["server", "engine"])
def test_other_weights_in_the_same_folder_are_another_model(ask, tmp_path, through):
    (tmp_path / "model").mkdir()
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(b"first")
    if through == "server":
        given = {"adapter": adapter(uri=pool(tmp_path)), "chunks": 5}
    else:
        config = tmp_path / "lmcache.yaml"
        config.write_text(re.search(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)[1])
        given = {"config_file": str(config), "uri": pool(tmp_path)}
    given["model"] = str(tmp_path / "model")

    def found() -> int:
        if through == "server":
            return sum(one["l2"] for one in ask("get", **given))
        return ask("in_process", phase="find", **given)["contains"]

    if through == "server":
        ask("put", **given)
    else:
        ask("in_process", phase="put", **given)
    assert found() == 5
    weights.write_bytes(b"other")
    assert found() == 0
    weights.write_bytes(b"first")
    assert found() == 5


def test_usage_is_what_the_store_still_has(ask, tmp_path):
    told = ask("evicted", adapter=adapter(uri=pool(tmp_path, "8MiB")), chunks=80)
    back = sum(one["l2"] for one in told["back"])
    assert 0 < back < 80
    assert all(one["same"] for one in told["back"])
    assert told["usage"] == {"": back * told["chunk_bytes"]}


def test_a_prompt_larger_than_the_store_keeps_its_beginning(ask, tmp_path):
    kept = ask("long_prompt", adapter=adapter(uri=pool(tmp_path, "8MiB")), chunks=80)
    assert 10 < sum(kept) < 80
    assert all(kept[: sum(kept)])


def test_objects_of_unknown_shapes_are_stored_once_and_deleted_late(ask, tmp_path):
    told = ask("plain_objects", adapter=adapter(uri=pool(tmp_path)))
    assert told == {
        "stored": [True, True],
        "loaded": [True, True],
        "bytes": [True, True],
        # The second store brought nothing new.
        "heard": {"stored": 2, "accessed": 4},
    }


def test_a_process_that_closes_nothing_ends(lmcache):
    lines = (
        "from nearkv.lmcache.l2_adapter import NearKVL2Adapter\n"
        "adapter = NearKVL2Adapter({'uri': 'cpu:?memory=16MiB'})"
    )
    done = subprocess.run(
        [lmcache.python, "-c", lines],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | lmcache.variables,
    )
    assert done.returncode == 0, done.stderr


def test_what_a_lookup_promised_is_kept_until_it_is_unlocked(ask, tmp_path):
    told = ask("promised", adapter=adapter(uri=pool(tmp_path, "8MiB")), chunks=80)
    assert told == {"found": 4, "kept": [True] * 4, "left": [False] * 4}


def test_work_goes_on_while_a_daemon_is_killed_and_comes_back(ask, tmp_path):
    served = adapter(socket=Daemon(tmp_path).socket)
    told = ask("restart", adapter=served, folder=str(tmp_path))
    assert told["away"] > 0
    assert {name: told[name] for name in ("hung", "wrong", "back")} == {
        "hung": 0,
        "wrong": 0,
        "back": True,
    }


@pytest.mark.long
def test_stores_of_a_stopped_daemon_end(ask, tmp_path):
    served = adapter(socket=Daemon(tmp_path).socket)
    assert ask("stopped", adapter=served, folder=str(tmp_path)) == {"left": 0, "back": True}


def test_the_backend_of_an_engine_finds_what_an_earlier_one_stored(ask, tmp_path):
    config = tmp_path / "lmcache.yaml"
    config.write_text(re.search(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)[1])
    given = {"config_file": str(config), "uri": pool(tmp_path)}
    first = ask("in_process", phase="put", **given)
    assert (first["heard"], first["references"]) == (5, [1] * 5)
    later = ask("in_process", phase="get", **given)
    for told in (first, later):
        assert (told["contains"], told["stranger"]) == (5, False)
        assert told["got"] == told["got_async"] == [True] * 5
        assert (told["pinned"], told["removed_pinned"]) == (2, False)
        assert told["unpinned"] == [True, True, False]
    assert later["removed"] == later["after_remove"] == [True] * 5


def test_an_engines_own_lmcache_misses_while_the_daemon_is_away(ask, tmp_path):
    config = tmp_path / "lmcache.yaml"
    shown = re.search(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)[1]
    config.write_text(re.sub(r".*nearkv\.uri.*\n", "", shown))
    told = ask("without_daemon", config_file=str(config), folder=str(tmp_path))
    assert told == {
        "there": 3,
        "contains": 0,
        "got": [False] * 3,
        "got_async": [],
        "unpinned": [True] * 3,
        "removed": False,
    }


def test_an_older_lmcache_is_refused_with_its_version(lmcache):
    lines = "import lmcache; lmcache.__version__ = '0.5.2'; import nearkv.lmcache"
    done = subprocess.run(
        [lmcache.python, "-c", lines],
        capture_output=True,
        text=True,
        env=os.environ | lmcache.variables,
    )
    assert "needs lmcache 0.5.6 or newer, and this is 0.5.2" in done.stderr


WRONG = (
    ({"url": "cpu:"}, "no option 'url'; is uri meant?"),
    ({"socket": "/nonexistent/nearkv.sock"}, "/nonexistent/nearkv.sock"),
)


def test_a_wrong_configuration_is_refused_with_what_is_wrong(ask):
    answers = ask("refused", adapters=[adapter(**params) for params, _ in WRONG])
    for (_, said), answer in zip(WRONG, answers, strict=True):
        assert said in answer
