"""The load that an exchange with Envoy counts as, from the pick to its end, and the queue."""

import asyncio

import pytest

pytest.importorskip("envoy.service.ext_proc.v3.external_processor_pb2_grpc")

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from engine_integration.tests.envoy_calls import (
    AT,
    BODY,
    NONE,
    PROMPT,
    Call,
    PickerScene,
    destination_of,
    picked,
    refusal_of,
)

pytestmark = pytest.mark.usefixtures("one_loop")


async def test_load_is_counted_from_the_pick_to_the_end_of_the_answer() -> None:
    async with PickerScene("a") as scene:
        call = scene.call()
        await picked(call)
        await call.answer()
        load = scene.routed.router.load
        assert (load("a").requests, load("a").prefill_tokens > 0) == (1, True)
        await call.response_headers()
        assert (await call.answer()).WhichOneof("response") == "response_headers"
        assert load("a").prefill_tokens > 0
        await call.response_body(b"data: 1\n\n", is_last=False)
        piece = (await call.answer()).response_body.response.body_mutation.streamed_response
        assert (piece.body, piece.end_of_stream) == (b"data: 1\n\n", False)
        assert (load("a").requests, load("a").prefill_tokens) == (1, 0)
        await call.response_body(b"", is_last=True)
        assert (
            await call.answer()
        ).response_body.response.body_mutation.streamed_response.end_of_stream
        assert scene.loads() == [0]


async def test_trailers_end_an_answer_too_and_a_body_that_is_not_shown_ends_with_its_stream() -> (
    None
):
    async with PickerScene("a") as scene:
        trailed, unseen = scene.call(), scene.call(response=NONE)
        for call in (trailed, unseen):
            await picked(call)
            await call.answer()
            await call.response_headers()
            await call.answer()
        assert scene.loads() == [2]
        await trailed.send(response_trailers=pb.HttpTrailers())
        assert (await trailed.answer()).WhichOneof("response") == "response_trailers"
        assert scene.loads() == [1]
        await unseen.end()
        await scene.settled()


async def test_the_load_is_that_of_the_endpoint_that_served() -> None:
    async with PickerScene() as scene:
        scene.tell("a", PROMPT)
        call = scene.call()
        assert destination_of(await picked(call)) == f"{AT['a']},{AT['b']}"
        await call.answer()
        assert scene.loads() == [1, 0]
        await call.response_headers(served=AT["b"])
        await call.answer()
        assert scene.loads() == [0, 1]
        assert scene.routed.fleet.up() == ["b"]


async def test_an_engine_that_does_not_take_one_request_is_picked_for_the_next() -> None:
    async with PickerScene() as scene:
        scene.tell("a", PROMPT)
        call = scene.call()
        await picked(call)
        await call.answer()
        await call.response_headers(503)
        await call.answer()
        await call.end()
        assert destination_of(await picked(scene.call())) == f"{AT['a']},{AT['b']}"


@pytest.mark.parametrize("how", ["half closed", "cancelled"])
@pytest.mark.parametrize("after", ["headers", "a part of the body", "the pick", "an answer's part"])
async def test_a_stream_cut_anywhere_leaves_no_load(after: str, how: str) -> None:
    async with PickerScene("a") as scene:
        call = scene.call()
        await call.request_headers()
        if after != "headers":
            await call.request_body(BODY, is_last=after != "a part of the body")
        if after in ("the pick", "an answer's part"):
            await call.answer()
            assert scene.loads() == [1]
        if after == "an answer's part":
            await call.response_headers()
            await call.response_body(b"x", is_last=False)
        if how == "cancelled":
            call.stream.cancel()
        else:
            await call.end()
        await scene.settled()
        assert destination_of(await picked(scene.call()))


def waiting(scene: PickerScene) -> int:
    return scene.routed.health()["waiting"]["decode"]


async def line_up(scene: PickerScene, count: int) -> list[Call]:
    """The first has an engine, the others wait."""
    calls = [scene.call() for _ in range(count)]
    for number, call in enumerate(calls):
        await call.request_headers()
        await call.request_body(BODY)
        while waiting(scene) < number or not any(scene.loads()):
            await asyncio.sleep(0.005)
    await calls[0].answer()
    return calls


async def test_a_request_waits_until_an_engine_has_room() -> None:
    async with PickerScene("a", max_running=1) as scene:
        first, second, third = await line_up(scene, 3)
        assert (waiting(scene), scene.loads()) == (2, [1])
        await first.end()
        assert destination_of(await second.answer()) == AT["a"]
        assert (waiting(scene), scene.loads()) == (1, [1])
        await second.answer()
        await second.response_headers()
        await second.response_body(b"all", is_last=True)
        assert destination_of(await third.answer()) == AT["a"]


@pytest.mark.parametrize("how", ["half closed", "cancelled"])
async def test_a_client_that_vanishes_leaves_the_queue(how: str) -> None:
    async with PickerScene("a", max_running=1) as scene:
        first, second, third = await line_up(scene, 3)
        await second.end() if how == "half closed" else second.stream.cancel()
        while waiting(scene) != 1:
            await asyncio.sleep(0.005)
        await first.end()
        assert destination_of(await third.answer())
        await third.end()
        await scene.settled()


async def test_a_full_queue_is_429_and_the_end_503() -> None:
    async with PickerScene("a", max_running=1, queue_length=1) as scene:
        _, second = await line_up(scene, 2)
        status, text, headers = refusal_of(await picked(scene.call()))
        assert (status, headers["retry-after"], "1 requests wait" in text) == (429, "1", True)
        scene.routed.end()
        assert refusal_of(await second.answer())[0] == 503


async def test_who_may_go_to_a_free_engine_does_not_wait_behind_who_may_not() -> None:
    async with PickerScene("ab", max_running=1) as scene:
        first = scene.call()
        await first.request_headers(subset=[AT["a"]])
        await first.request_body(BODY)
        await first.answer()
        second = scene.call()
        await second.request_headers(subset=[AT["a"]])
        await second.request_body(BODY)
        while waiting(scene) != 1:
            await asyncio.sleep(0.005)
        assert destination_of(await picked(scene.call())) == AT["b"]
        assert waiting(scene) == 1
