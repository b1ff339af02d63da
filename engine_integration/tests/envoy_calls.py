"""Calls the endpoint picker as Envoy does: one gRPC stream for one HTTP exchange."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("msgspec")
pytest.importorskip("zmq")
pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
pytest.importorskip("envoy.service.ext_proc.v3.external_processor_pb2_grpc")
pytest.importorskip("grpc_health.v1.health")

import grpc
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc as pb_grpc
from google.protobuf.struct_pb2 import Struct

from nearkv.kv_events.wire import decode_batch, encode_batch, encode_event
from nearkv.router.config import config_of
from nearkv.router.engines import Engines
from nearkv.router.gateway import Endpoints, Picker, make_server

PROMPT = list(range(64))
BODY = json.dumps({"prompt": PROMPT}).encode()
_PATIENCE_S = 30
AT = {name: f"10.0.0.{number}:8000" for number, name in enumerate("abc", start=1)}
NONE, STREAMED, BUFFERED, PARTIAL, DUPLEX = (
    ProcessingMode.NONE,
    ProcessingMode.STREAMED,
    ProcessingMode.BUFFERED,
    ProcessingMode.BUFFERED_PARTIAL,
    ProcessingMode.FULL_DUPLEX_STREAMED,
)


class PickerScene:
    """A picker over engines of which only the addresses are there."""

    def __init__(
        self,
        names: str = "ab",
        roles: dict[str, str] | None = None,
        max_running: int = 0,
        **options: Any,
    ) -> None:
        workers = [
            {
                "name": name,
                "url": f"http://{AT[name]}",
                "role": (roles or {}).get(name, "both"),
                "max_running": max_running,
            }
            for name in names
        ]
        options = {"scheme": "sglang", "block_tokens": 4, "policy": "longest_prefix"} | options
        self.routed = Engines(config_of(options | {"worker": workers}), None)
        self._names = names

    async def __aenter__(self) -> "PickerScene":
        picker = Picker(self.routed, Endpoints(self.routed.fleet.urls))
        config = self.routed.config
        self._server, self.port = make_server(
            picker, "127.0.0.1:0", certificate=config.certificate, key=config.key
        )
        await self._server.start()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.port}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        await self._server.stop(None)

    def call(self, **modes: int) -> "Call":
        return Call(pb_grpc.ExternalProcessorStub(self.channel).Process(), **modes)

    def tell(self, worker: str, tokens: Sequence[int]) -> None:
        tell(self.routed, worker, tokens)

    def loads(self) -> list[int]:
        return [self.routed.router.load(name).requests for name in self._names]

    async def settled(self) -> None:
        while any(self.loads()):
            await asyncio.sleep(0.01)


def tell(routed: Engines, worker: str, tokens: Sequence[int]) -> None:
    """As if a worker's KV events had said that it holds a prompt."""
    hashes = [int(each) for each in routed.router.block_hashes(tokens)]
    event = encode_event(
        "BlockStored", "map", block_hashes=hashes, token_ids=list(tokens), block_size=4, medium=""
    )
    routed.router.apply(worker, decode_batch(encode_batch([event])))


class Call:
    """One stream. The modes are what Envoy tells in its first message; None: nothing."""

    def __init__(self, stream: Any, request: int | None = DUPLEX, response: int = DUPLEX) -> None:
        self.stream = stream
        self._config = None
        if request is not None:
            self._config = pb.ProtocolConfiguration(
                request_body_mode=request, response_body_mode=response
            )

    async def send(self, **message: Any) -> None:
        told = pb.ProcessingRequest(**message)
        if self._config:
            told.protocol_config.CopyFrom(self._config)
            self._config = None
        await self.stream.write(told)

    async def request_headers(
        self,
        path: str = "/v1/completions",
        *,
        is_last: bool = False,
        subset: Sequence[str] | str | None = None,
        **headers: str,
    ) -> None:
        metadata: dict[str, Any] = {}
        if subset is not None:
            hint = Struct()
            key = "x-gateway-destination-endpoint-subset"
            hint[key] = subset if isinstance(subset, str) else list(subset)
            metadata = {"metadata_context": {"filter_metadata": {"envoy.lb.subset_hint": hint}}}
        told = {":method": "POST", ":path": path} | headers
        await self.send(request_headers=_headers(told, is_last), **metadata)

    async def request_body(self, chunk: bytes, *, is_last: bool = True) -> None:
        await self.send(request_body=pb.HttpBody(body=chunk, end_of_stream=is_last))

    async def response_headers(self, status: int = 200, served: str = "") -> None:
        metadata: dict[str, Any] = {}
        if served:
            picked = Struct()
            picked["x-gateway-destination-endpoint-served"] = served
            metadata = {"metadata_context": {"filter_metadata": {"envoy.lb": picked}}}
        await self.send(response_headers=_headers({":status": str(status)}, False), **metadata)

    async def response_body(self, chunk: bytes, *, is_last: bool) -> None:
        await self.send(response_body=pb.HttpBody(body=chunk, end_of_stream=is_last))

    async def answer(self) -> pb.ProcessingResponse:
        # A time limit of pytest's would leave the loop, which later tests share, in this call.
        async with asyncio.timeout(_PATIENCE_S):
            found = await self.stream.read()
        assert found is not grpc.aio.EOF, await self.stream.details()
        return found

    async def end(self) -> None:
        await self.stream.done_writing()


def _headers(headers: dict[str, str], is_last: bool) -> pb.HttpHeaders:
    told = pb.HttpHeaders(end_of_stream=is_last)
    for name, value in headers.items():
        told.headers.headers.add(key=name, raw_value=value.encode())
    return told


def destination_of(answer: pb.ProcessingResponse, phase: str = "request_headers") -> str:
    """Where an answer sends the request; header and metadata have to say the same."""
    mutation = getattr(answer, phase).response.header_mutation
    (in_header,) = [
        option.header.raw_value.decode()
        for option in mutation.set_headers
        if option.header.key == "x-gateway-destination-endpoint"
    ]
    assert answer.dynamic_metadata["envoy.lb"]["x-gateway-destination-endpoint"] == in_header
    return in_header


def header_of(answer: pb.ProcessingResponse, name: str) -> str | None:
    """What an answer to the request's headers sets a header to."""
    options = answer.request_headers.response.header_mutation.set_headers
    return next((o.header.raw_value.decode() for o in options if o.header.key == name), None)


def refusal_of(answer: pb.ProcessingResponse) -> tuple[int, str, dict[str, str]]:
    """Status, error's text, and headers of an answer in an engine's place."""
    assert answer.WhichOneof("response") == "immediate_response", answer
    told = answer.immediate_response
    headers = {o.header.key: o.header.raw_value.decode() for o in told.headers.set_headers}
    return told.status.code, json.loads(told.body)["error"]["message"], headers


async def picked(call: Call, body: bytes = BODY, **head: str) -> pb.ProcessingResponse:
    """The answer to a request with a full duplex body of one chunk."""
    await call.request_headers(**head)
    await call.request_body(body)
    return await call.answer()
