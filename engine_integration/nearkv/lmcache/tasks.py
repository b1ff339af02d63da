"""Stores and loads of LMCache's L2 on their way, and the layouts that they are compared by."""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters.base import L2TaskId
from lmcache.v1.memory_management import MemoryObj

from nearkv.store import Namespace

LAYOUT_BYTES = 16


@dataclass
class TransferTask:
    """A store or load on its way."""

    id: L2TaskId
    is_load: bool
    keys: list[ObjectKey]
    sizes_bytes: list[int]
    jobs_left: int = 1  # One stands for those that have not been submitted.
    whole: list[bool] = field(init=False)
    new_bytes: int = 0

    def __post_init__(self) -> None:
        self.whole = [False] * len(self.keys)


@dataclass
class NamespacePart:
    """What of a task lies in one namespace, and so is one job."""

    task: TransferTask
    space: Namespace
    places: list[int]
    layouts: list[bytes]
    headers: list[bytes | bytearray]  # Of loads, the layouts that come from the store.


def bitmap_of(bits: list[bool]) -> Bitmap:
    """As LMCache has it."""
    bitmap = Bitmap(len(bits))
    for place, bit in enumerate(bits):
        if bit:
            bitmap.set(place)
    return bitmap


def layout_of(one: MemoryObj) -> bytes:
    """The same for objects of the same shapes and dtypes only."""
    return _layout(tuple(one.get_shapes()), tuple(one.get_dtypes()))


@lru_cache
def _layout(shapes: tuple[torch.Size, ...], dtypes: tuple[torch.dtype, ...]) -> bytes:
    text = repr([(tuple(shape), str(dtype)) for shape, dtype in zip(shapes, dtypes, strict=True)])
    return hashlib.sha256(text.encode()).digest()[:LAYOUT_BYTES]
