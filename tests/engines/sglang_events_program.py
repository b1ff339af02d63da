"""Runs in SGLang's environment: batches as its cache tells of a prompt that it has stored.

Its argument: {"tokens": [..], "page_size", "salt", "adapter"}. Its last line: the batches, as hex,
of the prompt as it is, with the salt, and with the adapter.
"""

import array
from types import SimpleNamespace
from typing import Any

import msgspec
import sglang_absent  # noqa: F401
from program import question, tell
from sglang.srt.disaggregation.kv_events import KVEventBatch
from sglang.srt.mem_cache.events import KVCacheEventRecorder
from sglang.srt.mem_cache.radix_cache import RadixKey

LORA_ID = "0123456789abcdef"


def batch(tokens: list[int], page_size: int, adapter: str = "", **named: str) -> str:
    """Of one node of the radix tree, below its root."""
    recorder = KVCacheEventRecorder(enabled=True, page_size=page_size)
    if adapter:
        named["extra_key"] = LORA_ID
        recorder.lora_names.register(SimpleNamespace(lora_id=LORA_ID, extra_key=LORA_ID), adapter)
    root = node(RadixKey(array.array("q"), **named), None, [])
    recorder.record_store(node(RadixKey(array.array("q", tokens), **named), root, None))
    encoded = msgspec.msgpack.encode(KVEventBatch(ts=0.0, events=recorder.take(), attn_dp_rank=1))
    return encoded.hex()


def node(key: RadixKey, parent: Any, hashes: Any) -> SimpleNamespace:
    return SimpleNamespace(key=key, parent=parent, hash_value=hashes, event_hash_value=hashes)


if __name__ == "__main__":
    asked = question()
    prompt = asked["tokens"], asked["page_size"]
    salted = batch(*prompt, cache_salt=asked["salt"])
    tell([batch(*prompt), salted, batch(*prompt, asked["adapter"])])
