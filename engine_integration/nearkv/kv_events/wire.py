"""KV events as vLLM, SGLang, Dynamo and llm-d write and read them.

A batch is [time in seconds, events, data-parallel rank]. An event is a map with its "type", or, as
it was before vLLM's and SGLang's of 2026, an array that begins with it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

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
    # lora_name and what follows: of later versions, so that arrays end where nothing more is said.
    "BlockStored": (
        *("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
        *("lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind", "cache_salt"),
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx"),
    "AllBlocksCleared": (),
}
_ALWAYS_SAID = {"BlockStored": 6, "BlockRemoved": 2, "AllBlocksCleared": 0}


class BlockTokens(NamedTuple):
    """What a block's own hash does not tell."""

    parent: BlockHash | None
    token_ids: list[int]
    block_size: int
    covered: Mapping[str, Any]
    """What its hash covers beside tokens, as fields of an event."""


class _Head(msgspec.Struct, array_like=True):
    time_s: Any
    events: msgspec.Raw
    rank: Annotated[int, msgspec.Meta(ge=0, lt=1024)] | None = None


def number_of(block: BlockHash) -> int:
    """A block's 64 bits, whether signed, unsigned, or the last of a whole digest."""
    number = block if isinstance(block, int) else int.from_bytes(block[-8:], "big")
    return number & (2**64 - 1)


def encode_event(kind: str, form: str, **fields: Any) -> Any:
    """An event, ready for a batch; of fields that are not given, the older ones are null."""
    names, always = _FIELDS[kind], _ALWAYS_SAID[kind]
    if form == "array":
        given = [place for place, name in enumerate(names, 1) if fields.get(name) is not None]
        return [kind, *(fields.get(name) for name in names[: max([always, *given])])]
    # vLLM's own classes do not read a BlockStored without a lora_name.
    said = {*names[:always], "lora_name"} & {*names}
    return {"type": kind} | {
        name: fields.get(name) for name in names if name in said or fields.get(name) is not None
    }


def encode_batch(events: Sequence[Any]) -> bytes:
    """A batch of now, of rank 0."""
    return msgspec.msgpack.encode([time.time(), events, 0])


def endpoint_of_rank(endpoint: str, rank: int) -> str:
    """Where vLLM's and SGLang's ranks above 0 publish: as many ports behind rank 0's.

    ValueError for an endpoint without a port.
    """
    place, _, port = endpoint.rpartition(":")
    return f"{place}:{int(port) + rank}" if endpoint and rank else endpoint


def rank_of(batch: bytes) -> int:
    """The data-parallel rank that a batch is of; 0 where none is named.

    msgspec.DecodeError for what is no batch.
    """
    return msgspec.msgpack.decode(batch, type=_Head).rank or 0


def decode_batch(payload: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of each event, in either form, its type and fields; others than ours are left out.

    Of BlockStored `token_ids` is empty unless they are those of exactly these blocks: groups with a
    window tell of all tokens and of the last blocks. Added is what the hashes cover beside tokens:
    `salt` and `adapter`, which are names or empty; `covers_more`, whether there is, or may be,
    something else, such as an image; and `is_told`, whether the event says all of it.
    msgspec.DecodeError, ValueError or TypeError for what is no batch.
    """
    events = msgspec.msgpack.decode(msgspec.msgpack.decode(payload, type=_Head).events)
    if not isinstance(events, list):
        raise ValueError("a batch of KV events is an array of a time and events")
    for event in events:
        if isinstance(event, dict):
            kind, fields = event.get("type"), event
        elif isinstance(event, list) and event:
            kind = event[0]
            names = _FIELDS.get(kind, ()) if isinstance(kind, str) else ()
            fields = dict(zip(names, event[1:], strict=False))
        else:
            raise ValueError("a KV event is a map or an array")
        if not isinstance(kind, str) or kind not in _FIELDS:
            continue
        known = {name: fields.get(name) for name in _FIELDS[kind]}
        if kind == "BlockStored":
            tokens = known["block_size"] and len(known["block_hashes"]) * known["block_size"]
            if not tokens or len(known["token_ids"] or ()) != tokens:
                known["token_ids"] = []
            known |= _covered(known)
        yield kind, known


def _covered(fields: dict[str, Any]) -> dict[str, Any]:
    adapter, salt = fields["lora_name"] or "", fields["cache_salt"] or ""
    blocks = [list(each or ()) for each in fields["extra_keys"] or ()]
    for block in blocks:
        if adapter in block:
            block.remove(adapter)
    if fields["parent_block_hash"] is None and blocks and blocks[0]:
        salt = blocks[0].pop() if isinstance(blocks[0][-1], str) else salt
    # Who tells of blocks that left the GPU may not know of salts and images (vLLM's connectors).
    is_told = bool(blocks) or (fields["medium"] or "GPU") == "GPU"
    has_unnamed_adapter = fields["lora_id"] is not None and not adapter
    more = not is_told or has_unnamed_adapter or any(blocks)
    return {"salt": salt, "adapter": adapter, "covers_more": more, "is_told": is_told}
