"""A client of an OpenAI-compatible server that times the tokens as they come."""

import http.client
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nearkv.cluster import ClusterError

_TIMEOUT_S = 300.0
_END = b"[DONE]"


@dataclass(frozen=True)
class Answer:
    """What was written, and when, seconds since it was asked for."""

    text: str
    arrivals_s: tuple[float, ...]
    """Of each piece that came, also of tokens that are no text yet."""
    prompt_tokens: int
    completion_tokens: int

    @property
    def first_token_s(self) -> float:
        """TTFT."""
        return self.arrivals_s[0]

    @property
    def per_token_s(self) -> float | None:
        """TPOT: the mean of all tokens but the first; None if there is one only."""
        if self.completion_tokens < 2:
            return None
        return (self.arrivals_s[-1] - self.arrivals_s[0]) / (self.completion_tokens - 1)


def complete(
    port: int, model: str, prompt: str | Sequence[int], max_tokens: int, **more: Any
) -> Answer:
    """Asks for a greedy completion of text or tokens, streamed; `more` is for the body.

    ClusterError if it is refused or does not end.
    """
    question = {
        "model": model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    } | more
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    begin_s = time.monotonic()
    text, arrivals_s, usage, is_whole = "", [], {}, False
    try:
        body = json.dumps(question)
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            said = response.read().decode(errors="replace")
            raise ClusterError(f"a request was refused ({response.status}): {said}")
        for line in response:
            event = line.removeprefix(b"data: ").strip()
            if event == _END:
                is_whole = True
                break
            if not line.startswith(b"data: "):
                continue
            told = json.loads(event)
            if "error" in told:
                raise ClusterError(f"a request failed: {told['error']}")
            usage = told.get("usage") or usage
            if told.get("choices"):
                arrivals_s.append(time.monotonic() - begin_s)
                text += told["choices"][0]["text"]
    except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
        raise ClusterError(f"a request was lost: {error}") from error
    finally:
        connection.close()
    if not is_whole or not arrivals_s:
        raise ClusterError(f"an answer of {len(text)} characters broke off")
    return Answer(text, tuple(arrivals_s), usage["prompt_tokens"], usage["completion_tokens"])
