"""The bench of simulated clusters: published claims are complete, and their files are read."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nearkv.results import read_results

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
    subprocess.run(
        [sys.executable, "-m", "bench", "traces", "--tiny", "--json", str(file)], check=True
    )
    results = {result.name: result for result in read_results(file).results}
    claimed = {f"traces/published/{name}" for name in CLAIMS}
    of_a_trace = {"traces/published/mooncake", "traces/published/mooncake_split"}
    assert claimed - results.keys() == of_a_trace
    assert results["traces/speed/chat"].value > 0
    assert results["traces/near/decode"].ratio > 1
