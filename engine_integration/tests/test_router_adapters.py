"""What a block's hash covers beside tokens: adapters, salts, images; known, told on, or left."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")
pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")

from nearkv.kv_events import BlockChanges, KnownTokens, KVEventPublisher
from nearkv.kv_events.latest import Latest
from nearkv.kv_events.wire import decode_batch, encode_batch, encode_event
from nearkv.router import prompts
from nearkv.router.config import config_of
from nearkv.router.engines import Engines
from nearkv.router.hashes import VllmHashes

pytestmark = pytest.mark.quick
PROMPT = list(range(16))
SCHEME = VllmHashes()
PLAIN = SCHEME.digests(PROMPT, 4)
OF_ADAPTER = [bytes([number]) * 32 for number in range(1, 5)]
"""As only the engine can make them: the path of the adapter is in no event."""
IMAGE = ["digest of an image", 2]


def engines(**options: Any) -> Engines:
    workers = [{"name": name, "url": f"http://{name}"} for name in ("a", "b")]
    return Engines(config_of({"worker": workers, "block_tokens": 4} | options), None)


def stored(hashes: list[bytes], extra: Any = None, form: str = "map", **fields: Any) -> Any:
    told = {"token_ids": PROMPT, "block_size": 4, "medium": "GPU"}
    told |= {"extra_keys": extra or [None] * 4}
    return encode_event("BlockStored", form, block_hashes=hashes, **(told | fields))


def adapters(name: str = "sql", salt: str = "", **fields: Any) -> Any:
    extra = [[name], [name], [name], [name]]
    if salt:
        extra[0].append(salt)
    return stored(OF_ADAPTER, extra, lora_id=1, lora_name=name, **fields)


def tell(to: Engines, worker: str, *events: Any) -> None:
    to.router.apply(worker, decode_batch(encode_batch(events)))


async def cached(of: Engines, **body: Any) -> list[int]:
    """How many blocks a and b have of a request's prompt."""
    prompt = await of.prompt(json.dumps({"prompt": PROMPT} | body).encode())
    return list(of.router.cached_blocks(prompt.hashes).values())


@pytest.mark.parametrize("form", ["map", "array"])
async def test_an_adapters_request_finds_its_own_blocks_and_no_others(form: str) -> None:
    scene = engines()
    tell(scene, "a", adapters(form=form))
    tell(scene, "b", stored(PLAIN, form=form))
    assert await cached(scene, model="sql") == [4, 0]
    assert await cached(scene, model="llama") == [0, 4]
    assert await cached(scene, model="sql", cache_salt="s") == [0, 0]
    assert await cached(scene, model="sql", prompt=[*PROMPT[:8], *PROMPT[:8]]) == [2, 0]


@pytest.mark.parametrize(
    "body", [{"model": "llama:sql"}, {"model": "llama", "lora_path": "sql"}, {"lora_path": ["sql"]}]
)
async def test_sglangs_ways_to_name_an_adapter_are_understood(body: dict[str, Any]) -> None:
    scene = engines()
    sglangs = adapters() | {"lora_id": None, "extra_keys": None}
    tell(scene, "a", sglangs, stored(PLAIN))
    assert await cached(scene, **body) == [4, 0]
    assert await cached(scene, model="llama:other") == [4, 0], "no adapter of that name is known"
    assert await cached(scene, lora_path="other") == [0, 0]
    assert await cached(scene, model="llama", extra_key="tenant") == [0, 0]


async def test_with_the_base_models_names_an_adapter_is_known_before_it_is_told_of() -> None:
    scene = engines(models="llama, org/llama:latest")
    tell(scene, "a", stored(PLAIN))
    assert await cached(scene, model="llama") == [4, 0]
    assert await cached(scene, model="org/llama:latest") == [4, 0]
    assert await cached(scene, model="sql") == [0, 0]
    assert await cached(scene, model="llama:sql") == [0, 0]


async def test_an_adapters_later_blocks_hang_on_those_before_them() -> None:
    scene = engines()
    first = adapters(token_ids=PROMPT[:8]) | {"block_hashes": OF_ADAPTER[:2]}
    then = adapters(token_ids=PROMPT[8:], parent_block_hash=OF_ADAPTER[1])
    then |= {"block_hashes": OF_ADAPTER[2:], "extra_keys": [["sql"], ["sql"]]}
    tell(scene, "a", first | {"extra_keys": [["sql", "s"], ["sql"]]}, then)
    assert await cached(scene, model="sql", cache_salt="s") == [4, 0]
    assert await cached(scene, model="sql") == [0, 0]


def test_of_what_was_told_the_last_is_kept() -> None:
    latest: Latest[str, int] = Latest(2)
    for number, name in enumerate("abac"):
        latest.put(name, number)
    assert [latest.get(name) for name in "abc"] == [2, None, 3]


@pytest.mark.parametrize(
    "event",
    [
        stored(OF_ADAPTER, [None, [IMAGE], None, None]),
        stored(OF_ADAPTER, [[IMAGE, "salt"], None, None, None]),
        stored(OF_ADAPTER, [[b"digest of embeddings"], None, None, None]),
        stored(OF_ADAPTER, [["sql"], ["sql", IMAGE], ["sql"], ["sql"]], lora_name="sql"),
        stored(OF_ADAPTER, lora_id=1),
        stored(OF_ADAPTER, extra_keys=None, medium="CPU", lora_id=1, lora_name="sql"),
    ],
)
async def test_what_only_the_engine_can_hash_is_matched_by_nobody_and_no_mismatch(
    event: Any,
) -> None:
    scene = engines()
    tell(scene, "a", event)
    for body in ({}, {"cache_salt": "salt"}, {"model": "sql"}):
        assert await cached(scene, **body) == [0, 0]
    tell(scene, "a", stored(PLAIN))
    assert await cached(scene) == [4, 0]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}], "prompt": None},
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}], "prompt": None},
        {"prompt_embeds": "AAAA"},
    ],
)
async def test_prompts_of_unknown_hashes_are_routed_by_load_and_counted(
    body: dict[str, Any],
) -> None:
    scene = engines()
    tell(scene, "a", stored(PLAIN))
    text = {"prompt": PROMPT} | body
    if text["prompt"] is None:
        del text["prompt"]
    prompt = await scene.prompt(json.dumps(text).encode())
    assert (len(prompt.hashes), prompt.waits) == (0, True)
    with scene.start(prompt, ["a", "b"]) as placed:
        assert scene.router.load(placed.worker).requests == 1
    assert b"nearkv_router_unmatched_prompts_total 1.0" in scene.metrics.page()
    seen = await scene.prompt(json.dumps({"prompt": PROMPT}).encode())
    scene.start(seen, ["a", "b"]).finish()
    assert b"nearkv_router_unmatched_prompts_total 1.0" in scene.metrics.page()


def test_why_prompts_are_routed_by_load_is_said_once_and_not_as_often_as_clients_like(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "_TOLD", set())
    tokenizer = SimpleNamespace(get_chat_template=lambda *_: "", apply_chat_template=None)

    def ask(kind: str, known: Any = tokenizer) -> None:
        message = {"role": "user", "content": [{"type": kind}]}
        assert isinstance(prompts.tokens_of({"messages": [message]}, known), int)

    for _ in range(9):
        ask("image_url")
        ask("image_url", None)
    first, second = caplog.messages
    assert "image_url is not a text" in first
    assert "names no tokenizer" in second
    for number in range(999):
        ask("?\x1b" * 999 + str(number))
    assert len(caplog.messages) < 99
    assert max(map(len, caplog.messages)) < 400
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize("form", ["map", "array"])
@pytest.mark.parametrize(
    "event",
    [
        stored(SCHEME.digests(PROMPT, 4, salt="s"), [["s"], None, None, None]),
        adapters(salt="s"),
        stored(OF_ADAPTER, [[IMAGE], None, None, None]),
        stored(OF_ADAPTER, extra_keys=None, cache_salt="s"),
    ],
)
def test_a_pools_publisher_tells_on_all_that_a_hash_covers(event: Any, form: str) -> None:
    known = KnownTokens()
    known.learn(encode_batch([event]))
    sent: list[Any] = []
    publisher = KVEventPublisher("inproc://events", lambda: [], known=known, form=form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "nearkv.kv_events.publisher.encode_batch", lambda told: sent.extend(told) or b""
        )
        publisher.tell(BlockChanges(stored=event["block_hashes"]))
    publisher.close()
    [(_, before)] = decode_batch(encode_batch([event]))
    told = [fields for _, fields in decode_batch(encode_batch(sent))]
    for place, fields in enumerate(told):
        assert fields["token_ids"] == PROMPT[4 * place : 4 * place + 4]
        assert fields["adapter"] == before["adapter"]
        assert fields["extra_keys"] == [(before["extra_keys"] or [None] * 4)[place]]
        assert fields["is_told"]
    assert told[0]["salt"] == before["salt"]
    scene = engines()
    tell(scene, "a", *sent, stored(PLAIN))
    assert scene.router.cached_blocks(scene.router.block_hashes(PROMPT))["a"] == 4
