"""Runs in vLLM's environment: what vLLM makes of conversations before a chat template sees them.

Its argument: {"templates": [..], "conversations": [..]}. Its last line: {"in_parts": of each
template, "seen": of each conversation [as texts, in parts]}.
"""

from types import SimpleNamespace

from program import question, tell
from vllm.renderers.chat_utils import parse_chat_messages
from vllm.renderers.hf import _detect_content_format

MODEL = SimpleNamespace(multimodal_config=None, enable_prompt_embeds=False)
FORMATS = "string", "openai"

if __name__ == "__main__":
    asked = question()
    tell(
        {
            "in_parts": [
                _detect_content_format(template, default="string") == "openai"
                for template in asked["templates"]
            ],
            "seen": [
                [parse_chat_messages(messages, MODEL, form)[0] for form in FORMATS]
                for messages in asked["conversations"]
            ],
        }
    )
