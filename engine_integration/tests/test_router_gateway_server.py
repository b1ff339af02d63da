"""The endpoint picker's server: its health, addresses, command, configuration and TLS."""

import asyncio
import json
import socket
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("envoy.service.ext_proc.v3.external_processor_pb2_grpc")
pytest.importorskip("grpc_health.v1.health")

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from engine_integration.tests.envoy_calls import PickerScene, destination_of, picked
from nearkv.router.config import ConfigError, config_of

pytestmark = pytest.mark.usefixtures("one_loop")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def test_health_is_what_the_protocol_has() -> None:
    async with PickerScene("a") as scene:

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


async def test_envoy_may_come_over_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout {key} -out"
    subprocess.run(["openssl", *words.split(), certificate], check=True, capture_output=True)
    ca = grpc.ssl_channel_credentials(certificate.read_bytes())
    async with PickerScene("a", certificate=str(certificate), key=str(key)) as scene:
        async with grpc.aio.secure_channel(f"localhost:{scene.port}", ca) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(service="liveness"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_message_beyond_grpcs_bound_ends_its_own_stream_alone() -> None:
    async with PickerScene(most_body_bytes=1 << 16) as scene:
        call = scene.call()
        await call.request_headers()
        await call.request_body(b" " * (1 << 18))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.stream.read()
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert destination_of(await picked(scene.call()))
