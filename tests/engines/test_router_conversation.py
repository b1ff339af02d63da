"""The router's conversations beside vLLM's own, field by field of the chat API."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")

from bench.engines.environment import Environment
from engine_integration.tests.test_router_conversation import ASSIGNED, MACRO, MARKED, PARTS, TEXTS
from nearkv.router.conversation import conversation_of, goes_through_parts

PROGRAM = Path(__file__).parent / "vllm_conversation_program.py"
TEMPLATES = [TEXTS, PARTS, MACRO, ASSIGNED, MARKED]
TEXT = {"type": "text", "text": "one"}
CALL = {"id": "1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "plain": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}],
    "parts": [{"role": "user", "content": [TEXT, {"type": "text", "text": "two"}]}],
    "a part that is a text": [{"role": "user", "content": ["one", TEXT]}],
    "no content": [{"role": "assistant", "content": None}],
    "refusal": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
    "names": [{"role": "user", "content": "one", "name": "ann"}],
    "reasoning": [{"role": "assistant", "content": "one", "reasoning": "why"}],
    "calls": [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": [TEXT]},
    ],
    "calls without arguments": [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [CALL | {"function": {"name": "read", "arguments": given}}],
        }
        for given in ("", "[1]", "{broken")
    ],
    "no calls": [{"role": "assistant", "content": "one", "tool_calls": []}],
    "developer": [{"role": "developer", "content": "one"}],
    "billing": [{"role": "system", "content": "x-anthropic-billing-header: 1\nBe brief."}],
}


@pytest.fixture(scope="module")
def of_vllm(vllm: Environment) -> dict[str, Any]:
    question = {"templates": TEMPLATES, "conversations": list(CONVERSATIONS.values())}
    return vllm.run(PROGRAM, question, timeout_s=120)


def test_templates_are_told_apart_as_vllm_does(of_vllm: dict[str, Any]) -> None:
    assert [goes_through_parts(template) for template in TEMPLATES] == of_vllm["in_parts"]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_template_sees_what_vllm_would_show_it(of_vllm: dict[str, Any], name: str) -> None:
    place = list(CONVERSATIONS).index(name)
    for template, seen in zip((TEXTS, PARTS), of_vllm["seen"][place], strict=True):
        assert conversation_of(CONVERSATIONS[name], template) == seen
