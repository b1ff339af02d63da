"""LMCache's backends of one engine, in this process: local CPU, local disk, DAX on a file.

usage: lmcache_worker.py cpu|disk|dax ...
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import worker

os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import (
    MemoryFormat,
    MemoryObjMetadata,
    TensorMemoryObj,
)
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.dax.core import DaxCore
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
from lmcache.v1.storage_backend.local_disk_backend import LocalDiskBackend

_GIB = 1 << 30


def _key(text: str) -> CacheEngineKey:
    return CacheEngineKey("bench", 1, 0, int(text, 16), torch.uint8)


def _keys(texts: Sequence[str]) -> list[CacheEngineKey]:
    return [_key(text) for text in texts]


def _tensor(view: memoryview) -> torch.Tensor:
    return torch.frombuffer(view, dtype=torch.uint8)


def _wrapped(view: memoryview) -> TensorMemoryObj:
    """An object of LMCache's over the caller's memory, so that nothing is staged."""
    tensor = _tensor(view)
    metadata = MemoryObjMetadata(
        shape=tensor.shape,
        dtype=torch.uint8,
        address=0,
        phy_size=len(view),
        ref_count=1,
        fmt=MemoryFormat.KV_2LTD,
        shapes=[tensor.shape],
        dtypes=[torch.uint8],
    )
    return TensorMemoryObj(tensor, metadata, None)


def _cpu_backend(memory: worker.Memory, **options: object) -> LocalCPUBackend:
    total = len(memory.sources) * memory.object_bytes
    config = LMCacheEngineConfig.from_defaults(
        local_cpu=True, max_local_cpu_size=(total + total // 4) / _GIB + 0.25, **options
    )
    metadata = LMCacheMetadata(
        model_name="bench",
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.uint8,
        kv_shape=(1, 1, 1, 1, memory.object_bytes),
        chunk_size=1,
    )
    return LocalCPUBackend(config, metadata, dst_device="cpu")


class CpuStore:
    """A put is an allocation and a copy; LMCache has no checksums."""

    def __init__(self, memory: worker.Memory, folder: Path) -> None:
        del folder
        self._backend = _cpu_backend(memory)
        self._shape = torch.Size([memory.object_bytes])

    def set(self, keys: Sequence[str], sources: Sequence[memoryview]) -> None:
        """Allocates, copies, publishes."""
        objects = self._backend.batched_allocate(
            self._shape, torch.uint8, len(keys), MemoryFormat.KV_2LTD
        )
        for one, source in zip(objects, sources, strict=True):
            one.tensor.copy_(_tensor(source))
        self._backend.batched_submit_put_task(_keys(keys), objects)
        for one in objects:
            one.ref_count_down()

    def get(self, keys: Sequence[str], targets: Sequence[memoryview]) -> None:
        """Finds and copies out."""
        for key, target in zip(keys, targets, strict=True):
            found = self._backend.get_blocking(_key(key))
            _tensor(target).copy_(found.tensor)
            found.ref_count_down()

    def exists(self, keys: Sequence[str]) -> int:
        """One question each."""
        return sum(self._backend.contains(_key(key)) for key in keys)

    def clear(self, keys: Sequence[str]) -> None:
        """Frees the memory too."""
        for key in keys:
            self._backend.remove(_key(key))

    def close(self) -> None:
        """Nothing that the process does not."""


class DiskStore:
    """A file an object, written by one thread, not synced."""

    def __init__(self, memory: worker.Memory, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        options = {
            "local_disk": str(folder / "lmcache"),
            # A number alone: LMCache 0.5.6 goes on counting what has been removed.
            "max_local_disk_size": 1 << 20,
            "extra_config": {"disk_io_threads": 1},
        }
        cpu = _cpu_backend(memory, **options)
        self._disk = LocalDiskBackend(cpu.config, self._loop, cpu, "cpu", metadata=cpu.metadata)

    def set(self, keys: Sequence[str], sources: Sequence[memoryview]) -> None:
        """Submits and waits until all are in files."""
        mine = _keys(keys)
        self._disk.batched_submit_put_task(mine, [_wrapped(source) for source in sources])
        while any(self._disk.exists_in_put_tasks(key) for key in mine):
            time.sleep(0.0001)

    def get(self, keys: Sequence[str], targets: Sequence[memoryview]) -> None:
        """Reads into LMCache's memory and copies to where it is wanted."""
        found = self._disk.batched_get_blocking(_keys(keys))
        for one, target in zip(found, targets, strict=True):
            _tensor(target).copy_(one.tensor)
            one.ref_count_down()

    def exists(self, keys: Sequence[str]) -> int:
        """One question each."""
        return sum(self._disk.contains(_key(key)) for key in keys)

    def clear(self, keys: Sequence[str]) -> None:
        """Removes the files."""
        for key in keys:
            self._disk.remove(_key(key))

    def close(self) -> None:
        """Ends its threads."""
        self._disk.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class DaxStore:
    """The core of the DAX backends over a file of shared memory; slots as large as the objects."""

    def __init__(self, memory: worker.Memory, folder: Path) -> None:
        total = (len(memory.sources) + 16) * memory.object_bytes
        self._file = folder / "lmcache.dax"
        with self._file.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, total)
        self._core: DaxCore[CacheEngineKey] = DaxCore(
            device_path=str(self._file), max_dax_size_bytes=total, slot_bytes=memory.object_bytes
        )

    def set(self, keys: Sequence[str], sources: Sequence[memoryview]) -> None:
        """One put_many."""
        if not all(self._core.put_many(_keys(keys), [_wrapped(one) for one in sources])):
            raise RuntimeError("not stored")

    def get(self, keys: Sequence[str], targets: Sequence[memoryview]) -> None:
        """One load_many_into."""
        if not all(self._core.load_many_into(_keys(keys), [_wrapped(one) for one in targets])):
            raise RuntimeError("not loaded")

    def exists(self, keys: Sequence[str]) -> int:
        """One exists_many."""
        return sum(self._core.exists_many(_keys(keys)))

    def clear(self, keys: Sequence[str]) -> None:
        """One delete_many."""
        self._core.delete_many(_keys(keys), force=True)

    def close(self) -> None:
        """Removes the file."""
        self._core.close()
        self._file.unlink()


if __name__ == "__main__":
    torch.set_num_threads(1)
    kinds = {"cpu": CpuStore, "disk": DiskStore, "dax": DaxStore}
    worker.serve(kinds[sys.argv.pop(1)])
