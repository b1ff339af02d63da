"""What the endpoint picker answers Envoy, in every order that the protocol has."""

import json
from collections.abc import Awaitable, Callable

import pytest

pytest.importorskip("envoy.service.ext_proc.v3.external_processor_pb2_grpc")

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from engine_integration.tests.envoy_calls import (
    AT,
    BODY,
    BUFFERED,
    DUPLEX,
    NONE,
    PARTIAL,
    PROMPT,
    STREAMED,
    Call,
    PickerScene,
    destination_of,
    header_of,
    picked,
    refusal_of,
)

pytestmark = pytest.mark.usefixtures("one_loop")


async def test_a_full_duplex_request_goes_where_its_prompt_is_and_its_body_as_it_came() -> None:
    async with PickerScene() as scene:
        scene.tell("b", PROMPT)
        call = scene.call(request=DUPLEX)
        await call.request_headers()
        await call.request_body(BODY[:50], is_last=False)
        await call.request_body(BODY[50:])
        head = await call.answer()
        assert destination_of(head) == f"{AT['b']},{AT['a']}"
        assert scene.loads() == [0, 1]
        pieces = [(await call.answer()).request_body.response.body_mutation for _ in range(2)]
        streamed = [piece.streamed_response for piece in pieces]
        assert [(each.body, each.end_of_stream) for each in streamed] == [
            (BODY[:50], False),
            (BODY[50:], True),
        ]


async def test_trailers_end_a_full_duplex_body_too() -> None:
    async with PickerScene() as scene:
        scene.tell("b", PROMPT)
        call = scene.call(request=DUPLEX)
        await call.request_headers()
        await call.request_body(BODY, is_last=False)
        await call.send(request_trailers=pb.HttpTrailers())
        assert destination_of(await call.answer()).startswith(AT["b"])
        body = (await call.answer()).request_body.response.body_mutation.streamed_response
        assert (body.body, body.end_of_stream) == (BODY, False)
        assert (await call.answer()).WhichOneof("response") == "request_trailers"


@pytest.mark.parametrize("with_trailers", [False, True])
async def test_a_buffered_request_is_answered_at_its_headers_and_picked_at_its_body(
    with_trailers: bool,
) -> None:
    async with PickerScene() as scene:
        scene.tell("b", PROMPT)
        call = scene.call(request=BUFFERED)
        await call.request_headers()
        head = await call.answer()
        assert head.WhichOneof("response") == "request_headers"
        assert not head.request_headers.response.header_mutation.set_headers
        await call.request_body(BODY, is_last=not with_trailers)
        answer = await call.answer()
        assert destination_of(answer, "request_body").startswith(AT["b"])
        assert not answer.request_body.response.HasField("body_mutation")
        if with_trailers:
            await call.send(request_trailers=pb.HttpTrailers())
            assert (await call.answer()).WhichOneof("response") == "request_trailers"


async def test_a_part_of_a_body_is_picked_for_by_load() -> None:
    async with PickerScene() as scene:
        scene.tell("b", PROMPT)
        call = scene.call(request=PARTIAL)
        await call.request_headers()
        await call.answer()
        await call.request_body(BODY[:100], is_last=False)
        assert destination_of(await call.answer(), "request_body")


@pytest.mark.parametrize("mode", [NONE, STREAMED])
async def test_without_the_body_load_alone_decides(mode: int) -> None:
    async with PickerScene(policy="least_load") as scene:
        first, second = scene.call(request=mode), scene.call(request=mode)
        await first.request_headers()
        one = destination_of(await first.answer())
        await second.request_headers()
        other = destination_of(await second.answer())
        assert {one.split(",")[0], other.split(",")[0]} == {AT["a"], AT["b"]}
        if mode == STREAMED:
            await first.request_body(BODY)
            assert not (await first.answer()).request_body.HasField("response")


async def test_a_request_without_a_body_or_a_prompt_is_picked_for_too() -> None:
    async with PickerScene() as scene:
        models, embeddings = scene.call(), scene.call()
        await models.request_headers("/v1/models", is_last=True)
        assert destination_of(await models.answer())
        await embeddings.request_headers("/v1/embeddings?x=1")
        await embeddings.request_body(b"\x00 no JSON")
        assert destination_of(await embeddings.answer())


async def test_an_envoy_that_does_not_say_its_modes_has_the_protocols() -> None:
    async with PickerScene() as scene:
        call = scene.call(request=None)
        assert destination_of(await picked(call))
        assert (await call.answer()).request_body.response.body_mutation.HasField(
            "streamed_response"
        )


async def test_the_next_best_endpoint_is_no_turn_of_its_own() -> None:
    async with PickerScene("abc", policy="round_robin") as scene:
        scene.tell("c", PROMPT[:32])
        picks = [destination_of(await picked(scene.call())).split(",") for _ in range(6)]
        assert {first for first, _ in picks} == set(AT.values())
        assert all(second == AT["c"] for first, second in picks if first != AT["c"])


async def test_what_the_client_says_of_its_destination_does_not_count() -> None:
    async with PickerScene() as scene:
        headers = {"x-gateway-destination-endpoint": "6.6.6.6:1", "x-prefiller-host-port": "6:1"}
        answer = await picked(scene.call(), **headers)
        assert "6.6.6.6" not in destination_of(answer)
        mutation = answer.request_headers.response.header_mutation
        assert list(mutation.remove_headers) == ["x-prefiller-host-port"]


@pytest.mark.parametrize(
    "subset", [[AT["c"], "9.9.9.9:1"], f" {AT['c']} ,9.9.9.9:1"], ids=["list", "text"]
)
async def test_only_endpoints_of_the_subset_are_picked(subset: list[str] | str) -> None:
    async with PickerScene("abc") as scene:
        scene.tell("b", PROMPT)
        call = scene.call()
        await call.request_headers(subset=subset)
        await call.request_body(BODY)
        assert destination_of(await call.answer()) == AT["c"]


@pytest.mark.parametrize("subset", [[], ["9.9.9.9:1"]])
async def test_a_subset_without_an_engine_is_503(subset: list[str]) -> None:
    async with PickerScene() as scene:
        call = scene.call()
        await call.request_headers(subset=subset)
        await call.request_body(BODY)
        status, text, _ = refusal_of(await call.answer())
        assert status == 503
        assert "9.9.9.9:1" in text if subset else "none at all" in text
        assert scene.loads() == [0, 0]


async def test_no_engine_that_is_up_is_503() -> None:
    async with PickerScene("a") as scene:
        scene.routed.suspend("a", "it failed")
        assert refusal_of(await picked(scene.call()))[0] == 503


async def test_the_policys_refusal_is_429() -> None:
    async with PickerScene("a", policy="mooncake", ttft_slo_s=0.01) as scene:
        body = json.dumps({"prompt": list(range(4000))}).encode()
        status, text, headers = refusal_of(await picked(scene.call(), body))
        assert (status, headers["retry-after"]) == (429, "1")
        assert "ttft_slo_s" in text


async def test_a_prompt_that_is_not_cached_is_computed_by_an_engine_that_prefills() -> None:
    async with PickerScene("ab", {"a": "prefill", "b": "decode"}, prefill_from_tokens=32) as scene:
        answer = await picked(scene.call())
        assert destination_of(answer) == AT["b"]
        assert header_of(answer, "x-prefiller-host-port") == AT["a"]
        scene.tell("b", PROMPT)
        assert header_of(await picked(scene.call()), "x-prefiller-host-port") is None


@pytest.mark.parametrize(
    ("body", "mend"),
    [(b"{", "no JSON"), (b"[1]", "JSON object"), (b"", "no JSON"), (b"{}", "'prompt' is a text")],
)
@pytest.mark.parametrize("mode", [DUPLEX, BUFFERED])
async def test_a_body_that_is_no_request_is_400(mode: int, body: bytes, mend: str) -> None:
    async with PickerScene() as scene:
        call = scene.call(request=mode)
        await call.request_headers()
        if mode == BUFFERED:
            await call.answer()
        await call.request_body(body)
        status, text, headers = refusal_of(await call.answer())
        assert (status, headers["content-type"]) == (400, "application/json")
        assert mend in text
        assert scene.loads() == [0, 0]


@pytest.mark.parametrize("chunk_bytes", [1 << 10, 1 << 16])
async def test_a_body_beyond_its_bound_is_413_and_not_kept(chunk_bytes: int) -> None:
    async with PickerScene(most_body_bytes=1 << 16) as scene:
        call = scene.call()
        await call.request_headers()
        for _ in range((1 << 16) // chunk_bytes + 1):
            await call.request_body(b" " * chunk_bytes, is_last=False)
        await call.request_body(b"", is_last=True)  # It was under way when the answer was given.
        status, text, _ = refusal_of(await call.answer())
        assert (status, "65536 bytes" in text) == (413, True)
        await call.end()
        assert await call.stream.read() is grpc.aio.EOF


async def _phase_of_the_future(call: Call) -> None:
    await call.send()


async def _body_first(call: Call) -> None:
    await call.request_body(BODY)


async def _trailers_first(call: Call) -> None:
    await call.send(request_trailers=pb.HttpTrailers())


async def _headers_twice(call: Call) -> None:
    await call.request_headers()
    await call.request_headers()


@pytest.mark.parametrize(
    ("say", "mend"),
    [
        (_phase_of_the_future, "no phase"),
        (_body_first, "request_header_mode: SEND"),
        (_trailers_first, "request_header_mode: SEND"),
        (_headers_twice, "twice"),
    ],
)
async def test_phases_that_no_envoy_sends_end_the_stream(
    say: Callable[[Call], Awaitable[None]], mend: str
) -> None:
    async with PickerScene() as scene:
        call = scene.call()
        await say(call)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while await call.stream.read() is not grpc.aio.EOF:
                pass
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert mend in caught.value.details()
        assert destination_of(await picked(scene.call()))  # Others go on.
