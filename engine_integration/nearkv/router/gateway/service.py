"""The gRPC services that Envoy and Kubernetes call: ext_proc, and health."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc as pb_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nearkv.router.gateway.exchange import Answers, BadPhase, Exchange
from nearkv.router.gateway.picker import Picker

_FRAME_BYTES = 1 << 16  # what a message has beside the body
_LIVENESS = "liveness"
_READY = ("", "readiness", pb.DESCRIPTOR.services_by_name["ExternalProcessor"].full_name)
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class ExternalProcessor(pb_grpc.ExternalProcessorServicer):
    """A stream is one HTTP exchange."""

    def __init__(self, picker: Picker, most_body_bytes: int) -> None:
        self._picker = picker
        self._most_body_bytes = most_body_bytes

    async def Process(self, _: Any, context: Any) -> None:
        """Answers Envoy's messages until it closes the stream, or the client has vanished.

        Meanwhile it listens: a request that waits for an engine is given up with its stream.
        """
        exchange = Exchange(self._picker, self._most_body_bytes)
        try:
            message = await context.read()
            while message is not grpc.aio.EOF:
                answers = exchange.take(message)
                if isinstance(answers, list):
                    await _write(context, answers)
                    message = await context.read()
                else:
                    message = await _write_and_read(context, answers)
        except BadPhase as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            exchange.close()


async def _write(context: Any, answers: Answers) -> None:
    for answer in answers:
        await context.write(answer)


async def _write_and_read(context: Any, answers: Coroutine[Any, Any, Answers]) -> Any:
    """The next message, of which the end may come before the answers, and makes them needless."""
    following = asyncio.ensure_future(context.read())
    taking = asyncio.ensure_future(answers)
    try:
        await asyncio.wait({taking, following}, return_when=asyncio.FIRST_COMPLETED)
        if taking.done() or following.result() is not grpc.aio.EOF:
            await _write(context, await taking)
        return await following
    finally:
        for task in (following, taking):
            task.cancel()
        await asyncio.wait({taking})


class Health(health_pb2_grpc.HealthServicer):
    """The picker protocol's services: liveness, readiness, and ext_proc itself."""

    def __init__(self, picker: Picker) -> None:
        self._picker = picker

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """SERVING while an engine can be picked; liveness: while this answers at all."""
        if request.service == _LIVENESS:
            return health_pb2.HealthCheckResponse(status=_SERVING)
        if request.service in _READY:
            status = _SERVING if self._picker.is_ready else _NOT_SERVING
            return health_pb2.HealthCheckResponse(status=status)
        await context.abort(
            grpc.StatusCode.NOT_FOUND,
            f"no service {request.service!r}; there are {', '.join((_LIVENESS, *_READY[1:]))}",
        )


def make_server(
    picker: Picker, listen: str, *, certificate: str = "", key: str = ""
) -> tuple[grpc.aio.Server, int]:
    """A server that is to be started, and its port. `certificate` and `key` are files of TLS.

    RuntimeError: the address is taken, or is none. OSError: a file cannot be read.
    """
    most_body_bytes = picker.engines.config.most_body_bytes
    most_bytes = ("grpc.max_receive_message_length", most_body_bytes + _FRAME_BYTES)
    server = grpc.aio.server(options=[most_bytes, ("grpc.so_reuseport", 0)])
    pb_grpc.add_ExternalProcessorServicer_to_server(
        ExternalProcessor(picker, most_body_bytes), server
    )
    health_pb2_grpc.add_HealthServicer_to_server(Health(picker), server)
    if not certificate:
        return server, server.add_insecure_port(listen)
    pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
    return server, server.add_secure_port(listen, grpc.ssl_server_credentials([pair]))
