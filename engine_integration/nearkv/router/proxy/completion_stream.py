"""A streamed completion that one engine begins and another may end."""

import json
from collections.abc import Iterator
from typing import Any

_PREFIX = b"data: "
_END = b"[DONE]"


class BadStream(ValueError):
    """An engine sent what is no stream of a completion."""


class CompletionStream:
    """Events of one engine after the other, as if one had written them all.

    Engines are asked for tokens' numbers beside the text (vLLM's return_token_ids). An engine holds
    back text that is not whole yet: those tokens are written again by the next.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        """Of what the client asked for."""
        self._shows_tokens = bool(body.get("return_token_ids"))
        self._wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._identity: dict[str, Any] = {}
        self._prompt: list[int] | None = None
        self._tokens: list[int] = []
        self._shown = 0
        self._taken_up = 0  # Of the tokens, those that were the prompt of this engine.
        self._has_told_usage = False
        self.has_begun = False
        """Whether the client has anything."""
        self.has_finished = False
        """Whether the text is whole."""
        self.is_over = False
        """Whether the client has the end, too."""

    @property
    def prompt(self) -> list[int]:
        """As the engine has it."""
        return self._prompt or []

    @property
    def written(self) -> list[int]:
        """The tokens whose text the client has."""
        return self._tokens[: self._shown]

    @property
    def can_go_on(self) -> bool:
        """Whether another engine can go on: nothing was sent, or it is known as tokens."""
        return not self.has_begun or self._prompt is not None

    def go_on(self) -> None:
        """Another engine's events come now, behind `written`."""
        del self._tokens[self._shown :]
        self._taken_up = self._shown

    def take(self, data: bytes) -> bytes:
        """What the client is sent for the data of an engine's event. BadStream."""
        text = data.strip()
        if text == _END:
            self.is_over = True
            return _event(text)
        try:
            event = json.loads(text)
            self._change(event)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadStream(f"{type(error).__name__}: {error}") from error
        return _event(_encoded(event))

    def finish(self) -> Iterator[bytes]:
        """What is missing behind a text that is whole."""
        if self._wants_usage and not self._has_told_usage:
            usage = {"object": "text_completion", "choices": [], "usage": self._usage()}
            yield _event(_encoded(self._identity | usage))
        self.is_over = True
        yield _event(_END)

    def _change(self, event: dict[str, Any]) -> None:
        if "error" in event:
            self._take_error(event["error"])
            return
        choices = event.get("choices") or []
        for choice in choices:
            self._take(choice)
        if not self.has_begun:
            self._identity = {name: event[name] for name in ("id", "created") if name in event}
        if usage := event.get("usage"):
            self._has_told_usage |= not choices
            usage |= self._usage() if self._taken_up else {}
        event |= self._identity
        self.has_begun = True

    def _take_error(self, error: Any) -> None:
        """What is wrong with the request is the client's, and the end. BadStream for all else."""
        code = error.get("code") if isinstance(error, dict) else None
        if not (isinstance(code, int) and 400 <= code < 500):
            raise BadStream(str(error))
        self.is_over = True

    def _take(self, choice: dict[str, Any]) -> None:
        prompt = choice.pop("prompt_token_ids", None)
        if not self._taken_up and prompt is not None:
            self._prompt = prompt
            if self._shows_tokens:
                choice["prompt_token_ids"] = prompt
        self._tokens += choice.get("token_ids") or ()
        self.has_finished |= choice.get("finish_reason") is not None
        if choice.get("text") or self.has_finished:
            self._shown = len(self._tokens)
        if not self._shows_tokens:
            choice.pop("token_ids", None)

    def _usage(self) -> dict[str, int]:
        prompt, written = len(self.prompt), len(self._tokens)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + written,
        }


def _encoded(event: dict[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def _event(text: bytes) -> bytes:
    return _PREFIX + text + b"\n\n"
