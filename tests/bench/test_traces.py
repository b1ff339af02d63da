"""The bench of simulated clusters: published claims are complete, and their files are read."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bench import Context
from bench.programs import Programs
from bench.result_file import read_results

FOLDER = Path(__file__).parents[2] / "bench" / "traces"
CLAIMS = tomllib.loads((FOLDER / "published" / "claims.toml").read_text(encoding="utf-8"))


@pytest.mark.quick
@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_says_what_is_assumed_and_why_we_differ(name: str) -> None:
    claim = CLAIMS[name]
    words = {"claim", "published", "unit", "figure", "peer", "system", "assumed", "why"}
    assert words <= claim.keys() <= words | {"options"}
    assert claim["figure"] in {"ttft_change", "decode_ratio", "decode_change", "capacity_change"}
    for side in ("peer", "system"):
        assert (FOLDER / "published" / f"{claim[side]}.toml").is_file()


@pytest.mark.quick
def test_every_system_of_the_issue_has_a_claim() -> None:
    assert {"beluga", "trace", "png_kv", "longsight", "mooncake", "sac"} <= CLAIMS.keys()


@pytest.mark.quick
@pytest.mark.parametrize("name", sorted({CLAIMS[name]["peer"] for name in CLAIMS}))
def test_both_sides_serve_the_same_model_to_the_same_users(name: str) -> None:
    claim = next(claim for claim in CLAIMS.values() if claim["peer"] == name)
    peer, system = (
        tomllib.loads((FOLDER / "published" / f"{claim[side]}.toml").read_text(encoding="utf-8"))
        for side in ("peer", "system")
    )
    assert peer["model"] == system["model"]
    assert peer.get("gpu") == system.get("gpu")
    # How many users a system holds at once may be just what it gains.
    sizes = {"requests", "users"}
    assert {key: value for key, value in peer["workload"].items() if key not in sizes} == {
        key: value for key, value in system["workload"].items() if key not in sizes
    }


@pytest.mark.default
def test_the_bench_runs_to_its_end(tmp_path: Path) -> None:
    pytest.importorskip("nearkv.core", exc_type=ImportError)
    file = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "traces", "--tiny", "--json", str(file)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    results = {result.name: result for result in read_results(file).results}
    claimed = {f"traces/published/{name}" for name in CLAIMS}
    of_a_trace = {name for name in CLAIMS if CLAIMS[name]["figure"] == "capacity_change"}
    assert claimed - results.keys() == {f"traces/published/{name}" for name in of_a_trace}
    for missing in ("replay", *of_a_trace):
        assert f"not measured: traces: {missing}, which needs " in done.stdout
    assert results["traces/speed/chat"].value > 0
    assert results["traces/near/decode"].ratio > 1
    assert results["traces/plan/chat/apart"].value > 0
    curve = results["traces/rate/policy/sarathi/ttft_p99"].extra["curve"]
    assert len(curve["x"]) == len(curve["y"])


def _plan(*words: str | Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("nearkv.core", exc_type=ImportError)
    program = Programs(Context()).path("plan")
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=60)


@pytest.mark.default
def test_a_plan_is_printed_and_written_with_both_kinds_of_layouts(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    words = ("--gpus", "2", "--requests", "100", "--json", file)
    done = _plan(FOLDER / "clusters" / "plan.toml", *words)
    assert done.returncode == 0, done.stderr
    plan = json.loads(file.read_text(encoding="utf-8"))["results"]
    assert sorted(one["total_gpus"] for one in plan["layouts"]) == [1, 2, 2, 2]
    goodput = [one["goodput_per_s_and_gpu"] for one in plan["layouts"]]
    assert goodput == sorted(goodput, reverse=True)
    assert plan["best"] == plan["layouts"][0]
    assert plan["best_apart"]["prefill_replicas"] == 1
    assert plan["best_together"]["prefill_replicas"] == 0
    for line in ("best of replicas that do both:", "best with prefill apart:", "plan: "):
        assert line in done.stdout


@pytest.mark.default
@pytest.mark.parametrize(
    ("cluster", "words", "said"),
    [
        ("plan", ("--ttft", "0.001"), "no layout keeps the promised TTFT of 0.001 s"),
        ("plan", ("--share", "2"), "the share of requests"),
        ("pool", ("--requests", "10"), "--trace FILE"),
        ("rollout", (), "has no rate that could be raised"),
        ("nowhere", (), "cannot read"),
    ],
)
def test_what_cannot_be_planned_says_why(cluster: str, words: tuple[str, ...], said: str) -> None:
    short = ("--gpus", "1", "--requests", "50") if cluster == "plan" else ()
    done = _plan(FOLDER / "clusters" / f"{cluster}.toml", *short, *words)
    assert done.returncode == 2
    assert said in done.stderr
