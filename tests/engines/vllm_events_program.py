"""Runs in vLLM's environment: what its own KV cache manager tells of prompts, and what it has.

Its argument: {"engines": [..], "ours": a batch of our publisher's, as hex}. Each engine is
{"requests": [{"tokens", "salt", "adapter", "image_at"}, ..], of which only the tokens must be
there, "groups": [[block size, window or 0], ..], "hash_size", "blocks": in all}; it computes the
requests one after the other, in pieces of four large blocks. Its last line: {"engines": of each
{"batches": as hex, one of each request, "hits": tokens of each that could be used afterwards,
"whole": tokens of each that the first group of full attention has}, "ours": the batch's events as
vLLM's own classes read them}.
"""

from typing import Any

import msgspec
import torch
from program import question, tell
from vllm.distributed.kv_events import KVEventBatch
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.request import Request

IMAGE_TOKENS = 8


def manager_of(groups: list[list[int]], hash_size: int, blocks: int) -> KVCacheManager:
    heads = {"num_kv_heads": 1, "head_size": 8, "dtype": torch.float32}
    specs = [
        SlidingWindowSpec(block_size=size, sliding_window=window, **heads)
        if window
        else FullAttentionSpec(block_size=size, **heads)
        for size, window in groups
    ]
    named = [KVCacheGroupSpec([f"layer{place}"], spec) for place, spec in enumerate(specs)]
    return KVCacheManager(
        KVCacheConfig(blocks, [], named),
        max_model_len=4096,
        scheduler_block_size=max(size for size, _ in groups),
        hash_block_size=hash_size,
        enable_kv_cache_events=True,
    )


def request_of(number: int, asked: dict[str, Any], hash_size: int) -> Request:
    adapter, image_at = asked.get("adapter"), asked.get("image_at")
    image = [
        MultiModalFeatureSpec(
            data=None,
            modality="image",
            identifier="digest of an image",
            mm_position=PlaceholderRange(offset=image_at, length=IMAGE_TOKENS),
        )
    ]
    return Request(
        str(number),
        asked["tokens"],
        SamplingParams(max_tokens=1),
        None,
        mm_features=[] if image_at is None else image,
        lora_request=LoRARequest(adapter, 1, f"/adapters/{adapter}") if adapter else None,
        cache_salt=asked.get("salt"),
        block_hasher=get_request_block_hasher(hash_size, sha256),
    )


def compute(manager: KVCacheManager, request: Request, step: int) -> str:
    """Its batch of events, as hex."""
    blocks, hit, _ = manager.get_computed_blocks(request)
    known = {"num_new_computed_tokens": hit, "new_computed_blocks": blocks}
    for first in range(hit, request.num_tokens, step):
        new = min(step, request.num_tokens - first)
        assert manager.allocate_slots(request, new, **known) is not None
        request.num_computed_tokens = first + new
        known = {}
    manager.free(request)
    batch = KVEventBatch(ts=0.0, events=manager.take_events(), data_parallel_rank=0)
    return msgspec.msgpack.encode(batch).hex()


def whole(manager: KVCacheManager, request: Request, group: int, size: int, hash_size: int) -> int:
    """Tokens at a request's beginning that a group has."""
    step = size // hash_size
    for place, block in enumerate(request.block_hashes[step - 1 :: step]):
        if manager.block_pool.get_cached_block(block, [group]) is None:
            return place * size
    return request.num_tokens // size * size


def run(requests: list[dict[str, Any]], groups: Any, hash_size: int, blocks: int) -> dict[str, Any]:
    init_none_hash(sha256)
    manager = manager_of(groups, hash_size, blocks)
    asked = [request_of(number, each, hash_size) for number, each in enumerate(requests)]
    step = 4 * max(size for size, _ in groups)
    group = next(place for place, (_, window) in enumerate(groups) if not window)
    return {
        "batches": [compute(manager, each, step) for each in asked],
        "hits": [manager.get_computed_blocks(each)[1] for each in asked],
        "whole": [whole(manager, each, group, groups[group][0], hash_size) for each in asked],
    }


if __name__ == "__main__":
    asked = question()
    ours = msgspec.msgpack.decode(bytes.fromhex(asked["ours"]), type=KVEventBatch)
    engines = [run(**each) for each in asked["engines"]]
    tell({"engines": engines, "ours": msgspec.to_builtins(ours.events)})
