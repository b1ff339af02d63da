"""Conversations as clients write them, and as a chat template gets them."""

import json
from typing import Any

import pytest

pytest.importorskip("jinja2")

from nearkv.router.conversation import NotAText, conversation_of, goes_through_parts

TEXTS = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
PARTS = (
    "{% for message in messages %}{% for part in message['content'] %}{{ part.text }}{% endfor %}"
    "{% endfor %}"
)
MACRO = (
    "{% macro show(of) %}{% for part in of %}{{ part.text }}{% endfor %}{% endmacro %}"
    "{% for message in messages %}{{ show(message.content) }}{% endfor %}"
)
ASSIGNED = (
    "{% for message in messages %}{% set body = message['content'] %}"
    "{% for part in body[1:] %}{{ part.text }}{% endfor %}{% endfor %}"
)
MARKED = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (TEXTS, False),
        (MARKED, False),
        ("{% for", False),
        (PARTS, True),
        (MACRO, True),
        (ASSIGNED, False),
        ("{% for part in content | list %}{{ part }}{% endfor %}", True),
    ],
)
def test_a_template_goes_through_parts_or_takes_a_text(template: str, expected: bool):
    assert goes_through_parts(template) == expected


@pytest.mark.quick
def test_texts_in_parts_become_one_text_unless_the_template_wants_them():
    parts = [{"type": "text", "text": "one"}, "two", {"type": "input_text", "text": "three"}]
    message = {"role": "user", "content": parts}
    assert conversation_of([message], TEXTS) == [{"role": "user", "content": "one\ntwo\nthree"}]
    (seen,) = conversation_of([message], PARTS)
    assert [part["text"] for part in seen["content"]] == ["one", "two", "three"]
    assert conversation_of([{"role": "user", "content": None}], TEXTS)[0]["content"] == ""
    tool = {"role": "tool", "content": parts, "tool_call_id": "7"}
    assert conversation_of([tool], PARTS) == [
        {"role": "tool", "content": "one\ntwo\nthree", "tool_call_id": "7"}
    ]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ('{"path": "a"}', {"path": "a"}),
        ({"path": "a"}, {"path": "a"}),
        ("", {}),
        (None, {}),
        ("{broken", {}),
        ("[1]", {}),
    ],
)
def test_arguments_of_tool_calls_are_objects(arguments: Any, seen: dict[str, str]):
    call = {"id": "1", "type": "function", "function": {"name": "read", "arguments": arguments}}
    before = json.dumps(call)
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    (told,) = conversation_of([message], TEXTS)
    assert told["tool_calls"][0]["function"] == {"name": "read", "arguments": seen}
    assert json.dumps(call) == before, "the client's body goes on as it was"
    assert "tool_calls" not in conversation_of([message | {"tool_calls": []}], TEXTS)[0]


@pytest.mark.quick
def test_only_what_templates_know_goes_on():
    message = {
        "role": "assistant",
        "content": "x",
        "reasoning": "why",
        "name": "n",
        "refusal": None,
    }
    assert conversation_of([message], TEXTS) == [
        {
            "role": "assistant",
            "content": "x",
            "reasoning": "why",
            "reasoning_content": "why",
            "name": "n",
        }
    ]
    system = {"role": "system", "content": "x-anthropic-billing-header: 1\nBe brief."}
    assert conversation_of([system], TEXTS)[0]["content"] == "Be brief."


@pytest.mark.quick
@pytest.mark.parametrize(
    "message",
    [
        "text",
        {"content": "x"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "user", "content": [{"type": "text", "text": 7}]},
    ],
)
def test_what_only_the_engine_can_tokenize_is_told(message: Any):
    with pytest.raises(NotAText):
        conversation_of([message], TEXTS)
