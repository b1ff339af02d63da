"""One HTTP exchange, phase by phase, as Envoy tells of it."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from nearkv.router.gateway.messages import (
    headers_of,
    immediate,
    served_of,
    streamed,
    subset_of,
    with_destination,
)
from nearkv.router.gateway.picker import Head, Picked, Picker
from nearkv.router.placing import Refused

_BUFFERED = (ProcessingMode.BUFFERED, ProcessingMode.BUFFERED_PARTIAL)
_FULL_DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED

Answers = list[pb.ProcessingResponse]


class BadPhase(ValueError):
    """What no Envoy sends, or sends only if told otherwise than this needs it; says how."""


class Exchange:
    """Takes Envoy's messages in their order. A stream of its own has one; close() ends it.

    The request's headers are answered when the prompt is known: with a full duplex or a buffered
    body when it is whole. Bodies are never changed.
    """

    def __init__(self, picker: Picker, most_body_bytes: int) -> None:
        self._picker = picker
        self._most_body_bytes = most_body_bytes
        self._request_mode: int | None = None
        self._response_mode: int = _FULL_DUPLEX
        self._head: Head | None = None
        self._chunks: list[bytes] = []
        self._body_bytes = 0
        self._picked: Picked | None = None
        self._is_refused = False
        self._phases: dict[str, Callable[[pb.ProcessingRequest], Answers | Awaitable[Answers]]] = {
            "request_headers": self._request_headers,
            "request_body": self._request_body,
            "request_trailers": self._request_trailers,
            "response_headers": self._response_headers,
            "response_body": self._response_body,
            "response_trailers": self._response_trailers,
        }

    def take(self, message: pb.ProcessingRequest) -> Answers | Coroutine[Any, Any, Answers]:
        """The answers to a message; to be awaited where an engine has to be found.

        BadPhase: there can be none, and the stream has to end.
        """
        if self._request_mode is None:
            self._learn_modes(message)
        phase = message.WhichOneof("request")
        if phase is None:
            raise BadPhase("a message of no phase that ext_proc v3 has")
        if self._is_refused:
            return []  # Envoy has been answered; these were on their way.
        try:
            answers = self._phases[phase](message)
        except Refused as refused:
            return self._refuse(refused)
        return answers if isinstance(answers, list) else self._awaited(answers)

    def close(self) -> None:
        """The exchange has ended, in whatever way; the second time nothing happens."""
        if self._picked:
            self._picked.finish()

    async def _awaited(self, answers: Awaitable[Answers]) -> Answers:
        try:
            return await answers
        except Refused as refused:
            return self._refuse(refused)

    def _refuse(self, refused: Refused) -> Answers:
        self._is_refused = True
        self._chunks.clear()
        return [immediate(refused)]

    def _learn_modes(self, message: pb.ProcessingRequest) -> None:
        """Those of the stream's first message; Envoy before 1.34 says none: the protocol's."""
        told = message.HasField("protocol_config")
        config = message.protocol_config
        self._request_mode = config.request_body_mode if told else _FULL_DUPLEX
        self._response_mode = config.response_body_mode if told else _FULL_DUPLEX

    def _request_headers(self, message: pb.ProcessingRequest) -> Answers | Awaitable[Answers]:
        if self._head is not None:
            raise BadPhase("request_headers came twice on one stream")
        headers = headers_of(message.request_headers)
        path = headers.get(":path", "/")
        self._head = Head(path, headers, subset_of(message.metadata_context))
        answer = pb.ProcessingResponse(request_headers=pb.HeadersResponse())
        if message.request_headers.end_of_stream:
            return self._answer_with_pick(answer, answer.request_headers.response, None)
        if self._request_mode in _BUFFERED:
            return [answer]
        if self._request_mode == _FULL_DUPLEX:
            return []
        return self._answer_with_pick(answer, answer.request_headers.response, None)

    def _request_body(self, message: pb.ProcessingRequest) -> Answers | Awaitable[Answers]:
        body = message.request_body
        if self._head is None:
            raise BadPhase("request_body came before headers: set request_header_mode: SEND")
        self._body_bytes += len(body.body)
        if self._body_bytes > self._most_body_bytes:
            raise Refused(f"the body has more than {self._most_body_bytes} bytes", 413)
        answer = pb.ProcessingResponse(request_body=pb.BodyResponse())
        if self._request_mode in _BUFFERED:
            return self._answer_with_pick(
                answer,
                answer.request_body.response,
                body.body,
                # With trailers behind it a buffered body is whole, and not the end.
                is_whole=body.end_of_stream or self._request_mode == ProcessingMode.BUFFERED,
            )
        if self._request_mode != _FULL_DUPLEX:
            return [answer]
        self._chunks.append(body.body)
        return self._answer_whole(ends_here=True) if body.end_of_stream else []

    def _request_trailers(self, message: pb.ProcessingRequest) -> Answers | Awaitable[Answers]:
        if self._head is None:
            raise BadPhase("request_trailers came before headers: set request_header_mode: SEND")
        if self._request_mode == _FULL_DUPLEX and self._picked is None:
            return self._answer_whole(ends_here=False)
        return [pb.ProcessingResponse(request_trailers=pb.TrailersResponse())]

    def _response_headers(self, message: pb.ProcessingRequest) -> Answers:
        headers = message.response_headers
        if self._picked is not None:  # Else Envoy itself answers.
            status = headers_of(headers).get(":status", "")
            served = served_of(message)
            self._picker.answered(self._picked, served, int(status) if status.isdecimal() else 0)
            if self._response_mode == ProcessingMode.NONE:
                self._picked.first_token()  # The last that is heard before the end.
            if headers.end_of_stream:
                self._picked.finish()
        return [pb.ProcessingResponse(response_headers=pb.HeadersResponse())]

    def _response_body(self, message: pb.ProcessingRequest) -> Answers:
        body = message.response_body
        if self._picked is not None:
            if body.body:
                self._picked.first_token()
            if body.end_of_stream:
                self._picked.finish()
        answer = pb.ProcessingResponse(response_body=pb.BodyResponse())
        if self._response_mode == _FULL_DUPLEX:
            answer.response_body.response.CopyFrom(streamed(body.body, body.end_of_stream))
        return [answer]

    def _response_trailers(self, message: pb.ProcessingRequest) -> Answers:
        if self._picked is not None:
            self._picked.finish()
        return [pb.ProcessingResponse(response_trailers=pb.TrailersResponse())]

    async def _answer_whole(self, *, ends_here: bool) -> Answers:
        """All that a full duplex request is owed: headers, its body as it came, its trailers."""
        chunks, self._chunks = self._chunks, []
        head = pb.ProcessingResponse(request_headers=pb.HeadersResponse())
        answers = await self._answer_with_pick(
            head, head.request_headers.response, b"".join(chunks)
        )
        for number, chunk in enumerate(chunks, start=1):
            is_last = ends_here and number == len(chunks)
            body = pb.BodyResponse(response=streamed(chunk, is_last))
            answers.append(pb.ProcessingResponse(request_body=body))
        if not ends_here:
            answers.append(pb.ProcessingResponse(request_trailers=pb.TrailersResponse()))
        return answers

    async def _answer_with_pick(
        self,
        answer: pb.ProcessingResponse,
        common: pb.CommonResponse,
        body: bytes | None,
        *,
        is_whole: bool = True,
    ) -> Answers:
        assert self._head
        if self._picked is None:
            self._picked = await self._picker.pick(self._head, body, is_whole=is_whole)
        destination = ",".join(self._picked.endpoints)
        return [with_destination(answer, common, destination, self._picked.prefiller)]
