"""vLLM's scheduler with NearKV's policies, on the CPU: beside vLLM's own, in real engines."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
from bench.engines.environment import ROOT, Environment
from nearkv.vllm.scheduler_options import SchedulerOptions

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)
PROGRAM = Path(__file__).parent / "vllm_scheduler_program.py"
README = ROOT / "engine_integration" / "nearkv" / "vllm" / "README.md"
BLOCK = 32


def shown() -> dict[str, Any]:
    """What the README says."""
    line = r"--scheduler-cls (\S+) --additional-config '(.*?)'"
    [(scheduler, config)] = re.findall(line, README.read_text(), re.DOTALL)
    return {"scheduler_cls": scheduler, "additional_config": json.loads(config)}


def ours(policy: str, **settings: Any) -> dict[str, Any]:
    config = {"nearkv_scheduler": {"policy": policy} | settings}
    return shown() | {"additional_config": config}


def prompt(length: int, seed: int) -> list[int]:
    return [1, *(3 + (i * 7 + seed * (j := i + 1) * j) % 500 for i in range(length - 1))]


def ask(tokens: list[int], most: int = 4, **extra: Any) -> dict[str, Any]:
    return {"tokens": tokens, "most": most, "extra": extra or None}


@pytest.fixture(scope="module")
def run(vllm: Environment, small_llama: Path):
    """What engines answer, one after the other."""

    def ask_all(*runs: dict[str, Any]) -> list[dict[str, Any]]:
        return vllm.run(PROGRAM, {"model": str(small_llama), "runs": list(runs)}, timeout_s=900)

    return ask_all


# One request at a time, so that the order of starts is the order of first tokens.
ALONE = {"max_num_seqs": 1}
PREFIX = prompt(4 * BLOCK, 9)
LOADS = {
    "known": {
        "warm": [PREFIX],
        "asks": [ask(prompt(70, 1)), ask(PREFIX + prompt(20, 2)[1:]), ask(prompt(50, 3))],
    },
    "tenants": {
        "asks": [ask(prompt(60, seed), 40, nearkv_tenant="flood") for seed in range(3)]
        + [ask(prompt(60, 5), 5, nearkv_tenant="other")]
    },
    "classes": {"asks": [ask(prompt(40, 1)), ask(prompt(40, 2), nearkv_class=1)]},
    "samples": {"asks": [ask(prompt(40, seed)) for seed in (6, 6, 7, 7)]},
}


@pytest.fixture(scope="module")
def plain(run) -> dict[str, dict[str, Any]]:
    """What vLLM's own scheduler does with each load."""
    [answer] = run({"options": ALONE, "loads": list(LOADS.values())})
    assert answer["scheduler"] in ("Scheduler", "AsyncScheduler")
    told = dict(zip(LOADS, answer["loads"], strict=True))
    # Its order is that of arrival, and nobody makes room.
    assert all(load["order"] == sorted(load["order"]) for load in told.values())
    assert not any(load["preempted"] for load in told.values())
    return told


def serve(run, load: str, policy: str, **settings: Any) -> dict[str, Any]:
    [answer] = run({"options": ALONE | ours(policy, **settings), "loads": [LOADS[load]]})
    assert "error" not in answer, answer
    assert answer["scheduler"].endswith("NearKVScheduler")
    return answer["loads"][0]


def test_the_readmes_policy_starts_whom_the_cache_knows_and_changes_no_token(run, plain) -> None:
    config = shown()["additional_config"]["nearkv_scheduler"]
    served = serve(run, "known", **config)
    assert served["order"] == [1, 0, 2]
    assert served["cached"][1] >= 4 * BLOCK and served["left"] == 0
    assert served["tokens"] == plain["known"]["tokens"]


def test_a_tenant_that_floods_makes_room_for_one_that_had_less(run, plain) -> None:
    served = serve(run, "tenants", "fair_share", quantum_tokens=50, least_run_s=0)
    assert served["order"] == [0, 3, 1, 2] and served["preempted"] > 0
    assert served["tokens"] == plain["tenants"]["tokens"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("load", "policy", "settings", "order"),
    [
        ("known", "sarathi", {}, [0, 1, 2]),
        ("known", "cache_aware", {}, [0, 1, 2]),
        ("classes", "slo", {"ttft_s": [900, 300]}, [1, 0]),
        # A first sample of each prompt, then the others.
        ("samples", "rollout", {}, [0, 2, 1, 3]),
    ],
)
def test_the_other_policies_order_starts(run, plain, load, policy, settings, order) -> None:
    served = serve(run, load, policy, **settings)
    assert served["order"] == order
    assert served["tokens"] == plain[load]["tokens"] and served["left"] == 0


@pytest.mark.long
def test_who_gives_way_is_the_policys_choice(run) -> None:
    """Blocks run out while a tenant runs that had much, and one that came last and had little."""
    asks = [ask(prompt(150, seed), 90, nearkv_tenant="much") for seed in (1, 2)]
    asks.append(ask(prompt(20, 3), 90, nearkv_tenant="little"))
    few = {"num_gpu_blocks_override": 16, "max_model_len": 480, "enable_prefix_caching": False}
    fair = ours("fair_share", quantum_tokens=1e9)
    answers = run(*({"options": few | more, "loads": [{"asks": asks}]} for more in ({}, fair)))
    [last], [chosen] = (answer["loads"] for answer in answers)
    # vLLM stops who came last.
    assert 2 in last["stopped"]
    assert chosen["stopped"] and 2 not in chosen["stopped"]
    assert chosen["tokens"] == last["tokens"]


WRONG = {
    "a policy that is none": ({"policy": "fifo"}, "no policy 'fifo'; there are orca"),
    "one that needs its own steps": ({"policy": "orca"}, "take sarathi"),
    "one that needs a graph": ({"policy": "agent_steps"}, "needs a graph of agents"),
    "a setting that is none": ({"kk": 3}, "no option 'kk'; is k meant?"),
    "a setting out of range": ({"k": 0}, "at least 1"),
    "a wrong type": ({"policy": "slo", "ttft_s": [1], "window": "x"}, "of a wrong type"),
    "shares of nobody": ({"policy": "fair_share", "shares": [1]}, "shares are by tenant"),
    "no settings": ("k_lpm", "is an object"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_refused_with_a_mend(name: str) -> None:
    settings, why = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(why)):
        SchedulerOptions.parse({"nearkv_scheduler": settings}).make_advisor(16)


@pytest.mark.long
def test_an_engine_with_wrong_settings_does_not_start(run) -> None:
    priority = ours("slo") | {"scheduling_policy": "priority"}
    wrong, both = run(*({"options": o, "loads": []} for o in (ours("fifo"), priority)))
    assert "there are orca" in wrong["error"] and "leave it out" in both["error"]
