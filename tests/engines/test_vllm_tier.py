"""vLLM's tiering offload with a NearKV tier: real engines, one after the other, on the CPU."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engines.environment import ROOT, Environment

# The first makes vLLM's environment.
pytestmark = pytest.mark.timeout(1200)
PROGRAM = Path(__file__).parent / "vllm_program.py"
PROMPTS = [[1, *(3 + (i * 7 + j * j) % 500 for i in range(300 + 50 * j))] for j in range(3)]
BLOCK_TOKENS = 32
# All whole blocks but for what follows them: the last token has to be computed.
CACHED = [(len(prompt) - 1) // BLOCK_TOKENS * BLOCK_TOKENS for prompt in PROMPTS]


class Engines:
    """Runs engines; each run is given the options of its tier, or None for none."""

    def __init__(self, environment: Environment, model: Path) -> None:
        self._environment = environment
        self._model = model

    def run(
        self, *tiers: dict[str, Any] | None, kills: int | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """`options` are of all engines; `kills` is a process that ends before the last works."""
        question = {
            "model": str(self._model),
            "prompts": PROMPTS,
            "kills": kills,
            "runs": [options | ({} if tier is None else offload(tier)) for tier in tiers],
        }
        return self._environment.run(PROGRAM, question, timeout_s=280)


def offload(tier: dict[str, Any]) -> dict[str, Any]:
    """The README's configuration, with less memory, and a tier of these options."""
    readme = (ROOT / "engine_integration" / "nearkv" / "vllm" / "README.md").read_text()
    config = json.loads(re.search(r"--kv-transfer-config '(.*?)'", readme, re.DOTALL)[1])
    extra = config["kv_connector_extra_config"]
    extra["cpu_bytes_to_use"] = 64 << 20
    (shown,) = extra["secondary_tiers"]
    del shown["uri"]
    shown |= tier
    return {"kv_transfer_config": config}


@pytest.fixture(scope="module")
def engines(vllm: Environment, small_llama: Path) -> Engines:
    return Engines(vllm, small_llama)


@pytest.fixture(scope="module")
def plain(engines: Engines) -> list[list[int]]:
    """The tokens without any tier."""
    [answer] = engines.run(None)
    assert answer["cached"] == [0, 0, 0]
    return answer["tokens"]


@dataclass
class Daemon:
    socket: str
    process: int


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that any engine of this user may use."""
    socket = tmp_path / "nearkv.sock"
    words = ["--pool", str(tmp_path / "pool"), "--size", "256MiB", "--socket", str(socket)]
    with subprocess.Popen([ROOT / "build/release/bin/nearkv", "serve", *words]) as process:
        end_s = time.monotonic() + 30
        while not socket.exists() and time.monotonic() < end_s:
            time.sleep(0.05)
        yield Daemon(str(socket), process.pid)
        process.terminate()


def test_a_later_engine_computes_no_block_that_an_earlier_one_stored(engines, plain, tmp_path):
    tier = {"uri": f"cpu:{tmp_path}/pool?memory=256MiB"}
    first, later = engines.run(tier, tier)
    assert first == {"tokens": plain, "cached": [0, 0, 0]}
    assert later == {"tokens": plain, "cached": CACHED}
    # And in another process.
    assert engines.run(tier) == [later]


def test_engines_share_a_daemon_but_not_across_salts(engines, plain, daemon):
    mine, others = ({"socket": daemon.socket, "salt": salt} for salt in ("mine", "others"))
    answers = engines.run(mine, others, mine)
    assert [answer["tokens"] for answer in answers] == [plain] * 3
    assert [answer["cached"] for answer in answers] == [[0, 0, 0], [0, 0, 0], CACHED]


def test_an_engine_works_on_without_its_daemon(engines, plain, daemon):
    tier = {"socket": daemon.socket}
    first, later = engines.run(tier, tier, kills=daemon.process)
    assert first["tokens"] == plain
    assert later == {"tokens": plain, "cached": [0, 0, 0]}


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
    # Too small a store for all of it.
    tier = {"uri": f"cpu:{tmp_path}/pool?memory=4MiB", "enable_kv_events": True}
    publisher = {"publisher": "zmq", "endpoint": f"ipc://{tmp_path}/events"}
    [answer] = engines.run(tier, kv_events_config={"enable_kv_cache_events": True, **publisher})
    assert answer.get("tokens") == plain, answer

    def hashes(kind: str) -> list[str]:
        told = answer["events"]
        ours = [event for event in told if (event["type"], event["medium"]) == (kind, "STORAGE")]
        return [block for event in ours for block in event["hashes"]]

    stored, removed = hashes("BlockStored"), hashes("BlockRemoved")
    assert len(set(stored)) == sum(CACHED) // BLOCK_TOKENS
    assert removed
    assert set(removed) < set(stored)


def damage(pool: Path) -> int:
    """Flips a bit in every 64 KiB of keys and values, which are the pool's only dense bytes."""
    grain = 65536
    count = 0
    with pool.open("r+b") as file:
        for at in range(0, pool.stat().st_size, grain):
            file.seek(at)
            block = file.read(grain)
            if block.count(0) < grain // 10:
                file.seek(at + grain // 2)
                file.write(bytes([block[grain // 2] ^ 1]))
                count += 1
    return count


WRONG = (
    ({}, "needs a uri or the socket of a daemon"),
    ({"url": "cpu:"}, "no option 'url'; is uri meant?"),
    ({"uri": "cpu:", "socket": "x"}, "and not both"),
    ({"uri": "cpu:", "locality": "HERE"}, "LOCAL or REMOTE"),
    ({"socket": "/nonexistent/nearkv.sock"}, "/nonexistent/nearkv.sock"),
    ({"uri": "tape:"}, "tape"),
)


@pytest.fixture(scope="module")
def refusals(engines: Engines) -> list[str]:
    """What engines say of each wrong tier: all in one process, for each takes seconds."""
    return [answer.get("error", "") for answer in engines.run(*(tier for tier, _ in WRONG))]


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[said for _, said in WRONG])
def test_a_wrong_configuration_is_refused_with_what_is_wrong(refusals, number):
    _, said = WRONG[number]
    assert said in refusals[number]
