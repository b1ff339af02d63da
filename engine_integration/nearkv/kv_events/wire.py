"""KV events as vLLM, SGLang, Dynamo and llm-d write and read them.

A batch is [time in seconds, events, data-parallel rank]. An event is a map with its "type", or, as
it was before vLLM's and SGLang's of 2026, an array that begins with it.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

BlockHash = int | bytes
FORMS = ("map", "array")
HASHES = {
    # SGLang: the first 8 bytes of a SHA-256, signed. vLLM: the last 8, or all of it.
    "sglang": lambda key: int.from_bytes(key[:8], "big", signed=True),
    "vllm": lambda key: int.from_bytes(key[-8:], "big"),
    "bytes": bytes,
}
_FIELDS = {
    "BlockStored": (
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
    ),
    "BlockRemoved": ("block_hashes", "medium"),
    "AllBlocksCleared": (),
}
# What a hash covers beside tokens; where arrays have it, it stands behind the fields above.
_NAMESPACE = ("lora_id", "lora_name", "extra_keys", "cache_salt")


class BlockTokens(NamedTuple):
    """What a block's own hash does not tell."""

    parent: BlockHash | None
    token_ids: list[int]
    block_size: int


def number_of(block: BlockHash) -> int:
    """A block's 64 bits, whether signed, unsigned, or the last of a whole digest."""
    number = block if isinstance(block, int) else int.from_bytes(block[-8:], "big")
    return number & (2**64 - 1)


def encode_event(kind: str, form: str, **fields: Any) -> Any:
    """An event, ready for a batch; fields that are not given are null."""
    if form == "array":
        return [kind, *(fields.get(name) for name in _FIELDS[kind])]
    return {"type": kind} | {name: fields.get(name) for name in _FIELDS[kind]}


def encode_batch(events: Sequence[Any]) -> bytes:
    """A batch of now, of rank 0."""
    return msgspec.msgpack.encode([time.time(), events, 0])


def decode_batch(payload: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of each event, in either form, its type and fields; others than ours are left out.

    Of BlockStored also `is_namespaced`: whether its hashes cover more than tokens, such as a salt.
    msgspec.DecodeError or ValueError for what is no batch.
    """
    batch = msgspec.msgpack.decode(payload)
    if not isinstance(batch, list) or len(batch) < 2 or not isinstance(batch[1], list):
        raise ValueError("a batch of KV events is an array of a time and events")
    for event in batch[1]:
        if isinstance(event, dict):
            kind, fields = event.get("type"), event
            namespace = [event.get(name) for name in _NAMESPACE]
        elif isinstance(event, list) and event:
            kind = event[0]
            names = _FIELDS.get(kind, ()) if isinstance(kind, str) else ()
            fields = dict(zip(names, event[1:], strict=False))
            namespace = [fields.get("lora_id"), *event[1 + len(names) :]]
        else:
            raise ValueError("a KV event is a map or an array")
        if not isinstance(kind, str) or kind not in _FIELDS:
            continue
        known = {name: fields.get(name) for name in _FIELDS[kind]}
        if kind == "BlockStored":
            known["is_namespaced"] = any(map(_says_something, namespace))
        yield kind, known


def _says_something(value: Any) -> bool:
    return any(map(_says_something, value)) if isinstance(value, list) else value is not None
