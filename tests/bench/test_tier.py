"""The bench of the object tier: what it counts is right, and whoever takes turns is held to it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import Context, Skipped
from bench.contender import Contender, ContenderError
from bench.peers import PEERS, Peer, compare
from bench.result_file import read_results
from nearkv.results import Result

_BINDING = importlib.util.find_spec("_nearkv")
if _BINDING is None or _BINDING.origin is None:
    pytest.skip("nothing is built", allow_module_level=True)
_PROGRAM = Path(_BINDING.origin).parents[1] / "bench" / "tier" / "nearkv_tier_bench"
_PEERS_FOLDER = Path(sys.modules["bench.peers"].__file__).parent

# 3 requests of 2, 3 and 3 blocks; the second and third begin as the first does.
_TRACE = [[1, 2], [1, 2, 3], [1, 2, 4]]
_BOUND = 4

_DICT_WORKER = """
import sys
sys.path.insert(0, {folder!r})
import worker

class Dict:
    def __init__(self, memory, folder):
        self.held = {{}}
    def set(self, keys, sources):
        for key, source in zip(keys, sources):
            self.held[key] = bytes(source)
    def get(self, keys, targets):
        for key, target in zip(keys, targets):
            target[:] = {value}
    def exists(self, keys):
        return sum(key in self.held for key in keys)
    def clear(self, keys):
        self.held.clear()
    def close(self):
        pass

worker.serve(Dict)
"""


def run_bench(tmp_path: Path, *arguments: str) -> tuple[dict[str, Result], str]:
    file = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "tier", "--tiny", "--json", str(file), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "NEARKV_PEERS": str(tmp_path / "no_peers")},
    )
    assert done.returncode == 0, done.stderr
    return {result.name: result for result in read_results(file).results}, done.stdout


def dict_script(tmp_path: Path, value: str, name: str = "dict") -> Path:
    script = tmp_path / f"{name}_worker.py"
    script.write_text(_DICT_WORKER.format(folder=str(_PEERS_FOLDER), value=value))
    return script


def dict_worker(tmp_path: Path, value: str) -> Contender:
    script = dict_script(tmp_path, value)
    sizes = ["--objects", "5", "--object-bytes", "8192", "--batch", "2"]
    return Contender("a dict", [sys.executable, str(script), *sizes, "--folder", str(tmp_path)])


@pytest.mark.default
def test_the_bench_measures_each_part_and_counts_a_trace_right(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    requests = [{"timestamp": 1000 * i, "hash_ids": blocks} for i, blocks in enumerate(_TRACE)]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    (traces / "chat.jsonl").write_text(lines)
    results, said = run_bench(tmp_path, "--traces", str(traces))
    for prefix in ("copies/set", "copies/get", "copies/copy_in", "exists", "prefix", "restart"):
        assert any(name.startswith(f"tier/{prefix}") for name in results), prefix
    for name in ("index/flat/find_batch", "fragmentation/compacted/at_end"):
        assert f"tier/{name}" in results
    assert results["tier/daemon/adds/own_cores/get/1x4KiB"].goal is not None
    assert results["tier/daemon/set/256KiB/8_a_job"].peer == "memcpy"
    assert all(result.value > 0 for result in results.values() if result.unit == "GB/s")
    replayed = results["tier/replay/chat/chain_lhd/hits_of_bound"]
    assert replayed.extra["bound"] == replayed.extra["prefix_hits"] == _BOUND
    assert replayed.value == 1
    # Two blocks held all the time, the first two, are all that can be found again.
    lru = results["tier/hits/chat/50pct/lru"]
    assert lru.peer_value == 1
    assert 2 / _BOUND <= lru.value <= 1
    # A restart of so few objects proves nothing about a million.
    assert results["tier/restart"].goal is None
    for peer in PEERS:
        assert f"not measured: tier: {peer.title}: " in said


@pytest.mark.default
def test_without_traces_the_bench_says_what_it_did_not_measure(tmp_path: Path) -> None:
    results, said = run_bench(tmp_path)
    assert "not measured: tier: replay and fragmentation, which need request traces" in said
    assert not any(name.startswith(("tier/replay", "tier/hits")) for name in results)
    assert "tier/restart" in results


def test_the_store_takes_turns_and_its_gets_return_what_was_set(tmp_path: Path) -> None:
    command = [str(_PROGRAM), "turns", "--objects", "5", "--object-bytes", "8192", "--batch", "2"]
    with Contender("ours", [*command, "--path", str(tmp_path / "pool")]) as ours:
        for _ in range(2):
            ours.order("clear")
            assert ours.order("set")["bytes"] == 5 * 8192
            assert ours.order("exists")["objects"] == 5
            assert ours.order("get")["seconds"] > 0
            ours.order("verify")
        with pytest.raises(ContenderError, match="no such order: dance"):
            ours.order("dance")
        ours.order("clear")
        with pytest.raises(ContenderError, match="ours: failed at get"):
            ours.order("get")


def test_what_a_get_left_out_or_mixed_up_is_found(tmp_path: Path) -> None:
    with dict_worker(tmp_path, "self.held[key]") as honest:
        for order in ("clear", "set", "exists", "get", "verify"):
            assert honest.order(order)["objects"] == 5
        with pytest.raises(ContenderError, match="failed at verify"):
            honest.order("verify")  # what was loaded has been wiped
    with dict_worker(tmp_path, "next(iter(self.held.values()))") as mixed_up:
        for order in ("set", "get"):
            mixed_up.order(order)
        with pytest.raises(ContenderError, match="failed at verify"):
            mixed_up.order("verify")


def test_peers_that_fail_are_said_and_the_others_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers._ENVIRONMENTS", tmp_path)
    (tmp_path / "here" / "bin").mkdir(parents=True)
    (tmp_path / "here" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "here" / "requirements.txt").touch()
    honest = dict_script(tmp_path, "self.held[key]", "honest")
    mixed_up = dict_script(tmp_path, "next(iter(self.held.values()))", "mixed_up")
    workers = {"honest": honest, "mixed_up": mixed_up, "nobody": tmp_path / "none.py"}
    peers = [
        Peer(name, name, "memory", "none", "here", (), (str(script),))
        for name, script in workers.items()
    ]
    absent = Peer("absent", "absent", "memory", "none", "absent", (), (str(honest),))
    monkeypatch.setattr(compare, "PEERS", (absent, *peers))
    names = []
    with pytest.raises(Skipped) as skipped:
        for result in compare.compare_with_peers(Context(tiny=True), _PROGRAM):
            names.append(result.name)
    assert names == [f"tier/peers/{work}/256KiB/honest" for work in ("set", "get")]
    assert skipped.value.args == (
        "absent: not installed; the bench's --peers installs it",
        "256KiB: nobody: failed at start, status 2",
        "256KiB: mixed_up: failed at verify, status 1",
    )


def test_a_contender_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ContenderError, match="nobody: failed at start, status 3"):
        Contender("nobody", [sys.executable, "-c", "raise SystemExit(3)"])
