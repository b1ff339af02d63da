"""A conversation as an engine hands it to a chat template, which is not as clients write it.

The rules are vLLM's (vllm/renderers/chat_utils.py and hf.py), which SGLang shares in what matters
here: texts in parts become one text unless the template goes through parts itself, arguments of
tool calls become objects, and of a message only what templates know goes on.
"""

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

_TEXTS = {"text", "input_text", "output_text", "refusal"}
_BILLING = "x-anthropic-billing-header"


class _Generation(Extension):
    """The blocks in which transformers marks what the model says."""

    tags: ClassVar = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Takes the block for what is in it."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class NotAText(ValueError):
    """Content whose tokens only the engine knows: pictures and sounds, for example."""


def conversation_of(messages: list[Any], template: str | None) -> list[dict[str, Any]]:
    """The messages as the template sees them. NotAText."""
    in_parts = template is not None and goes_through_parts(template)
    return [_message_of(message, in_parts) for message in messages]


@functools.lru_cache(maxsize=32)
def goes_through_parts(template: str) -> bool:
    """Whether the template loops over the parts of a content, and so wants a list of them."""
    environment = jinja2.Environment(extensions=["jinja2.ext.loopcontrols", _Generation])
    try:
        root = environment.parse(template)
    except jinja2.TemplateError:
        return False
    names = {"content", *_other_names(root)}
    loops = (loop.iter for loop in root.find_all(nodes.For))
    return any(_is_content(over, names) for over in loops)


def _message_of(message: Any, in_parts: bool) -> dict[str, Any]:
    if not isinstance(message, dict) or not isinstance(role := message.get("role"), str):
        raise NotAText("a message is an object with a role")
    parts = list(_parts_of(message.get("content"), is_system=role == "system"))
    # Results of tools are texts for every template.
    whole = "\n".join(parts)
    wants_parts = in_parts and role != "tool"
    seen: dict[str, Any] = {"role": role}
    seen["content"] = [{"type": "text", "text": part} for part in parts] if wants_parts else whole
    if role == "assistant":
        if calls := message.get("tool_calls"):
            seen["tool_calls"] = [_call_of(call) for call in calls]
        if (reasoning := message.get("reasoning")) is not None:
            seen["reasoning"] = seen["reasoning_content"] = reasoning
    if role == "tool" and "tool_call_id" in message:
        seen["tool_call_id"] = message["tool_call_id"]
    if role == "developer":
        seen["tools"] = message.get("tools")
    return seen | {
        key: message[key] for key in ("name", "task") if isinstance(message.get(key), str)
    }


def _parts_of(content: Any, *, is_system: bool) -> Iterator[str]:
    """The texts of a content; of a system's without the line that Claude Code puts before it."""
    if isinstance(content, str):
        content = [content]
    for part in content or []:
        text = part
        if isinstance(part, dict) and part.get("type", "text") in _TEXTS:
            text = part.get("text", part.get("refusal"))
        if not isinstance(text, str):
            raise NotAText(f"a part of type {_type_of(part)} is not a text")
        if is_system and text.startswith(_BILLING):
            text = text.partition("\n")[2]
            if not text:
                continue
        yield text


def _type_of(part: Any) -> str:
    return str(part.get("type")) if isinstance(part, dict) else type(part).__name__


def _call_of(call: Any) -> Any:
    """A tool call whose arguments are an object, as templates want them, and not JSON's text."""
    if not isinstance(call, dict) or not isinstance(function := call.get("function"), dict):
        return call
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except json.JSONDecodeError:
            arguments = {}
    return call | {
        "function": function | {"arguments": arguments if isinstance(arguments, dict) else {}}
    }


def _is_content(node: nodes.Node | None, names: Iterable[str]) -> bool:
    """Whether it is a message's content, or a part or filter of it."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value == "content"
    return isinstance(node, nodes.Name) and node.name in names


def _other_names(root: nodes.Template) -> Iterator[str]:
    """Parameters of macros that are given a content. Variables do not count, as for vLLM."""
    macros = {macro.name: macro for macro in root.find_all(nodes.Macro)}
    for call in root.find_all(nodes.Call):
        macro = macros.get(call.node.name) if isinstance(call.node, nodes.Name) else None
        if macro is None:
            continue
        for parameter, given in zip(macro.args, call.args, strict=False):
            if _is_content(given, ()):
                yield parameter.name
        yield from (named.key for named in call.kwargs if _is_content(named.value, ()))
