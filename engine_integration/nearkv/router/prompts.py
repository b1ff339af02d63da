"""The tokens of a request's prompt, as the engine will see them."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nearkv.router.conversation import NotAText, conversation_of

_LOG = logging.getLogger("nearkv.router")
_TOLD: set[str] = set()  # Reasons why prompts cannot be tokenized.
_MOST_TOLD = 64
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
    if embeddings := body.get("prompt_embeds"):
        return max(1, len(str(embeddings)) // _BYTES_PER_EMBEDDING)
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt:
        if not all(isinstance(token, int) and 0 <= token < 2**32 for token in prompt):
            raise BadRequest("'prompt' as a list holds token ids from 0 to 2**32 - 1")
        return prompt
    if not isinstance(prompt, str):
        raise BadRequest("'prompt' is a text, or a list of token ids, of at least one")
    return _encoded(lambda known: known.encode(prompt), prompt, tokenizer)


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
    def encode(known: Tokenizer) -> Any:
        tools = body.get("tools")
        template = known.get_chat_template(body.get("chat_template"), tools)
        continues = body.get("continue_final_message", False)
        options = {
            "tools": tools,
            "documents": body.get("documents"),
            "chat_template": template,
            "add_generation_prompt": body.get("add_generation_prompt", not continues),
            "continue_final_message": continues,
        }
        return known.apply_chat_template(
            conversation_of(body["messages"], template),
            tokenize=True,
            return_dict=False,
            **(options | (body.get("chat_template_kwargs") or {})),
        )

    return _encoded(encode, body["messages"], tokenizer)


def _encoded(
    encode: Callable[[Tokenizer], Any], prompt: Any, tokenizer: Tokenizer | None
) -> Sequence[int] | int:
    """What the tokenizer says; whatever it cannot do, the engine may still be able to."""
    try:
        if tokenizer is None:
            raise ValueError("the router's file names no tokenizer")
        return encode(tokenizer)
    except NotAText as error:
        _tell_once("only engines know the tokens and hashes of what is no text", str(error))
    except Exception as error:
        _tell_once(
            "where the engine can tokenize them, give the router the tokenizer and the chat"
            " template that the engine has",
            str(error),
        )
    return guessed_tokens(len(str(prompt)))


def _tell_once(what: str, why: str) -> None:
    """Says each reason the first time, and no more than some: clients may cause many."""
    if why not in _TOLD and len(_TOLD) < _MOST_TOLD:
        _TOLD.add(why)
        _LOG.warning("prompts like this one are routed by load alone; %s: %.200r", what, why)


def guessed_tokens(text_bytes: int) -> int:
    """About how many tokens a text has."""
    return max(1, text_bytes // _BYTES_PER_TOKEN)
