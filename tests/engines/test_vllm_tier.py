"""vLLM's tiering offload with a NearKV tier: real engines, one after the other, on the CPU."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import Environment
from bench.engines.serving import damage
from nearkv.store import ObjectStore
from tests.engines.vllm_engines import (
    CACHED,
    Engines,
    hash_in_events,
    offload,
)

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)
# The connector's tests see the same of the store that both stand on.
alike = pytest.mark.long
ALONE_PROGRAM = Path(__file__).parent / "vllm_tier_program.py"


class TierEngines(Engines):
    """Each run is given the options of its tier."""

    def run(self, *tiers: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
        """As that of Engines."""
        return super().run(*map(offload, tiers), **options)


@pytest.fixture(scope="module")
def engines(vllm: Environment, small_llama: Path) -> TierEngines:
    return TierEngines(vllm, small_llama)


@pytest.fixture(scope="module")
def plain(vllm: Environment, small_llama: Path) -> list[list[int]]:
    """The tokens without any tier."""
    [answer] = Engines(vllm, small_llama).run({})
    assert answer["cached"] == [0, 0, 0]
    return answer["tokens"]


def test_a_later_engine_computes_no_block_that_an_earlier_one_stored(engines, plain, tmp_path):
    tier = {"uri": f"cpu:{tmp_path}/pool?memory=256MiB"}
    first, later = engines.run(tier, tier)
    assert first == {"tokens": plain, "cached": [0, 0, 0]}
    assert later == {"tokens": plain, "cached": CACHED}
    # And in another process.
    assert engines.run(tier) == [later]


@alike
def test_engines_share_a_daemon_but_not_across_salts(engines, plain, daemon):
    mine, others = ({"socket": daemon.socket, "salt": salt} for salt in ("mine", "others"))
    answers = engines.run(mine, others, mine)
    assert [answer["tokens"] for answer in answers] == [plain] * 3
    assert [answer["cached"] for answer in answers] == [[0, 0, 0], [0, 0, 0], CACHED]


@alike
def test_an_engine_works_on_without_its_daemon(engines, plain, daemon):
    tier = {"socket": daemon.socket}
    first, later = engines.run(tier, tier, kills=daemon.process_id)
    assert first["tokens"] == plain
    assert later == {"tokens": plain, "cached": [0, 0, 0]}


@pytest.mark.long
def test_jobs_of_a_stopped_daemon_fail_in_time(vllm, daemon):
    question = {"do": "stopped", "socket": daemon.socket, "daemon": daemon.process_id}
    told = vllm.run(ALONE_PROGRAM, question, timeout_s=280)
    assert (told["stored"][0], told["found"]) == ([True], "HIT")
    for name in ("loaded_while_stopped", "stored_while_stopped"):
        succeeded, seconds = told[name]
        assert succeeded == [False]
        assert seconds < 30
    # Also for who is not asked: what did not load is computed, and stored anew.
    assert told["found_while_stopped"] == "MISS"
    assert (told["stored_again"][0], told["loaded_again"][0]) == ([True], [True])


def test_what_cannot_be_is_a_failed_job_and_vllm_goes_on(vllm):
    told = vllm.run(ALONE_PROGRAM, {"do": "impossible"}, timeout_s=100)
    assert (told["store_beyond"], told["load_beyond"]) == ([False], [False])
    # A chunk of another size makes way for what is stored next.
    assert told["of_another_size"] == [[False], "MISS", [True], "HIT", [True]]


def test_a_prompt_larger_than_the_store_keeps_its_beginning(vllm):
    kept = vllm.run(ALONE_PROGRAM, {"do": "long_prompt"}, timeout_s=100)
    assert 50 < sum(kept) < len(kept)
    assert all(kept[: sum(kept)])


@alike
def test_damaged_blocks_are_computed_again(engines, plain, tmp_path):
    pool = tmp_path / "pool"
    tier = {"uri": f"cpu:{pool}?memory=256MiB"}
    engines.run(tier)
    damaged = damage(pool)
    assert damaged > 0
    again, later = engines.run(tier, tier)
    assert again["tokens"] == plain
    assert sum(again["cached"]) < sum(CACHED)
    # What was computed again is stored again.
    assert later == {"tokens": plain, "cached": CACHED}


def test_events_tell_what_came_and_what_went(engines, plain, tmp_path):
    # Too small a store for two of the prompts.
    pool = f"cpu:{tmp_path}/pool?memory=2MiB"
    tier = {"uri": pool, "enable_kv_events": True}
    publisher = {"publisher": "zmq", "endpoint": f"ipc://{tmp_path}/events"}
    publishing = {"kv_events_config": {"enable_kv_cache_events": True, **publisher}}
    # The later engine begins with what is there, and then has to make room.
    _, answer = engines.run(tier, tier, **publishing)
    assert answer.get("tokens") == plain, answer

    def hashes(kind: str) -> list[str]:
        told = answer["events"]
        ours = [event for event in told if (event["type"], event["medium"]) == (kind, "STORAGE")]
        return [block for event in ours for block in event["hashes"]]

    stored, removed = Counter(hashes("BlockStored")), Counter(hashes("BlockRemoved"))
    assert removed
    with ObjectStore.open(pool) as store:
        assert stored - removed == Counter(hash_in_events(info.key) for info in store.objects())


WRONG = (
    ({"url": "cpu:"}, "no option 'url'; is uri meant?"),
    ({"uri": "cpu:", "locality": "HERE"}, "LOCAL or REMOTE"),
    ({"socket": "/nonexistent/nearkv.sock"}, "/nonexistent/nearkv.sock"),
)


@pytest.fixture(scope="module")
def refusals(engines: TierEngines) -> list[str]:
    """What engines say of each wrong tier: all in one process, for each takes seconds."""
    return [answer.get("error", "") for answer in engines.run(*(tier for tier, _ in WRONG))]


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[said for _, said in WRONG])
def test_a_wrong_configuration_is_refused_with_what_is_wrong(refusals, number):
    _, said = WRONG[number]
    assert said in refusals[number]
