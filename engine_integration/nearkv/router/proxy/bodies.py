"""Requests' bodies, changed for a step: prefill alone, or behind what another engine wrote."""

from typing import Any

COMPLETIONS = "/v1/completions"
_DEFAULT_MAX_TOKENS = 16  # Of /v1/completions.
# Of a request with these alone, all that is to come follows from the tokens before it.
_CAN_GO_ON = {
    *("model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "seed", "stream", "n"),
    *("stream_options", "user", "return_token_ids", "ignore_eos", "cache_salt", "priority"),
}
_NOT_FOR_PREFILL = {
    *("stream", "stream_options", "min_tokens", "n", "best_of", "logprobs", "top_logprobs"),
    *("echo", "prompt_logprobs", "return_token_ids"),
}


def can_go_on(path: str, body: dict[str, Any]) -> bool:
    """Whether another engine can go on where one ends: what it wrote becomes part of the prompt."""
    prompt = body.get("prompt")
    is_one_prompt = isinstance(prompt, str) or (
        isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], int)
    )
    return (
        path == COMPLETIONS
        and body.get("stream") is True
        and is_one_prompt
        and body.keys() <= _CAN_GO_ON
        and body.get("n") in (None, 1)
        and isinstance(body.get("stream_options"), dict | None)
        and _is_count(body.get("max_tokens"))
        and (body.get("seed") is None or body.get("temperature") == 0)
    )


def _is_count(given: Any) -> bool:
    """Whether it is a number of tokens, also as a text, which engines take."""
    return given is None or type(given) is int or (isinstance(given, str) and given.isdecimal())


def behind(body: dict[str, Any], prompt: list[int], written: list[int]) -> dict[str, Any]:
    """The body that asks for the rest. `written` is not empty."""
    most = body.get("max_tokens")
    most = _DEFAULT_MAX_TOKENS if most is None else int(most)
    return body | {"prompt": prompt + written, "max_tokens": most - len(written)}


def for_prefill(body: dict[str, Any]) -> dict[str, Any]:
    """The body whose prompt is computed, for one token that nobody is shown."""
    kept = {name: value for name, value in body.items() if name not in _NOT_FOR_PREFILL}
    limit = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    return kept | {limit: 1}
