"""The side of a peer that is measured: moves objects on orders from standard input.

Runs inside the peer's own environment and so imports nothing but the standard library. The orders
and replies are in README.md; `nearkv_tier_bench turns` speaks the same.
"""

import argparse
import json
import mmap
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol


class Store(Protocol):
    """What is measured. Each call moves all objects that it names before it returns."""

    def set(self, keys: Sequence[str], sources: Sequence[memoryview]) -> None:
        """Stores each object from the caller's memory."""

    def get(self, keys: Sequence[str], targets: Sequence[memoryview]) -> None:
        """Loads each object into the caller's memory; raises if one is not there."""

    def exists(self, keys: Sequence[str]) -> int:
        """How many of the objects are there."""

    def clear(self, keys: Sequence[str]) -> None:
        """Drops those of the objects that are there."""

    def close(self) -> None:
        """Ends servers and removes files that were made for it."""


class Memory:
    """The caller's sources and targets; page-aligned, all pages touched."""

    def __init__(self, objects: int, object_bytes: int) -> None:
        self.object_bytes = object_bytes
        self.source_map = mmap.mmap(-1, objects * object_bytes)
        self.target_map = mmap.mmap(-1, objects * object_bytes)
        for one in (self.source_map, self.target_map):
            one.madvise(mmap.MADV_HUGEPAGE)
        random_bytes = random.Random(1).randbytes
        for _ in range(objects):
            self.source_map.write(random_bytes(object_bytes))
            self.target_map.write(bytes(object_bytes))
        self.sources = self._views(self.source_map, objects)
        self.targets = self._views(self.target_map, objects)

    def _views(self, memory: mmap.mmap, objects: int) -> list[memoryview]:
        view, size = memoryview(memory), self.object_bytes
        return [view[i * size : (i + 1) * size] for i in range(objects)]


class _Turns:
    def __init__(self, store: Store, memory: Memory, batch: int) -> None:
        self._store = store
        self._memory = memory
        count = len(memory.sources)
        order = list(range(count))
        random.Random(1).shuffle(order)
        keys = [f"{i:064x}" for i in range(count)]
        self._batches = []
        for first in range(0, count, batch):
            chosen = order[first : first + batch]
            # Targets in another order than sources, as engines' free blocks are.
            places = [order[count - 1 - i] for i in range(first, first + len(chosen))]
            self._batches.append(
                (
                    [keys[i] for i in chosen],
                    [memory.sources[i] for i in chosen],
                    [memory.targets[i] for i in places],
                )
            )

    def take(self, order: str) -> dict[str, object]:
        """The reply to one order."""
        work = {
            "set": self._set,
            "get": self._get,
            "exists": self._exists,
            "clear": self._clear,
            "verify": self._verify,
        }.get(order)
        if work is None:
            return {"error": f"no such order: {order}"}
        start_ns = time.perf_counter_ns()
        work()
        seconds = (time.perf_counter_ns() - start_ns) * 1e-9
        count = len(self._memory.sources)
        moved = count * self._memory.object_bytes if order in ("set", "get") else 0
        return {"seconds": seconds, "bytes": moved, "objects": count}

    def _set(self) -> None:
        for keys, sources, _ in self._batches:
            self._store.set(keys, sources)

    def _get(self) -> None:
        for keys, _, targets in self._batches:
            self._store.get(keys, targets)

    def _exists(self) -> None:
        for keys, _, _ in self._batches:
            if self._store.exists(keys) != len(keys):
                raise RuntimeError("an object is gone")

    def _clear(self) -> None:
        for keys, _, _ in self._batches:
            self._store.clear(keys)

    def _verify(self) -> None:
        for _, sources, targets in self._batches:
            for source, target in zip(sources, targets, strict=True):
                if source != target:
                    raise RuntimeError("a get returned other bytes than were set")
                target[:] = bytes(len(target))


def serve(make_store: Callable[[Memory, Path], Store]) -> None:
    """Makes the store and takes orders until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--object-bytes", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="for files and sockets")
    options = parser.parse_args()
    # What libraries print is no reply.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(document: dict[str, object]) -> None:
        print(json.dumps(document), file=replies, flush=True)

    memory = Memory(options.objects, options.object_bytes)
    store = make_store(memory, options.folder)
    try:
        turns = _Turns(store, memory, options.batch)
        reply({"ready": True})
        for line in sys.stdin:
            reply(turns.take(line.strip()))
    finally:
        store.close()
