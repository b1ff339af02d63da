"""The command line of ./nearkv bench, on benches made for the test."""

from pathlib import Path

import pytest

import bench
import bench.__main__ as command
from bench.result_file import read_results

pytestmark = pytest.mark.quick

GOOD = '''
"""Measures nothing.

More words.
"""
from nearkv.results import Goal, Result

def run(context):
    context.progress("measuring nothing")
    yield Result(name="{name}/long", value=float(context.long), unit="bool", device=context.device)
    yield Result(name="{name}/late", value=2.0, unit="s", goal=Goal("<=", 1.0))
'''
FAILS_LATE = '''
"""Fails."""
from nearkv.results import Result

def run(context):
    yield Result(name="fails/early", value=1.0, unit="s")
    raise {error}
'''
IN_PARTS = '''
"""Lacks what two of its parts need."""
from bench import Skipped, each_part
from nearkv.results import Result

def run(context):
    yield from each_part((part("early", "there is no moon"), part("late", "there is no sun")))

def part(name, missing):
    yield Result(name=f"parts/{name}", value=1.0, unit="s")
    raise Skipped(missing)
'''


@pytest.fixture
def add_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench, "__path__", [*bench.__path__, str(tmp_path)])
    monkeypatch.chdir(tmp_path)

    def add(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source.strip())
        monkeypatch.delitem(command.importlib.sys.modules, f"bench.{name}", raising=False)

    return add


def test_without_a_name_the_benches_are_listed(add_bench, capsys: pytest.CaptureFixture[str]):
    add_bench("fake_listed", GOOD.format(name="fake_listed"))
    assert command.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["fake_listed", "Measures", "nothing."] for line in lines)
    assert any(line.split()[0] == "memory" for line in lines)
    assert not any(line.split()[0] in ("report", "__main__") for line in lines)


def test_a_bench_prints_its_table_and_writes_its_results(
    add_bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    add_bench("fake_good", GOOD.format(name="fake_good"))
    path = tmp_path / "out.json"
    assert command.main(["fake_good", "--json", str(path), "--device", "model:", "--long"]) == 0
    file = read_results(path)
    assert [result.name for result in file.results] == ["fake_good/long", "fake_good/late"]
    assert file.results[0].device == "model:"
    assert file.results[0].value == 1.0
    printed = capsys.readouterr()
    assert "0 of 1 goals met; missed: fake_good/late" in printed.out
    assert "measuring nothing" in printed.err


def test_results_go_to_a_file_named_after_the_benches(add_bench, tmp_path: Path):
    for name in ("fake_one", "fake_two"):
        add_bench(name, GOOD.format(name=name))
    assert command.main(["fake_one", "fake_two"]) == 0
    assert len(read_results(tmp_path / "results" / "fake_one+fake_two.json").results) == 4


def test_an_unknown_bench_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_info:
        command.main(["no_such_bench"])
    assert exit_info.value.code == 2
    assert "no bench no_such_bench; there are: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "kept"),
    [("KeyboardInterrupt", 130, 1), ("RuntimeError('no such device')", 1, 3)],
)
def test_what_was_measured_is_kept_when_a_bench_ends_early(
    add_bench,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    error: str,
    status: int,
    kept: int,
):
    add_bench("fake_fails", FAILS_LATE.format(error=error))
    add_bench("fake_next", GOOD.format(name="fake_next"))
    path = tmp_path / "out.json"
    assert command.main(["fake_fails", "fake_next", "--json", str(path)]) == status
    assert len(read_results(path).results) == kept
    assert "fake_fails" in capsys.readouterr().err


def test_the_memory_bench_measures(monkeypatch: pytest.MonkeyPatch):
    from bench import memory

    monkeypatch.setattr(memory, "_BUFFER_BYTES", 1 << 24)
    results = {result.name: result for result in memory.run(bench.Context())}
    assert results.keys() == {
        f"memory/{work}_{threads}"
        for work in ("read", "copy")
        for threads in ("1_thread", "2_threads")
    }
    for result in results.values():
        assert result.unit == "GB/s"
        assert 0 < result.minimum <= result.value <= result.maximum
    assert results["memory/read_2_threads"].peer_value == results["memory/read_1_thread"].value


def test_what_a_machine_lacks_is_said_and_is_no_failure(
    add_bench, capsys: pytest.CaptureFixture[str]
):
    add_bench(
        "fake_lacking",
        FAILS_LATE.format(error='bench.Skipped("there is no moon")').replace(
            "from nearkv", "import bench\nfrom nearkv"
        ),
    )
    assert command.main(["fake_lacking"]) == 0
    out = capsys.readouterr().out
    assert "fails/early" in out
    assert out.splitlines()[-1] == "not measured: fake_lacking: there is no moon"


def test_a_part_that_cannot_be_measured_does_not_keep_the_next_ones_from_it(
    add_bench, capsys: pytest.CaptureFixture[str]
):
    add_bench("fake_parts", IN_PARTS)
    assert command.main(["fake_parts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("parts/early") for line in lines)
    assert any(line.startswith("parts/late") for line in lines)
    assert lines[-2:] == [
        "not measured: fake_parts: there is no moon",
        "not measured: fake_parts: there is no sun",
    ]
