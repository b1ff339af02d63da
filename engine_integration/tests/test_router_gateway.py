"""The endpoint picker's protocol, spoken as Envoy speaks it, in every order it has."""

import asyncio
import json
import socket
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")
pytest.importorskip("aiohttp")
pytest.importorskip("envoy.service.ext_proc.v3.external_processor_pb2_grpc")
pytest.importorskip("grpc_health.v1.health")

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc

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
    refusal_of,
)
from nearkv.router.config import ConfigError, config_of


def run(scene: PickerScene, test: Callable[[PickerScene], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30), scene:
            await test(scene)

    asyncio.run(whole())


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def picked(call: Call, body: bytes = BODY, **head: str) -> pb.ProcessingResponse:
    """The answer to a request with a full duplex body of one chunk."""
    await call.request_headers(**head)
    await call.request_body(body)
    return await call.answer()


def test_a_full_duplex_request_goes_where_its_prompt_is_and_its_body_as_it_came() -> None:
    async def test(scene: PickerScene) -> None:
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

    run(PickerScene(), test)


def test_trailers_end_a_full_duplex_body_too() -> None:
    async def test(scene: PickerScene) -> None:
        scene.tell("b", PROMPT)
        call = scene.call(request=DUPLEX)
        await call.request_headers()
        await call.request_body(BODY, is_last=False)
        await call.send(request_trailers=pb.HttpTrailers())
        assert destination_of(await call.answer()).startswith(AT["b"])
        body = (await call.answer()).request_body.response.body_mutation.streamed_response
        assert (body.body, body.end_of_stream) == (BODY, False)
        assert (await call.answer()).WhichOneof("response") == "request_trailers"

    run(PickerScene(), test)


@pytest.mark.parametrize("with_trailers", [False, True])
def test_a_buffered_request_is_answered_at_its_headers_and_picked_at_its_body(
    with_trailers: bool,
) -> None:
    async def test(scene: PickerScene) -> None:
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

    run(PickerScene(), test)


def test_a_part_of_a_body_is_picked_for_by_load() -> None:
    async def test(scene: PickerScene) -> None:
        scene.tell("b", PROMPT)
        call = scene.call(request=PARTIAL)
        await call.request_headers()
        await call.answer()
        await call.request_body(BODY[:100], is_last=False)
        assert destination_of(await call.answer(), "request_body")

    run(PickerScene(), test)


@pytest.mark.parametrize("mode", [NONE, STREAMED])
def test_without_the_body_load_alone_decides(mode: int) -> None:
    async def test(scene: PickerScene) -> None:
        first, second = scene.call(request=mode), scene.call(request=mode)
        await first.request_headers()
        one = destination_of(await first.answer())
        await second.request_headers()
        other = destination_of(await second.answer())
        assert {one.split(",")[0], other.split(",")[0]} == {AT["a"], AT["b"]}
        if mode == STREAMED:
            await first.request_body(BODY)
            assert not (await first.answer()).request_body.HasField("response")

    run(PickerScene(policy="least_load"), test)


def test_a_request_without_a_body_or_a_prompt_is_picked_for_too() -> None:
    async def test(scene: PickerScene) -> None:
        models, embeddings = scene.call(), scene.call()
        await models.request_headers("/v1/models", is_last=True)
        assert destination_of(await models.answer())
        await embeddings.request_headers("/v1/embeddings?x=1")
        await embeddings.request_body(b"\x00 no JSON")
        assert destination_of(await embeddings.answer())

    run(PickerScene(), test)


def test_an_envoy_that_does_not_say_its_modes_has_the_protocols() -> None:
    async def test(scene: PickerScene) -> None:
        call = scene.call(request=None)
        assert destination_of(await picked(call))
        assert (await call.answer()).request_body.response.body_mutation.HasField(
            "streamed_response"
        )

    run(PickerScene(), test)


def test_the_next_best_endpoint_is_no_turn_of_its_own() -> None:
    async def test(scene: PickerScene) -> None:
        scene.tell("c", PROMPT[:32])
        picks = [destination_of(await picked(scene.call())).split(",") for _ in range(6)]
        assert {first for first, _ in picks} == set(AT.values())
        assert all(second == AT["c"] for first, second in picks if first != AT["c"])

    run(PickerScene("abc", policy="round_robin"), test)


def test_what_the_client_says_of_its_destination_does_not_count() -> None:
    async def test(scene: PickerScene) -> None:
        headers = {"x-gateway-destination-endpoint": "6.6.6.6:1", "x-prefiller-host-port": "6:1"}
        answer = await picked(scene.call(), **headers)
        assert "6.6.6.6" not in destination_of(answer)
        mutation = answer.request_headers.response.header_mutation
        assert list(mutation.remove_headers) == ["x-prefiller-host-port"]

    run(PickerScene(), test)


@pytest.mark.parametrize(
    "subset", [[AT["c"], "9.9.9.9:1"], f" {AT['c']} ,9.9.9.9:1"], ids=["list", "text"]
)
def test_only_endpoints_of_the_subset_are_picked(subset: list[str] | str) -> None:
    async def test(scene: PickerScene) -> None:
        scene.tell("b", PROMPT)
        call = scene.call()
        await call.request_headers(subset=subset)
        await call.request_body(BODY)
        assert destination_of(await call.answer()) == AT["c"]

    run(PickerScene("abc"), test)


@pytest.mark.parametrize("subset", [[], ["9.9.9.9:1"]])
def test_a_subset_without_an_engine_is_503(subset: list[str]) -> None:
    async def test(scene: PickerScene) -> None:
        call = scene.call()
        await call.request_headers(subset=subset)
        await call.request_body(BODY)
        status, text, _ = refusal_of(await call.answer())
        assert status == 503
        assert "9.9.9.9:1" in text if subset else "none at all" in text
        assert scene.loads() == [0, 0]

    run(PickerScene(), test)


def test_no_engine_that_is_up_is_503_and_the_policys_refusal_429() -> None:
    async def gone(scene: PickerScene) -> None:
        scene.routed.suspend("a", "it failed")
        assert refusal_of(await picked(scene.call()))[0] == 503

    async def late(scene: PickerScene) -> None:
        body = str({"prompt": list(range(4000))}).replace("'", '"').encode()
        status, text, headers = refusal_of(await picked(scene.call(), body))
        assert (status, headers["retry-after"]) == (429, "1")
        assert "ttft_slo_s" in text

    run(PickerScene("a"), gone)
    run(PickerScene("a", policy="mooncake", ttft_slo_s=0.01), late)


def test_load_is_counted_from_the_pick_to_the_end_of_the_answer() -> None:
    async def test(scene: PickerScene) -> None:
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

    run(PickerScene("a"), test)


def test_trailers_end_an_answer_too_and_a_body_that_is_not_shown_ends_with_its_stream() -> None:
    async def test(scene: PickerScene) -> None:
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

    run(PickerScene("a"), test)


def test_the_load_is_that_of_the_endpoint_that_served() -> None:
    async def test(scene: PickerScene) -> None:
        scene.tell("a", PROMPT)
        call = scene.call()
        assert destination_of(await picked(call)) == f"{AT['a']},{AT['b']}"
        await call.answer()
        assert scene.loads() == [1, 0]
        await call.response_headers(served=AT["b"])
        await call.answer()
        assert scene.loads() == [0, 1]
        assert scene.routed.fleet.up() == ["b"]

    run(PickerScene(), test)


def test_an_engine_that_says_it_cannot_gets_nothing_new() -> None:
    async def test(scene: PickerScene) -> None:
        scene.tell("a", PROMPT)
        call = scene.call()
        await picked(call)
        await call.answer()
        await call.response_headers(503)
        await call.answer()
        assert destination_of(await picked(scene.call())) == AT["b"]

    run(PickerScene(), test)


def test_a_prompt_that_is_not_cached_is_computed_by_an_engine_that_prefills() -> None:
    async def test(scene: PickerScene) -> None:
        answer = await picked(scene.call())
        assert destination_of(answer) == AT["b"]
        assert header_of(answer, "x-prefiller-host-port") == AT["a"]
        scene.tell("b", PROMPT)
        assert header_of(await picked(scene.call()), "x-prefiller-host-port") is None

    run(PickerScene("ab", {"a": "prefill", "b": "decode"}, prefill_from_tokens=32), test)


@pytest.mark.parametrize(
    ("body", "mend"),
    [(b"{", "no JSON"), (b"[1]", "JSON object"), (b"", "no JSON"), (b"{}", "'prompt' is a text")],
)
@pytest.mark.parametrize("mode", [DUPLEX, BUFFERED])
def test_a_body_that_is_no_request_is_400(mode: int, body: bytes, mend: str) -> None:
    async def test(scene: PickerScene) -> None:
        call = scene.call(request=mode)
        await call.request_headers()
        if mode == BUFFERED:
            await call.answer()
        await call.request_body(body)
        status, text, headers = refusal_of(await call.answer())
        assert (status, headers["content-type"]) == (400, "application/json")
        assert mend in text
        assert scene.loads() == [0, 0]

    run(PickerScene(), test)


@pytest.mark.parametrize("chunk_bytes", [1 << 10, 1 << 16])
def test_a_body_beyond_its_bound_is_413_and_not_kept(chunk_bytes: int) -> None:
    async def test(scene: PickerScene) -> None:
        call = scene.call()
        await call.request_headers()
        for _ in range((1 << 16) // chunk_bytes + 1):
            await call.request_body(b" " * chunk_bytes, is_last=False)
        await call.request_body(b"", is_last=True)  # It was under way when the answer was given.
        status, text, _ = refusal_of(await call.answer())
        assert (status, "65536 bytes" in text) == (413, True)
        await call.end()
        assert await call.stream.read() is grpc.aio.EOF

    run(PickerScene(most_body_bytes=1 << 16), test)


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
def test_phases_that_no_envoy_sends_end_the_stream(
    say: Callable[[Call], Awaitable[None]], mend: str
) -> None:
    async def test(scene: PickerScene) -> None:
        call = scene.call()
        await say(call)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while await call.stream.read() is not grpc.aio.EOF:
                pass
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert mend in caught.value.details()
        assert destination_of(await picked(scene.call()))  # Others go on.

    run(PickerScene(), test)


@pytest.mark.parametrize("how", ["half closed", "cancelled"])
@pytest.mark.parametrize("after", ["headers", "a part of the body", "the pick", "an answer's part"])
def test_a_stream_cut_anywhere_leaves_no_load(after: str, how: str) -> None:
    async def test(scene: PickerScene) -> None:
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

    run(PickerScene("a"), test)


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


def test_a_request_waits_until_an_engine_has_room() -> None:
    async def test(scene: PickerScene) -> None:
        first, second, third = await line_up(scene, 3)
        assert (waiting(scene), scene.loads()) == (2, [1])
        await first.end()
        assert destination_of(await second.answer()) == AT["a"]
        assert (waiting(scene), scene.loads()) == (1, [1])
        await second.answer()
        await second.response_headers()
        await second.response_body(b"all", is_last=True)
        assert destination_of(await third.answer()) == AT["a"]

    run(PickerScene("a", max_running=1), test)


@pytest.mark.parametrize("how", ["half closed", "cancelled"])
def test_a_client_that_vanishes_leaves_the_queue(how: str) -> None:
    async def test(scene: PickerScene) -> None:
        first, second, third = await line_up(scene, 3)
        await second.end() if how == "half closed" else second.stream.cancel()
        while waiting(scene) != 1:
            await asyncio.sleep(0.005)
        await first.end()
        assert destination_of(await third.answer())
        await third.end()
        await scene.settled()

    run(PickerScene("a", max_running=1), test)


def test_a_full_queue_is_429_and_the_end_503() -> None:
    async def test(scene: PickerScene) -> None:
        _, second = await line_up(scene, 2)
        status, text, headers = refusal_of(await picked(scene.call()))
        assert (status, headers["retry-after"], "1 requests wait" in text) == (429, "1", True)
        scene.routed.end()
        assert refusal_of(await second.answer())[0] == 503

    run(PickerScene("a", max_running=1, queue_length=1), test)


def test_who_may_go_to_a_free_engine_does_not_wait_behind_who_may_not() -> None:
    async def test(scene: PickerScene) -> None:
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

    run(PickerScene("ab", max_running=1), test)


def test_a_message_beyond_grpcs_bound_ends_its_own_stream_alone() -> None:
    async def test(scene: PickerScene) -> None:
        call = scene.call()
        await call.request_headers()
        await call.request_body(b" " * (1 << 18))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.stream.read()
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert destination_of(await picked(scene.call()))

    run(PickerScene(most_body_bytes=1 << 16), test)


def test_health_is_what_the_protocol_has() -> None:
    async def test(scene: PickerScene) -> None:
        async def status(service: str) -> int:
            stub = health_pb2_grpc.HealthStub(scene.channel)
            return (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status

        serving = health_pb2.HealthCheckResponse.SERVING
        picking = ["readiness", "envoy.service.ext_proc.v3.ExternalProcessor", ""]
        assert [await status(name) for name in ("liveness", *picking)] == [serving] * 4
        scene.routed.suspend("a", "it failed")
        assert await status("liveness") == serving
        assert serving not in [await status(name) for name in picking]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await status("other")
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND

    run(PickerScene("a"), test)


def test_names_become_addresses_and_have_none_until_they_are_found() -> None:
    from nearkv.router.gateway import Endpoints

    endpoints = Endpoints(
        {"a": "http://localhost:7", "b": "http://no.such.invalid", "c": "http://[::1]:9"}
    )
    assert [endpoints.of(name) for name in "abc"] == [None, None, "[::1]:9"]
    asyncio.run(endpoints.look_up())
    assert endpoints.of("a") in ("127.0.0.1:7", "[::1]:7")
    assert endpoints.of("b") is None
    assert (endpoints.worker("[::1]:9"), endpoints.worker("1.1.1.1:9")) == ("c", None)


def test_the_command_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    file = tmp_path / "router.toml"
    listen, gateway_listen = (f"127.0.0.1:{free_port()}" for _ in range(2))
    file.write_text(
        f"listen = '{listen}'\ngateway_listen = '{gateway_listen}'\n"
        "[[worker]]\nname = 'a'\nurl = 'http://127.0.0.1:9'\n"
    )
    command = [sys.executable, "-m", "nearkv.router.gateway", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        with grpc.insecure_channel(gateway_listen) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            asked = health_pb2.HealthCheckRequest(service="readiness")
            answer = stub.Check(asked, wait_for_ready=True, timeout=60)
        with urllib.request.urlopen(f"http://{listen}/health", timeout=30) as page:
            assert json.load(page)["workers"]["a"]["up"]
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert process.returncode == 0, said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "mend"),
    [("certificate = 'a'", "name both or none"), ("gateway_listen = '9002'", "HOST:PORT")],
)
def test_a_bad_configuration_names_its_mend(text: str, mend: str) -> None:
    table = tomllib.loads(f"{text}\n[[worker]]\nname = 'a'\nurl = 'http://1.1.1.1:9'\n")
    with pytest.raises(ConfigError, match=mend):
        config_of(table)


def test_envoy_may_come_over_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout {key} -out"
    subprocess.run(["openssl", *words.split(), certificate], check=True, capture_output=True)
    ca = grpc.ssl_channel_credentials(certificate.read_bytes())

    async def test(scene: PickerScene) -> None:
        async with grpc.aio.secure_channel(f"localhost:{scene.port}", ca) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(service="liveness"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    run(PickerScene("a", certificate=str(certificate), key=str(key)), test)
