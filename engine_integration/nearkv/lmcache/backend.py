"""The storage plug-in of the LMCache that runs inside an engine."""

import asyncio
import contextlib
import hashlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from lmcache.logging import init_logger
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryFormat, MemoryObj
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.abstract_backend import StoragePluginInterface
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

from nearkv.core import Error
from nearkv.lmcache.leases import Leases
from nearkv.lmcache.order import ChunkOrder
from nearkv.lmcache.settings import LeasingSettings
from nearkv.store import PATIENCE_S, JobResult, Namespace, Status
from nearkv.store.model_identity import model_identity

logger = init_logger(__name__)

_PREFIX = "nearkv."  # Of our options in LMCache's extra_config.


@dataclass
class _Read:
    """A read on its way."""

    objs: list[MemoryObj | None]
    space: Namespace = field(init=False)
    names: list[bytes] = field(default_factory=list)
    buffers: list[memoryview] = field(default_factory=list)
    result: JobResult | None = None

    def keep_whole(self) -> None:
        """Gives up objects that were not filled."""
        filled = iter(
            zip(self.result.bitmap, self.result.object_bytes, strict=True) if self.result else ()
        )
        for place, one in enumerate(self.objs):
            if one is None:
                continue
            ok, object_bytes = next(filled, (False, 0))
            if not ok or object_bytes != one.get_size():
                one.ref_count_down()
                self.objs[place] = None


class NearKVBackend(StoragePluginInterface):
    """Chunks by LMCache's keys; one that is damaged is a miss.

    Bytes are copied once, between the store and LMCache's own memory. Chunks of another model,
    dtype, shape or parallelism are never found. What `pin` found is leased until `unpin`, or for
    `lease_s`. Thread safety: all calls.
    """

    def __init__(
        self,
        config: LMCacheEngineConfig,
        metadata: LMCacheMetadata,
        local_cpu_backend: LocalCPUBackend | None,
        loop: asyncio.AbstractEventLoop,
        dst_device: str = "cpu",
    ) -> None:
        """See LeasingSettings for the options. ValueError or nearkv.core.Error if it cannot be."""
        super().__init__(dst_device, config, metadata, local_cpu_backend, loop)
        if config.use_layerwise:
            raise ValueError("a NearKV backend stores whole chunks: set use_layerwise to false")
        if local_cpu_backend is None and metadata.role != "scheduler":
            raise ValueError("a NearKV backend reads into LMCache's memory: set max_local_cpu_size")
        given = (config.extra_config or {}).items()
        settings = {name.removeprefix(_PREFIX): x for name, x in given if name.startswith(_PREFIX)}
        self._options = LeasingSettings.parse("a NearKV backend", settings)
        self._model = model_identity(metadata.model_name, self._options.model_version)
        self._store = self._options.open()
        self._spaces: dict[tuple[str, str], Namespace] = {}
        self._leases = Leases()
        self._order = ChunkOrder()
        self._putting: set[CacheEngineKey] = set()
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "NearKVBackend"

    def contains(self, key: CacheEngineKey, pin: bool = False) -> bool:
        """Whether the chunk is there; with `pin` it is kept."""
        return self.batched_contains([key], pin) == 1

    def batched_contains(self, keys: list[CacheEngineKey], pin: bool = False) -> int:
        """How many chunks from the first on are there; with `pin` they are kept."""
        try:
            space = self._space()
            names = _names(keys)
            self._order.learn(names)
            if not pin:
                return space.exists(names)
            lease = space.pin(names, self._options.lease_s)
        except Error as error:
            logger.warning("NearKV backend: %s", error)
            return 0
        missing = (i for i, status in enumerate(lease.statuses) if status != Status.OK)
        there = next(missing, len(keys))
        with self._lock:
            self._leases.add(lease, keys[:there])
        return there

    async def batched_async_contains(
        self, lookup_id: str, keys: list[CacheEngineKey], pin: bool = False
    ) -> int:
        """As batched_contains()."""
        return self.batched_contains(keys, pin)

    def exists_in_put_tasks(self, key: CacheEngineKey) -> bool:
        """Whether it is being stored."""
        with self._lock:
            return key in self._putting

    def batched_submit_put_task(
        self,
        keys: Sequence[CacheEngineKey],
        objs: list[MemoryObj],
        transfer_spec: Any = None,
        on_complete_callback: Callable[[CacheEngineKey], None] | None = None,
    ) -> list[Future]:
        """Stores the chunks that are not there; the callback hears of each that is then."""
        for one in objs:
            one.ref_count_up()
        with self._lock:
            self._putting.update(keys)
        put = self._put(list(keys), list(objs), on_complete_callback)
        assert self.loop is not None
        return [asyncio.run_coroutine_threadsafe(put, self.loop)]

    def get_blocking(self, key: CacheEngineKey) -> MemoryObj | None:
        """The chunk, in memory of LMCache's; None if it is not there, or not whole."""
        return self.batched_get_blocking([key])[0]

    def batched_get_blocking(self, keys: list[CacheEngineKey]) -> list[MemoryObj | None]:
        """As get_blocking(), for each key."""
        with self._reading(keys) as read:
            if read.names:
                read.result = read.space.get(read.names, read.buffers)
        return read.objs

    async def batched_get_non_blocking(
        self, lookup_id: str, keys: list[CacheEngineKey], transfer_spec: Any = None
    ) -> list[MemoryObj]:
        """The chunks from the first on that are there."""
        with self._reading(keys) as read:
            if read.names:
                reading = read.space.get_async(read.names, read.buffers)
                read.result = await asyncio.wait_for(reading, PATIENCE_S)
        leading = list(itertools.takewhile(lambda one: one is not None, read.objs))
        for one in read.objs[len(leading) :]:
            if one is not None:
                one.ref_count_down()
        return leading

    def pin(self, key: CacheEngineKey) -> bool:
        """Keeps the chunk, if it is there."""
        return self.contains(key, pin=True)

    def unpin(self, key: CacheEngineKey) -> bool:
        """Whether it was kept; a lease ends with the last promise of its lookup."""
        with self._lock:
            was_kept = key in self._leases
            self._leases.unlock([key])
        return was_kept

    def remove(self, key: CacheEngineKey, force: bool = True) -> bool:
        """Deletes the chunk; kept ones only with `force`."""
        try:
            if force:
                while self.unpin(key):
                    pass
            return self._space().erase(_names([key])).all_ok
        except Error as error:
            logger.warning("NearKV backend: %s", error)
            return False

    def get_allocator_backend(self) -> LocalCPUBackend:
        """Whose memory chunks are read into."""
        assert self.local_cpu_backend is not None
        return self.local_cpu_backend

    def close(self) -> None:
        """Ends what is under way."""
        self._store.close()

    def _space(self) -> Namespace:
        """The namespace of chunks as they are now: engines tell their layers late."""
        metadata = self.metadata
        layout = f"lmcache {metadata.world_size} {metadata.use_mla} {metadata.get_shapes(1)}"
        layout += f" {self._model} {self._options.layout}"
        dtypes = " ".join(str(dtype) for dtype in metadata.get_dtypes())
        name = layout, dtypes
        if name not in self._spaces:
            digest = hashlib.sha256(name[0].encode()).hexdigest()[:32]
            self._spaces[name] = self._store.namespace(
                metadata.model_name,
                dtypes,
                f"lmcache-{digest}",
                tenant=self._options.tenant,
                rank=metadata.worker_id,
                salt=self._options.salt.encode(),
            )
        return self._spaces[name]

    async def _put(
        self,
        keys: list[CacheEngineKey],
        objs: list[MemoryObj],
        on_complete: Callable[[CacheEngineKey], None] | None,
    ) -> None:
        stored: list[bool] = [False] * len(keys)
        try:
            space, names = self._space(), _names(keys)
            self._order.learn(names)
            for options, places in self._order.runs(names):
                some, buffers = [names[i] for i in places], [objs[i].byte_array for i in places]
                setting = space.set_async(some, buffers, **options)
                result = await asyncio.wait_for(setting, PATIENCE_S)
                for place, ok in zip(places, result.bitmap, strict=True):
                    stored[place] = ok
                result.check()
        except (Error, TimeoutError) as error:
            logger.warning("NearKV backend: %r", error)
        finally:
            with self._lock:
                self._putting.difference_update(keys)
            for one in objs:
                one.ref_count_down()
        if on_complete is not None:
            for key, ok in zip(keys, stored, strict=True):
                if ok:
                    on_complete(key)

    @contextlib.contextmanager
    def _reading(self, keys: list[CacheEngineKey]) -> Iterator[_Read]:
        """Makes room for chunks that are there; takes it back of those that do not come whole."""
        read = _Read([None] * len(keys))
        try:
            self._prepare(read, keys)
            yield read
        except (Error, TimeoutError) as error:
            logger.warning("NearKV backend: %r", error)
        finally:
            read.keep_whole()

    def _prepare(self, read: _Read, keys: list[CacheEngineKey]) -> None:
        """Of what is there now; nothing while the daemon is away."""
        try:
            read.space = self._space()
            for place, name in enumerate(_names(keys)):
                one = self._allocate(read.space, name)
                if one is not None:
                    read.objs[place] = one
                    read.names.append(name)
                    read.buffers.append(one.byte_array)
        except Error as error:
            logger.warning("NearKV backend: %s", error)

    def _allocate(self, space: Namespace, name: bytes) -> MemoryObj | None:
        """Room for a chunk of as many tokens as is stored."""
        info = space.describe(name)
        if info is None or self.local_cpu_backend is None:
            return None
        shapes, dtypes = self.metadata.get_shapes(1), self.metadata.get_dtypes()
        of_layers = zip(shapes, dtypes, strict=True)
        token_bytes = sum(shape.numel() * dtype.itemsize for shape, dtype in of_layers)
        tokens, rest = divmod(info.bytes, token_bytes)
        if rest or not 0 < tokens <= self.metadata.chunk_size:
            return None
        layout = MemoryFormat.KV_MLA_FMT if self.metadata.use_mla else MemoryFormat.KV_2LTD
        return self.local_cpu_backend.allocate(
            self.metadata.get_shapes(tokens), dtypes, layout, busy_loop=False
        )


def _names(keys: Iterable[CacheEngineKey]) -> list[bytes]:
    return [key.to_string().encode() for key in keys]
