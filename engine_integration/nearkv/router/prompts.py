"""The tokens of a request's prompt, as the engine will see them."""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nearkv.router.conversation import conversation_of

_LOG = logging.getLogger("nearkv.router")
_BYTES_PER_TOKEN = 4  # a guess, for load alone, where no tokenizer is known
_BYTES_PER_EMBEDDING = 8192  # another: of a model of middle size, in base64


class Tokenizer(Protocol):
    """What of transformers' tokenizers is used."""

    def encode(self, text: str) -> list[int]:
        """Tokens of a plain prompt, with what the model puts before it."""

    def get_chat_template(self, chat_template: str | None, tools: Any) -> str:
        """What makes a conversation a text. ValueError if there is none."""

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Tokens of a conversation."""


class BadRequest(ValueError):
    """A request that no engine would take; the text says what it must be."""


def tokens_of(body: Any, tokenizer: Tokenizer | None) -> Sequence[int] | int:
    """A prompt's tokens; or, where they are not known, about how many. BadRequest.

    Requests for several prompts count as their first one. Slow for long texts: use a thread.
    """
    if not isinstance(body, dict):
        raise BadRequest("the body is a JSON object with 'prompt' or 'messages'")
    if "messages" in body:
        if not isinstance(body["messages"], list) or not body["messages"]:
            raise BadRequest("'messages' is a list of at least one message")
        return _of_chat(body, tokenizer)
    prompt = body.get("prompt")
    if prompt is None and (embeddings := body.get("prompt_embeds")):
        return max(1, len(embeddings) // _BYTES_PER_EMBEDDING)
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt:
        if not all(isinstance(token, int) and 0 <= token < 2**32 for token in prompt):
            raise BadRequest("'prompt' as a list holds token ids from 0 to 2**32 - 1")
        return prompt
    if not isinstance(prompt, str):
        raise BadRequest("'prompt' is a text, or a list of token ids, of at least one")
    return _encoded(lambda: tokenizer.encode(prompt), prompt) if tokenizer else _guess(prompt)


def adapter_of(body: dict[str, Any], is_adapter: Callable[[str], bool]) -> str:
    """The adapter (LoRA) that a request names; empty: none.

    vLLM has it in place of the model; SGLang behind it and a colon, or as lora_path.
    """
    model, path = body.get("model"), body.get("lora_path")
    path = path[0] if isinstance(path, list) and path else path
    whole = model if isinstance(model, str) else ""
    behind = whole.partition(":")[2]
    if behind and is_adapter(behind) and not is_adapter(whole.partition(":")[0]):
        return behind
    if isinstance(path, str) and path:
        return path
    return whole if whole and is_adapter(whole) else ""


def _of_chat(body: dict[str, Any], tokenizer: Tokenizer | None) -> Sequence[int] | int:
    if tokenizer is None:
        return _guess(body["messages"])

    def encode() -> Any:
        tools = body.get("tools")
        template = tokenizer.get_chat_template(body.get("chat_template"), tools)
        continues = body.get("continue_final_message", False)
        options = {
            "tools": tools,
            "documents": body.get("documents"),
            "chat_template": template,
            "add_generation_prompt": body.get("add_generation_prompt", not continues),
            "continue_final_message": continues,
        }
        return tokenizer.apply_chat_template(
            conversation_of(body["messages"], template),
            tokenize=True,
            return_dict=False,
            **(options | (body.get("chat_template_kwargs") or {})),
        )

    return _encoded(encode, body["messages"])


def _encoded(encode: Any, prompt: Any) -> Sequence[int] | int:
    """What the tokenizer says; whatever it cannot do, the engine may still be able to."""
    try:
        return encode()
    except Exception as error:
        _tell_once(str(error))
        return _guess(prompt)


@functools.lru_cache(maxsize=64)
def _tell_once(why: str) -> None:
    """Says it the first time; a tokenizer that cannot would otherwise say it for each request."""
    _LOG.warning(
        "prompts like this one cannot be tokenized here and are routed by load alone; where the "
        "engine can, give the router the tokenizer and the chat template that the engine has: %s",
        why,
    )


def guessed_tokens(text_bytes: int) -> int:
    """About how many tokens a text has."""
    return max(1, text_bytes // _BYTES_PER_TOKEN)


def _guess(prompt: Any) -> int:
    return guessed_tokens(len(str(prompt)))
