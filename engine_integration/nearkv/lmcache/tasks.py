"""Stores and loads of LMCache's L2 on their way, and the layouts that they are compared by."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from lmcache.lmcache_native import Bitmap
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters.base import L2TaskId
from lmcache.v1.memory_management import MemoryObj

from nearkv.store import Namespace

LAYOUT_BYTES = 16
# How LMCache's own kinds of objects say that they know no shapes, or no shape.
_UNTOLD = AssertionError, AttributeError, NotImplementedError


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
    """The same for objects of the same shapes and dtypes only, or sizes where they tell none."""
    with suppress(*_UNTOLD):
        return _layout(tuple(one.get_shapes()), tuple(one.get_dtypes()))
    with suppress(*_UNTOLD):
        return _layout((one.get_shape(),), (one.get_dtype(),))
    return _layout((torch.Size([len(one.byte_array)]),), (torch.uint8,))


@lru_cache
def _layout(shapes: tuple[torch.Size, ...], dtypes: tuple[torch.dtype, ...]) -> bytes:
    text = repr([(tuple(shape), str(dtype)) for shape, dtype in zip(shapes, dtypes, strict=True)])
    return hashlib.sha256(text.encode()).digest()[:LAYOUT_BYTES]
