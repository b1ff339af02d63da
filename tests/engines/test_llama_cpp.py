"""States of llama.cpp's sequences in a store: a real llama.cpp."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import ROOT, Environment
from bench.engines.serving import damage

# The first builds llama.cpp.
pytestmark = pytest.mark.timeout(1200)
PROGRAM = Path(__file__).parent / "llama_cpp_program.py"
README = ROOT / "engine_integration" / "nearkv" / "llama_cpp" / "README.md"
BLOCK_TOKENS = 64
TOKEN_BYTES = 3 * 2 * 2 * 128 * 2  # Layers, K and V, heads, elements, f16.
PREFIX = [3 + (i * 7) % 500 for i in range(400)]
# Two that begin alike, one that does not.
PROMPTS = [PREFIX + [5] * 50, PREFIX + [9] * 60, [11] * 80]


class LlamaCpp:
    """Runs the program, a list of requests in one process."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self._environment = environment
        self.folder = folder
        self.model = str(folder / "model.gguf")

    def run(self, *asked: dict[str, Any]) -> list[Any]:
        requests = [
            request if request["do"] == "write_model" else {"model": self.model} | request
            for request in asked
        ]
        return self._environment.run(PROGRAM, requests, timeout_s=200)

    def shell(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [self._environment.python, *words],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=200,
            env=os.environ | self._environment.variables,
        )
        assert done.returncode == code, done.stdout + done.stderr[-8000:]
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def engine(llama_cpp: Environment, tmp_path_factory: pytest.TempPathFactory) -> LlamaCpp:
    made = LlamaCpp(llama_cpp, tmp_path_factory.mktemp("llama_cpp"))
    assert made.run({"do": "write_model", "target": made.model}) == [None]
    return made


@pytest.fixture(scope="module")
def plain(engine: LlamaCpp) -> list[str]:
    """What is written without any cache."""
    [answer] = engine.run({"do": "complete", "prompts": PROMPTS})
    # The prefix that two of them share was computed for each.
    assert answer["cached"] == [0, 0, 0]
    return answer["texts"]


def complete(cache: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"do": "complete", "prompts": PROMPTS, "cache": cache} | more


def pool(folder: Path, name: str = "pool") -> dict[str, Any]:
    return {"uri": f"cpu:{folder}/{name}?memory=64MiB"}


WHOLE = [len(prompt) // BLOCK_TOKENS * BLOCK_TOKENS for prompt in PROMPTS]
SHARED = len(PREFIX) // BLOCK_TOKENS * BLOCK_TOKENS
FIRST_TIME = [0, SHARED, 0]


CACHES = {
    "f16": {"flash_attn_type": 0},
    "f32, cells in any order": {
        "flash_attn_type": 0,
        "type_k": 0,
        "type_v": 0,
        "kv_unified": True,
    },
    "q8_0, flash attention": {"flash_attn_type": 1, "type_k": 8, "type_v": 8},
}


def test_a_state_is_restored_to_the_bit(engine, tmp_path):
    asked = [
        {
            "do": "restore",
            "params": params,
            "settings": pool(tmp_path, f"pool{i}"),
            "scattered": "any order" in name,
        }
        for i, (name, params) in enumerate(CACHES.items())
    ]
    for name, answer in zip(CACHES, engine.run(*asked), strict=True):
        assert (answer["saved"], answer["restored"], answer["missed"]) == (300, 300, 0), answer
        assert answer["is_same"]
        # Elsewhere in a cache, cells are summed in another order.
        assert answer["error"] == 0 or ("any order" in name and answer["error"] < 0.1)
        print(
            f"{name}: 300 tokens, {answer['stored_bytes']} bytes, prefill "
            f"{answer['prefill_ms']:.1f} ms, restore {answer['restore_ms']:.2f} ms, "
            f"largest error of a logit {answer['error']:g} of {answer['scale']:.1f}"
        )


def test_a_new_process_starts_where_the_last_ended(engine, plain, tmp_path):
    first, size = engine.run(complete(pool(tmp_path)), {"do": "stored", "cache": pool(tmp_path)})
    assert first == {"texts": plain, "cached": FIRST_TIME}
    # What two prompts share is stored once; what was written, but for the last token, is too.
    tokens = sum(len(prompt) + 7 for prompt in PROMPTS) - SHARED
    assert size == tokens * TOKEN_BYTES
    print(f"{tokens} of {tokens + SHARED} tokens are stored: {size} bytes")
    [later] = engine.run(complete(pool(tmp_path), options={"n_ctx": 1024, "n_batch": 128}))
    assert later == {"texts": plain, "cached": WHOLE}


def test_a_conversation_goes_on_from_its_last_token(engine, tmp_path):
    turns = [PREFIX[:100], PREFIX[:100] + [7] * 30]
    [ended] = engine.run({"do": "converse", "cache": pool(tmp_path), "prompt": turns[0]})
    assert ended == {"before": 100 + 7, "cached": 100 + 7}


def test_the_same_tokens_after_others_are_another_state(engine, tmp_path):
    halves = PREFIX[:BLOCK_TOKENS], PREFIX[100 : 100 + BLOCK_TOKENS]
    prompts = [[*halves[0], *halves[1]], [*halves[1], *halves[0]], [*halves[0], *halves[0]]]
    [answer] = engine.run(complete(pool(tmp_path), prompts=prompts))
    assert [cached >= BLOCK_TOKENS for cached in answer["cached"]] == [False, False, True]


def test_others_never_find_a_state(engine, plain, tmp_path):
    another = str(engine.folder / "another.gguf")
    engine.run({"do": "write_model", "target": another, "seed": 1})
    others: list[dict[str, Any]] = [
        {"cache": {"salt": "other"}},
        {"cache": {"tenant": 2}},
        {"cache": {"variant": "a control vector"}},
        {"options": {"type_k": 0}},
        {"options": {"flash_attn": True}},
        {"options": {"rope_freq_base": 1e9}},
        {"model": another},
    ]
    asked = [
        complete(
            pool(tmp_path) | other.get("cache", {}),
            **{k: v for k, v in other.items() if k != "cache"},
        )
        for other in others
    ]
    mine = complete(pool(tmp_path))
    first, *answers, last = engine.run(mine, *asked, mine)
    assert first["texts"] == last["texts"] == plain
    assert [answer.get("cached") for answer in answers] == [FIRST_TIME] * len(others), answers
    assert last["cached"] == WHOLE


def test_a_daemon_is_shared_and_may_die(engine, plain, daemon):
    cache = {"socket": daemon.socket}
    assert engine.run(complete(cache), complete(cache)) == [
        {"texts": plain, "cached": FIRST_TIME},
        {"texts": plain, "cached": WHOLE},
    ]
    [killed] = engine.run(complete(cache, kills=daemon.process_id))
    assert killed == {"texts": plain, "cached": [WHOLE[0], 0, 0]}
    [without] = engine.run(complete(cache))
    assert daemon.socket in without["error"]


def test_damaged_states_are_computed_again(engine, plain, tmp_path):
    engine.run(complete(pool(tmp_path)))
    assert damage(tmp_path / "pool") > 0
    again, later = engine.run(complete(pool(tmp_path)), complete(pool(tmp_path)))
    assert again["texts"] == plain
    assert sum(again["cached"]) < sum(WHOLE)
    # What was computed again is stored again.
    assert later == {"texts": plain, "cached": WHOLE}


def test_what_cannot_be_kept_is_refused_with_why(engine, tmp_path):
    windowed = str(tmp_path / "windowed.gguf")
    store = pool(tmp_path)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"model": windowed}, "sliding windows"),
        ({"options": {"logits_all": True}}, "scores"),
        ({"settings": {"url": "cpu:"}}, "no option 'url'; is uri meant?"),
        ({"settings": store | {"block_tokens": 10**6}}, "block_tokens is between 1 and"),
    ]
    requests = [{"do": "refuse", "options": {}, "settings": store} | asked for asked, _ in wrong]
    _, *answers = engine.run(
        {"do": "write_model", "target": windowed, "has_windows": True}, *requests
    )
    for answer, (_, said) in zip(answers, wrong, strict=True):
        assert said in (answer or {}).get("error", "")


def test_bytes_that_are_no_state_are_never_taken_for_one(engine):
    [outcomes] = engine.run({"do": "mutate_states"})
    assert outcomes["cut"] == outcomes["lengthened"] == "UnknownState"
    assert outcomes["other"] == []


def test_another_version_is_refused(engine):
    program = "import llama_cpp; llama_cpp.__version__ = '0.3.35'; import nearkv.llama_cpp.compat"
    assert "needs llama_cpp 0.3.36" in engine.shell("-c", program, code=1)


def test_the_readme_is_true(engine, daemon):
    """But for the conversion, which is llama.cpp's own."""
    command, cached, sequences = re.findall(r"```\w+\n(.*?)```", README.read_text(), re.DOTALL)
    file = command.split("--outfile ")[1].strip()
    for code in (cached, cached + sequences):
        code = code.replace("/run/nearkv/nearkv.sock", daemon.socket)
        code = code.replace(file, engine.model)
        assert engine.shell("-c", code).strip()
