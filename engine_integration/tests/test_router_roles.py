"""The proxy's steps: prefill here, decode there, and go on elsewhere when an engine dies."""

import json
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from aiohttp import web

from engine_integration.tests.router_scene import PROMPT, FakeEngine, Scene, settled
from nearkv.router.proxy.bodies import behind, can_go_on, for_prefill

TOKENS = 12
# Text that an engine holds back until it is whole: every third token has none of its own.
HELD_BACK = 3


class TokenEngine(FakeEngine):
    """Writes tokens that follow from all tokens before them, as a greedy model does.

    It dies when it has written `lives` tokens; `tells_tokens`: beside the text, as vLLM does.
    """

    def __init__(self, name: str, lives: int | None = None, *, tells_tokens: bool = True) -> None:
        super().__init__(name)
        self.lives, self.tells_tokens = lives, tells_tokens

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        if not body.get("stream"):
            return web.json_response({"id": self.name})
        stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        held, before, written = "", list(body["prompt"]), 0
        while written < body["max_tokens"]:
            if written == self.lives:
                request.transport.abort()
                return stream
            token = sum(before) * 31 % 1009
            before.append(token)
            written += 1
            held += f" {token}"
            is_last = written == body["max_tokens"]
            text, held = (held, "") if len(before) % HELD_BACK or is_last else ("", held)
            choice = {"index": 0, "text": text, "finish_reason": "length" if is_last else None}
            if self.tells_tokens and body.get("return_token_ids"):
                choice |= {"token_ids": [token]}
                choice |= {"prompt_token_ids": body["prompt"]} if written == 1 else {}
            await self._send(stream, [choice])
        if self.lives == written:
            request.transport.abort()
            return stream
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": written}
            await self._send(stream, [], usage=usage | {"total_tokens": len(before)})
        await stream.write(b"data: [DONE]\n\n")
        return stream

    async def _send(self, stream: web.StreamResponse, choices: list, **more: Any) -> None:
        event = {"id": f"cmpl-{self.name}", "created": 7, "choices": choices} | more
        await stream.write(f"data: {json.dumps(event)}\n\n".encode())


def events_of(told: bytes) -> list[dict[str, Any]]:
    events = [part.removeprefix(b"data: ") for part in told.split(b"\n\n") if part]
    return [json.loads(event) for event in events if event != b"[DONE]"]


def text_of(told: bytes) -> str:
    return "".join(
        choice["text"] for event in events_of(told) for choice in event.get("choices", ())
    )


def whole_text() -> str:
    before = list(PROMPT)
    for _ in range(TOKENS):
        before.append(sum(before) * 31 % 1009)
    return "".join(f" {token}" for token in before[len(PROMPT) :])


USUAL = {"stream": True, "max_tokens": TOKENS, "temperature": 0}


@pytest.mark.parametrize("lives", range(TOKENS + 1))
@pytest.mark.parametrize("shows_tokens", [False, True])
async def test_a_completion_goes_on_where_its_engine_died(lives: int, shows_tokens: bool) -> None:
    async with Scene([TokenEngine("a", lives), TokenEngine("b")]) as scene:
        scene.tell("a", PROMPT)
        options = USUAL | {"stream_options": {"include_usage": True}}
        options |= {"return_token_ids": True} if shows_tokens else {}
        async with scene.post(**options) as answer:
            told = await answer.read()
        assert text_of(told) == whole_text()
        assert told.endswith(b"data: [DONE]\n\n")
        events = events_of(told)
        assert {event["id"] for event in events} == {"cmpl-a" if lives else "cmpl-b"}
        usage = {"prompt_tokens": 64, "completion_tokens": TOKENS, "total_tokens": 64 + TOKENS}
        assert [event["usage"] for event in events if "usage" in event] == [usage]
        shown = [choice for event in events for choice in event["choices"]]
        assert all(("token_ids" in choice) == shows_tokens for choice in shown)
        assert [c["finish_reason"] for c in shown if c["finish_reason"]] == ["length"]
        await settled(scene)


async def test_several_engines_may_die_over_one_completion() -> None:
    async with (
        Scene([TokenEngine("a", 4), TokenEngine("b", 4), TokenEngine("c", 9)]) as scene,
        scene.post(**USUAL) as answer,
    ):
        assert text_of(await answer.read()) == whole_text()


async def test_when_nobody_is_left_the_client_is_told() -> None:
    async with Scene([TokenEngine("a", 4), TokenEngine("b", 4)]) as scene:
        async with scene.post(**USUAL) as answer:
            told = await answer.read()
        assert whole_text().startswith(text_of(told))
        assert "no engine answers" in events_of(told)[-1]["error"]["message"]
        assert not told.endswith(b"[DONE]\n\n")


async def test_without_tokens_beside_the_text_a_completion_does_not_go_on() -> None:
    async with Scene([TokenEngine("a", 4, tells_tokens=False), TokenEngine("b")]) as scene:
        scene.tell("a", PROMPT)
        async with scene.post(**USUAL) as answer:
            told = await answer.read()
        assert "send the request again" in events_of(told)[-1]["error"]["message"]
        assert not scene.engines[1].bodies


@pytest.mark.parametrize(
    "changed",
    [
        {"stream": False},
        {"n": 2},
        {"stop": ["\n"]},
        {"presence_penalty": 1.0},
        {"prompt": ["a", "b"]},
        {"seed": 1, "temperature": 1.0},
    ],
)
def test_what_depends_on_more_than_the_tokens_before_it_does_not_go_on(changed: dict) -> None:
    body = {"prompt": "a", "stream": True, "model": "m"}
    assert can_go_on("/v1/completions", body)
    assert not can_go_on("/v1/completions", body | changed)
    assert not can_go_on("/v1/chat/completions", body)


def test_the_rest_is_asked_for_behind_what_was_written() -> None:
    body = {"prompt": "ab", "max_tokens": 10}
    assert behind(body, [1, 2], [3]) == {"prompt": [1, 2, 3], "max_tokens": 9}
    assert behind({"prompt": "ab"}, [1, 2], [3])["max_tokens"] == 15


def test_a_prompt_is_prefilled_for_one_token() -> None:
    body = {"messages": [], "stream": True, "stream_options": {}, "max_completion_tokens": 9}
    assert for_prefill(body) == {"messages": [], "max_completion_tokens": 1}
    assert for_prefill({"prompt": "a", "n": 2, "stop": "b"}) == {
        "prompt": "a",
        "stop": "b",
        "max_tokens": 1,
    }


ROLES = {"p": "prefill", "q": "prefill", "d": "decode"}


def roles_scene(**options: Any) -> Scene:
    engines = [TokenEngine(name) for name in ROLES]
    return Scene(engines, roles=ROLES, prefill_from_tokens=8, **options)


async def test_a_prompt_is_prefilled_by_one_and_decoded_by_another() -> None:
    async with roles_scene() as scene:
        scene.tell("q", PROMPT)
        async with scene.post(**USUAL) as answer:
            assert answer.headers["x-nearkv-worker"] == "d"
            assert text_of(await answer.read()) == whole_text()
        p, q, d = (engine.bodies for engine in scene.engines)
        assert not p
        assert [(body["max_tokens"], "stream" in body) for body in q] == [(1, False)]
        assert [body["max_tokens"] for body in d] == [TOKENS]
        await settled(scene)


async def test_what_the_decoding_engine_has_is_not_prefilled() -> None:
    async with roles_scene() as scene:
        scene.tell("d", PROMPT)
        async with scene.post(**USUAL) as answer:
            assert text_of(await answer.read()) == whole_text()
        assert [len(engine.bodies) for engine in scene.engines] == [0, 0, 1]


async def test_without_anybody_who_prefills_the_decoding_engine_does_it() -> None:
    async with roles_scene() as scene:
        for engine in scene.engines[:2]:
            await engine.server.close()
        async with scene.post(**USUAL) as answer:
            assert text_of(await answer.read()) == whole_text()
        async with scene.client.get("/health") as answer:
            assert answer.status == 200
            told = (await answer.json())["workers"]
        assert [told[name]["up"] for name in ROLES] == [False, False, True]


async def test_without_anybody_who_decodes_the_client_is_told() -> None:
    async with roles_scene() as scene:
        await scene.engines[2].server.close()
        async with scene.post(**USUAL) as answer:
            assert answer.status == 503
            assert "no engine answers" in (await answer.json())["error"]["message"]
        async with scene.client.get("/health") as answer:
            assert answer.status == 503
