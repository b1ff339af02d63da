"""KV blocks as opaque objects, found by key: what a serving engine's tier asks for.

with ObjectStore.create("cpu:/dev/shm/blocks?memory=8GiB") as store:
    blocks = store.namespace("llama-3-8b", "bf16", "LBHNC")
    blocks.set([key0, key1], [tensor0, tensor1], chain=True).check()
    blocks.match_prefix([key0, key1, key2])                    # 2
    blocks.get([key0, key2], [target0, target1]).bitmap        # [True, False]
    await blocks.get_async([key1], [target1])
    blocks[key0]                                               # a bytearray

Keys are bytes of any length from 1 on, or the rows of an array of uint8. Memory is anything that
lends its own through the buffer protocol or DLPack (numpy arrays, torch tensors in host memory,
memoryview, mmap), one piece or a list of pieces per key; nothing is copied on the way, and it is
held until the job is over. One key with its memory may stand for a list of one.

Thousands of pages of a cache are named at once:

    pages = Pages(layers)                       # once: arrays [blocks, ...], one for each layer
    blocks.set(keys, pages.of([17, 4, 23]))     # each object is a block's pages, in all layers

What is wrong with one item is that item's status in the JobResult; Error is raised for what is
wrong with a whole call. All calls may be made from any thread and any event loop, and release the
GIL.
"""

from _nearkv import (
    NamespaceInfo,
    ObjectInfo,
    ObjectStoreStats,
    PageList,
    Pages,
    StoreEvent,
    StoreEventKind,
    VerifyProgress,
)
from nkv_abi import MAX_OBJECT_BYTES, MAX_OBJECT_PARTS, Status

from nearkv.core import Error
from nearkv.store.jobs import PATIENCE_S, Job, JobResult
from nearkv.store.namespace import Lease, Namespace
from nearkv.store.object_store import ObjectStore

__all__ = [
    "MAX_OBJECT_BYTES",
    "MAX_OBJECT_PARTS",
    "PATIENCE_S",
    "Error",
    "Job",
    "JobResult",
    "Lease",
    "Namespace",
    "NamespaceInfo",
    "ObjectInfo",
    "ObjectStore",
    "ObjectStoreStats",
    "PageList",
    "Pages",
    "Status",
    "StoreEvent",
    "StoreEventKind",
    "VerifyProgress",
]
