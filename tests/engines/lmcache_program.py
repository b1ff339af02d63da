"""Runs in LMCache's environment: storage managers and engines' backends, on the CPU.

Its argument: {"do": a function of this file, and its arguments}. Its last line: what that gives.
"""

import asyncio
import os
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ |= {
    "LMCACHE_LOG_LEVEL": "WARNING",
    "LMCACHE_TRACK_USAGE": "false",
    "OMP_NUM_THREADS": "1",
}

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.distributed.api import (
    GroupedObjectKeys,
    MemoryLayoutDesc,
    ObjectKey,
    PrefetchTaskSpec,
)
from lmcache.v1.distributed.config import (
    EvictionConfig,
    L1ManagerConfig,
    L1MemoryManagerConfig,
    StorageManagerConfig,
)
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.config import (
    L2AdaptersConfig,
    get_l2_adapter_config_class,
)
from lmcache.v1.distributed.storage_manager import StorageManager
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend import CreateStorageBackends
from program import call, question, tell

from bench.engines.serving import Daemon

SHAPE = torch.Size((2, 4, 64, 128))
BF16 = MemoryLayoutDesc([SHAPE], [torch.bfloat16])
FP16 = MemoryLayoutDesc([SHAPE], [torch.float16])
CHUNK_BYTES = SHAPE.numel() * 2
WAIT_S = 30


def keys_of(chunks: range, salt: str = "", model: str = "tiny") -> list[ObjectKey]:
    return [ObjectKey(chunk.to_bytes(32), model, 0, cache_salt=salt) for chunk in chunks]


def content(key: ObjectKey) -> torch.Tensor:
    """What a chunk holds: nothing else has it."""
    seed = zlib.crc32(key.chunk_hash + key.cache_salt.encode())
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


@contextmanager
def manager(adapter: dict[str, Any], l1_bytes: int = 256 << 20) -> Iterator[StorageManager]:
    config = get_l2_adapter_config_class(adapter["type"]).from_dict(adapter)
    memory = L1MemoryManagerConfig(size_in_bytes=l1_bytes, use_lazy=False)
    opened = StorageManager(
        StorageManagerConfig(
            l1_manager_config=L1ManagerConfig(memory_config=memory),
            eviction_config=EvictionConfig(eviction_policy="LRU"),
            l2_adapter_config=L2AdaptersConfig([config]),
        )
    )
    try:
        yield opened
    finally:
        opened.close()


def until(condition: Any) -> bool:
    end_s = time.monotonic() + WAIT_S
    while not (done := condition()) and time.monotonic() < end_s:
        time.sleep(0.005)
    return bool(done)


def store(manager: StorageManager, keys: list[ObjectKey]) -> None:
    """Through L1 to L2, and away from L1."""
    for key, one in manager.reserve_write(keys, BF16).items():
        one.tensor.copy_(content(key))
    manager.finish_write(keys)
    drop(manager, keys)


def drop(manager: StorageManager, keys: list[ObjectKey]) -> None:
    """From L1, once what is under way is over."""
    quiet_since_s = time.monotonic()

    def quiet() -> bool:
        """Nothing waits or is under way, and was not a moment ago.

        Between taking what waits and saying that it is under way a controller says neither.
        """
        nonlocal quiet_since_s
        for one in manager._store_controllers.values():
            status = one.report_status()
            if status["pending_keys_count"] or status["in_flight_task_count"]:
                quiet_since_s = time.monotonic()
        return time.monotonic() > quiet_since_s + 0.1

    until(quiet)
    manager.delete_l1_keys(keys)


def fetch(
    manager: StorageManager, keys: list[ObjectKey], layout: MemoryLayoutDesc = BF16
) -> dict[str, Any]:
    """What comes of a prefetch, and whether its bytes are what was stored."""
    handle = manager.submit_prefetch_task(PrefetchTaskSpec([GroupedObjectKeys(keys, 0, layout)]))
    result = None

    def over() -> bool:
        nonlocal result
        result = manager.query_prefetch_status(handle)
        return result is not None

    if not until(over):
        return {"hung": True}
    hits = result.hit_cells[0].gather(keys)
    if hits:
        with manager.read_prefetched_results(hits) as objects:
            raw = [one.tensor.view(torch.bfloat16) for one in objects]
            same = all(torch.equal(a, content(key)) for a, key in zip(raw, hits, strict=True))
        manager.finish_read_prefetched(hits)
    else:
        same = True
    return {"l1": result.l1_hit_count, "l2": result.l2_hit_count, "same": same}


def usage(manager: StorageManager) -> dict[str, int]:
    [(_, adapter)] = manager.l2_adapters()
    return dict(adapter.get_usage().bytes_by_cache_salt)


def round_trip(adapter: dict[str, Any]) -> dict[str, Any]:
    """Stores, fetches, looks through another salt and another dtype, deletes."""
    mine, other = keys_of(range(6), "mine"), keys_of(range(3), "others")
    with manager(adapter) as one:
        store(one, mine)
        told: dict[str, Any] = {"strangers": fetch(one, keys_of(range(6), "others"))}
        told["fetched"] = fetch(one, mine)
        store(one, other)
        told["usage"] = usage(one)
        drop(one, mine)
        told["other_dtype"] = fetch(one, mine, FP16)
        drop(one, mine)
        one.l2_adapters()[0][1].delete(mine[3:])
        told["usage_after_delete"] = usage(one)
        told["after_delete"] = fetch(one, mine)
        told["chunk_bytes"] = CHUNK_BYTES
    return told


def put(adapter: dict[str, Any], chunks: int, **more: str) -> None:
    with manager(adapter) as one:
        store(one, keys_of(range(chunks), **more))


def get(adapter: dict[str, Any], chunks: int, **more: str) -> list[dict[str, Any]]:
    """Each chunk for itself."""
    with manager(adapter) as one:
        return [fetch(one, keys_of(range(i, i + 1), **more)) for i in range(chunks)]


def evicted(adapter: dict[str, Any], chunks: int) -> dict[str, Any]:
    """More than the store has room for: what usage says, and what comes back."""
    with manager(adapter) as one:
        for first in range(0, chunks, 8):
            store(one, keys_of(range(first, first + 8)))
        used = usage(one)
        back = [fetch(one, keys_of(range(i, i + 1))) for i in range(chunks)]
    return {"usage": used, "back": back, "chunk_bytes": CHUNK_BYTES}


def there(l2: Any, keys: list[ObjectKey]) -> list[bool]:
    """Which chunks are in the store, whatever LMCache knows."""
    return l2._namespace("tiny", 0, 0, "").present([key.chunk_hash for key in keys])


def long_prompt(adapter: dict[str, Any], chunks: int) -> list[bool]:
    """Which chunks of a prompt are kept: it was looked up, then computed and stored in steps."""
    keys = keys_of(range(chunks))
    with manager(adapter) as one:
        fetch(one, keys)
        for first in range(0, chunks, 8):
            store(one, keys[first : first + 8])
        return there(one.l2_adapters()[0][1], keys)


class Listener:
    """Counts what LMCache hears of keys."""

    def __init__(self) -> None:
        self.heard: Counter[str] = Counter()

    def on_l2_keys_stored(self, keys: Any, sizes: Any) -> None:
        self.heard["stored"] += len(keys)

    def on_l2_keys_accessed(self, keys: Any) -> None:
        self.heard["accessed"] += len(keys)

    def on_l2_keys_deleted(self, keys: Any, sizes: Any) -> None:
        self.heard["deleted"] += len(keys)


def plain_objects(adapter: dict[str, Any]) -> dict[str, Any]:
    """Stores and loads objects as LMCache's own tests make them, twice, and deletes when closed."""
    config = get_l2_adapter_config_class(adapter["type"]).from_dict(adapter)
    l2, listener = create_l2_adapter(config), Listener()
    l2.register_listener(listener)
    shape = torch.Size((4, 100))
    keys = keys_of(range(2))

    def objects(value: int) -> list[Any]:
        raw = torch.full((1600,), value, dtype=torch.uint8)
        return [
            TensorMemoryObj(raw, MemoryObjMetadata(shape, torch.float32, 0, 1600, 1), None),
            SimpleNamespace(byte_array=memoryview(bytearray([value] * 1600))),
        ]

    source = objects(7)

    def stored() -> bool:
        task = l2.submit_store_task(keys, source)
        ended: dict = {}
        until(lambda: ended.update(l2.pop_completed_store_tasks()) or task in ended)
        return ended[task].is_successful()

    told: dict[str, Any] = {"stored": [stored(), stored()]}
    loaded = objects(0)
    task = l2.submit_load_task(keys, loaded)
    found: list = []
    until(lambda: found.append(l2.query_load_result(task)) or found[-1] is not None)
    told["loaded"] = [found[-1].test(i) for i in range(2)]
    told["bytes"] = [set(bytes(one.byte_array)) == {7} for one in loaded]
    told["heard"] = dict(listener.heard)
    l2.close()
    l2.delete(keys)
    return told


def promised(adapter: dict[str, Any], chunks: int) -> dict[str, Any]:
    """What a lookup found, while others fill the store; and when it was unlocked."""
    mine = keys_of(range(4))
    with manager(adapter) as one:
        [(_, l2)] = one.l2_adapters()
        store(one, mine)
        task = l2.submit_lookup_and_lock_task(mine, {0: BF16})
        found = None

        def over() -> bool:
            nonlocal found
            found = l2.query_lookup_and_lock_result(task)
            return found is not None

        until(over)
        for first in range(100, 100 + chunks, 8):
            store(one, keys_of(range(first, first + 8)))
        l2.delete(mine)
        kept = there(l2, mine)
        l2.submit_unlock(mine)
        until(lambda: l2.report_status()["leased_keys"] == 0)
        l2.delete(mine)
        left = there(l2, mine)
        return {"found": found.popcount(), "kept": kept, "left": left}


def restart(adapter: dict[str, Any], folder: str) -> dict[str, Any]:
    """Threads store and fetch while the daemon is killed, and started again."""
    stop = threading.Event()
    fetched: list[dict[str, Any]] = []

    def work(number: int) -> None:
        turn = 0
        while not stop.is_set():
            keys = keys_of(
                range(first := number * 1000 + turn % 6 * 4, first + 4), f"t{number % 2}"
            )
            store(one, keys)
            fetched.append(fetch(one, keys))
            drop(one, keys)
            turn += 1

    with Daemon(Path(folder)) as daemon, manager(adapter) as one:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: sum(told.get("l2", 0) for told in fetched) >= 40)
        daemon.kill()
        before = len(fetched)
        until(lambda: len(fetched) > before + 8)
        away = fetched[before:]
        daemon.start()
        again = len(fetched)
        back = until(lambda: sum(told.get("l2", 0) for told in fetched[again:]) >= 40)
        stop.set()
        for thread in threads:
            thread.join()
    return {
        "hung": sum("hung" in told for told in fetched),
        "wrong": sum(not told.get("same", True) for told in fetched),
        "away": len(away),
        "back": back,
    }


def stopped(adapter: dict[str, Any], folder: str) -> dict[str, Any]:
    """The daemon is stopped before chunks are stored, and goes on later."""
    first = keys_of(range(4))

    def stored() -> bool:
        # On a busy machine a store may not have begun when it is looked for.
        store(one, first)
        found = fetch(one, first).get("l2") == len(first)
        drop(one, first)
        return found

    with Daemon(Path(folder)) as daemon, manager(adapter) as one:
        until(stored)
        daemon.stop()
        try:
            store(one, keys_of(range(4, 8)))
            controllers = one._store_controllers.values()
            left = [each.report_status()["in_flight_task_count"] for each in controllers]
        finally:
            daemon.go_on()
        back = until(lambda: fetch(one, first).get("l2") == len(first))
    return {"left": sum(left), "back": back}


def refused(adapters: list[dict[str, Any]]) -> list[str]:
    """What is said of each wrong adapter."""
    said = []
    for adapter in adapters:
        try:
            with manager(adapter, 1 << 20):
                said.append("")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def engines_backends(
    config_file: str, store: dict[str, str], model: str = "tiny"
) -> tuple[Any, Any, Any]:
    """The backend of an engine's own LMCache, whose memory it reads into, and their loop."""
    config = LMCacheEngineConfig.from_file(config_file)
    config.chunk_size, config.max_local_cpu_size = 64, 0.1
    config.extra_config |= store
    metadata = LMCacheMetadata(
        model_name=model,
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.bfloat16,
        kv_shape=(4, 2, 64, 2, 64),
        chunk_size=64,
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    backends = CreateStorageBackends(config, metadata, loop, "cpu")
    return backends["nearkv"], backends["LocalCPUBackend"], loop


def without_daemon(config_file: str, folder: str) -> dict[str, Any]:
    """What the backend answers once its daemon is killed."""
    with Daemon(Path(folder)) as daemon:
        store = {"nearkv.socket": str(daemon.socket)}
        backend, local, loop = engines_backends(config_file, store)
        keys = [CacheEngineKey("tiny", 1, 0, i, torch.bfloat16) for i in range(3)]
        shape = torch.Size((2, 4, 64, 128))
        objs = [local.allocate(shape, torch.bfloat16, MemoryFormat.KV_2LTD) for _ in keys]
        for future in backend.batched_submit_put_task(keys, objs):
            future.result(WAIT_S)
        told: dict[str, Any] = {"there": backend.batched_contains(keys, pin=True)}
        daemon.kill()
        told["contains"] = backend.batched_contains(keys)
        told["got"] = [one is not None for one in backend.batched_get_blocking(keys)]
        later = backend.batched_get_non_blocking("lookup", keys)
        told["got_async"] = asyncio.run_coroutine_threadsafe(later, loop).result(WAIT_S)
        told["unpinned"] = [backend.unpin(key) for key in keys]
        told["removed"] = backend.remove(keys[0])
    return told


def in_process(config_file: str, uri: str, phase: str, **more: str) -> dict[str, Any]:
    """The backend of an engine's own LMCache: "put" in one process, "get" or "find" in the next."""
    backend, local, loop = engines_backends(config_file, {"nearkv.uri": uri}, **more)
    keys = [CacheEngineKey("tiny", 1, 0, i, torch.bfloat16) for i in range(1, 6)]
    tokens = [64, 64, 64, 64, 17]
    data = [
        torch.full((2, 4, n, 128), float(i), dtype=torch.bfloat16) for i, n in enumerate(tokens)
    ]
    told: dict[str, Any] = {}
    if phase == "put":
        objs = []
        for one in data:
            objs.append(local.allocate(one.shape, torch.bfloat16, MemoryFormat.KV_2LTD))
            objs[-1].tensor.copy_(one)
        heard: list = []
        for future in backend.batched_submit_put_task(keys, objs, None, heard.append):
            future.result(WAIT_S)
        told["heard"] = len(heard)
        told["references"] = [one.get_ref_count() for one in objs]
    told["contains"] = backend.batched_contains(
        [*keys, CacheEngineKey("tiny", 1, 0, 9, torch.bfloat16)]
    )
    if phase == "find":
        return told
    told["stranger"] = backend.contains(CacheEngineKey("tiny", 2, 0, 1, torch.bfloat16))

    def same(objs: list) -> list[bool]:
        return [
            one is not None and torch.equal(one.tensor, expected)
            for one, expected in zip(objs, data, strict=True)
        ]

    told["got"] = same(backend.batched_get_blocking(keys))
    later = backend.batched_get_non_blocking("lookup", keys)
    told["got_async"] = same(asyncio.run_coroutine_threadsafe(later, loop).result(WAIT_S))
    told["pinned"] = backend.batched_contains(keys[:2], pin=True)
    told["removed_pinned"] = backend.remove(keys[0], force=False)
    told["unpinned"] = [backend.unpin(key) for key in [*keys[:2], keys[0]]]
    if phase == "get":
        told["removed"] = [backend.remove(key) for key in keys]
        told["after_remove"] = [one is None for one in backend.batched_get_blocking(keys)]
    backend.close()
    loop.call_soon_threadsafe(loop.stop)
    return told


if __name__ == "__main__":
    tell(call(globals(), question()))
    os._exit(0)  # LMCache leaves threads behind.
