"""The result schema: what a result is, what is computed, what is refused."""

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest

from bench.__main__ import format_table
from bench.result_file import RESULT_KEYS, read_results, result_of
from bench.timing import interleave
from nearkv import doctor
from nearkv import results as schema
from nearkv.results import Goal, Result, ResultError, Samples, write_results

pytestmark = pytest.mark.quick

FIELDS = {
    "name": "cpu/attend/dense_128k",
    "value": 21.0,
    "unit": "GB/s",
    "median": 21.0,
    "minimum": 20.0,
    "maximum": 22.5,
    "peer": "streaming read",
    "peer_value": 24.0,
    "goal": Goal(">=", 0.85, of="ratio"),
    "machine": "a machine",
    "commit": "0123456789ab",
}


def test_a_result_object_has_exactly_the_keys_of_the_schema():
    assert tuple(Result(**FIELDS).to_json()) == RESULT_KEYS
    assert tuple(Result(**FIELDS, extra={"k": 64}).to_json()) == (*RESULT_KEYS, "extra")
    written = " ".join(RESULT_KEYS)
    assert written == (
        "name value unit median min max peer peer_value ratio goal met device machine commit"
    )


def test_ratio_and_met_are_computed_and_cannot_be_passed():
    result = Result(**FIELDS)
    assert result.ratio == 21.0 / 24.0
    assert result.met is True
    for computed in ("ratio", "met"):
        with pytest.raises(TypeError):
            Result(**FIELDS, **{computed: 1})


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (None, None),
        (Goal(">=", 21), True),
        (Goal(">", 21), False),
        (Goal("<=", 20.9), False),
        (Goal("<", 22), True),
        (Goal("==", 21), True),
        (Goal(">=", 0.9, of="ratio"), False),
    ],
)
def test_met_follows_from_the_goal(goal: Goal | None, met: bool | None):
    assert Result(**FIELDS | {"goal": goal}).met is met


def test_a_goal_for_the_value_is_written_as_op_and_value():
    assert Goal(">=", 3).to_json() == {"op": ">=", "value": 3}
    assert Goal(">=", 3, of="ratio").to_json() == {"op": ">=", "value": 3, "of": "ratio"}


def test_round_trip(tmp_path: Path):
    path = tmp_path / "new folder" / "results.json"
    results = [
        Result(**FIELDS),
        Result(name="codec/lossless_k", value=0.765, unit="of bf16", goal=Goal("<=", 0.77)),
        Result(name="demo/link", value=512, unit="B/token", extra={"seed": 1, "ids": [1, 2]}),
    ]
    write_results(path, results, {"tokens_equal": True})
    file = read_results(path)
    assert list(file.results) == results
    assert file.summary == {"tokens_equal": True}
    assert json.loads(path.read_text())["tokens_equal"] is True
    assert [entry.name for entry in path.parent.iterdir()] == ["results.json"]


def test_a_summary_cannot_replace_a_key_of_the_schema(tmp_path: Path):
    with pytest.raises(ResultError, match="date is a key of the schema"):
        write_results(tmp_path / "results.json", [], {"date": "today"})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "two words"}, "words joined by slashes"),
        ({"unit": ""}, "unit must be a text"),
        ({"value": float("nan")}, "value is nan; it must be a finite number"),
        ({"value": True}, "value is True; it must be a finite number"),
        ({"value": "21"}, "it must be a finite number"),
        ({"median": None}, "come together; no median"),
        ({"minimum": 23.0}, "min <= median <= max does not hold"),
        ({"peer": None}, "peer and peer_value come together"),
        ({"peer_value": 0}, "peer_value is 0"),
        ({"peer": None, "peer_value": None}, "a goal for the ratio needs peer"),
    ],
)
def test_a_result_that_makes_no_sense_is_refused(change: dict, complaint: str):
    with pytest.raises(ResultError, match=complaint):
        Result(**FIELDS | change)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ratio": 1.5}, "ratio is 1.5, but value / peer_value = 0.875"),
        ({"ratio": None}, "ratio is None, but"),
        ({"met": False}, "met is False, but its own figures say True"),
        ({"mean": 3}, "mean is not part of the schema"),
        ({"goal": {"op": "=>", "value": 1}}, "op is '=>'; it must be one of"),
        ({"goal": {"value": 1}}, "goal must be"),
        ({"goal": {"op": ">=", "value": 1, "of": "median"}}, "of is 'median'"),
        ({"extra": 3}, "extra must be an object"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused_by_name(
    tmp_path: Path, change: dict, complaint: str
):
    path = tmp_path / "results.json"
    write_results(path, [Result(**FIELDS)])
    document = json.loads(path.read_text())
    document["results"][0] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match=complaint) as refusal:
        read_results(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("key", RESULT_KEYS)
def test_a_result_without_one_of_the_keys_is_refused(key: str):
    document = Result(**FIELDS).to_json()
    del document[key]
    with pytest.raises(ResultError, match=f"no {key}"):
        result_of(document)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other/1"}', '{"schema":', "\ud7ff"])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-16")
    with pytest.raises(ResultError, match=r"results\.json"):
        read_results(path)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ResultError, match=r"results\.json"):
        read_results(path)


def test_calls_take_turns_and_the_second_call_of_each_is_timed():
    order = []
    first, second = interleave([lambda: order.append("A"), lambda: order.append("B")], repeat=3)
    assert "".join(order) == "AABB" * 3
    assert len(first.readings) == len(second.readings) == 3


def test_samples_give_their_median_and_spread_and_turn_into_rates():
    seconds = Samples((4.0, 1.0, 2.0))
    assert (seconds.minimum, seconds.median, seconds.maximum) == (1.0, 2.0, 4.0)
    rates = seconds.per_second(8)
    assert (rates.minimum, rates.median, rates.maximum) == (2.0, 4.0, 8.0)


def test_measured_times_are_above_zero_so_that_rates_are_finite():
    [seconds] = interleave([lambda: None], repeat=5)
    assert seconds.minimum > 0


def test_a_result_of_samples_has_their_median_and_keeps_the_peers_spread():
    ours, peers = Samples((3.0, 5.0, 4.0)), Samples((1.0, 2.0, 3.0))
    result = Result.of_samples("a/b", ours, "GB/s", peer="memcpy", beside=peers, extra={"n": 1})
    assert (result.value, result.minimum, result.maximum) == (4.0, 3.0, 5.0)
    assert (result.peer_value, result.ratio) == (2.0, 2.0)
    assert result.extra == {"n": 1, "peer_min": 1.0, "peer_max": 3.0}


def test_the_table_is_aligned_and_shouts_what_was_missed():
    missed = dataclasses.replace(Result(**FIELDS), name="short", goal=Goal(">=", 30))
    head, first, second = format_table([Result(**FIELDS), missed]).splitlines()
    assert head.index("unit") == first.index("GB/s") == second.index("GB/s")
    assert first.endswith(" met")
    assert second.endswith(" MISSED")
    assert format_table([]) == "no results"


def test_the_machine_is_its_processor_cores_and_memory():
    text = schema.machine_description()
    assert re.fullmatch(r"\S.* \(\S.*\), \d+ cores, \d+ GiB", text)
    assert all(name in text for name in doctor.cpu_extensions())


def test_the_commit_says_when_the_tree_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True)

    monkeypatch.setattr(schema, "__file__", str(tmp_path / "results.py"))
    describe = schema.git_commit.__wrapped__
    assert describe() == "unknown"
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    clean = describe()
    assert len(clean) == 12
    (tmp_path / "new file").touch()
    assert describe() == f"{clean}+dirty"
