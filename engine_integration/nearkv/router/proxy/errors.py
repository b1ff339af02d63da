"""Errors as OpenAI's API has them."""

import json
from typing import Any

from aiohttp import web

from nearkv.router.placing import Refused


def refusal(refused: Refused) -> web.Response:
    """For a client that was sent nothing yet."""
    later = {} if refused.retry_after_s is None else {"retry-after": str(refused.retry_after_s)}
    return error_response(refused.text, refused.status, **later)


def error_body(message: str, kind: str, status: int) -> dict[str, Any]:
    """The JSON of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def error_text(message: str, status: int) -> str:
    """The JSON of a whole response: of the caller's fault below 500, of ours from there on."""
    kind = "invalid_request_error" if status < 500 else "service_unavailable_error"
    if status == 429:
        kind = "rate_limit_error"
    return json.dumps(error_body(message, kind, status))


def error_response(message: str, status: int, **headers: str) -> web.Response:
    """The same, with the response around it."""
    text = error_text(message, status)
    return web.Response(text=text, status=status, headers=headers, content_type="application/json")


def said(error: Exception) -> str:
    """Its text, or where it has none, as a timeout, what it is."""
    return str(error) or type(error).__name__


def broken_off(worker: str, why: str) -> bytes:
    """An event for a client that has a part of an answer, and gets no more."""
    text = f"the engine {worker} ended in the middle of its answer ({why}): send the request again"
    return error_event(text)


def error_event(message: str) -> bytes:
    """An event for a stream whose status has been sent already."""
    return b"data: " + json.dumps(error_body(message, "upstream_error", 502)).encode() + b"\n\n"
