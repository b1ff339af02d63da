"""LMCache's L2 adapter: chunks as objects of a NearKV store, leased between lookup and load."""

import atexit
import itertools
import os
import select
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakValueDictionary

from lmcache.lmcache_native import Bitmap
from lmcache.logging import init_logger
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.internal_api import L2StoreResult
from lmcache.v1.distributed.l2_adapters.base import AdapterUsage, L2AdapterInterface, L2TaskId
from lmcache.v1.memory_management import MemoryObj
from lmcache.v1.platform import create_event_notifier

from nearkv.core import Error
from nearkv.lmcache.leases import Leases
from nearkv.lmcache.order import ChunkOrder
from nearkv.lmcache.residents import Residents
from nearkv.lmcache.settings import LeasingSettings
from nearkv.lmcache.tasks import LAYOUT_BYTES, NamespacePart, TransferTask, bitmap_of, layout_of
from nearkv.store import Job, JobResult, Namespace, Status
from nearkv.store.model_identity import model_identity

logger = init_logger(__name__)

_KEYS_AT_A_TIME = 256  # Of a lookup: what a request to a daemon has room for.
_LOOK_MS = 1000  # How long nothing is heard of jobs before they are asked.


class NearKVL2Adapter(L2AdapterInterface):
    """Chunks by their keys, each cache_salt in a namespace of its own.

    Bytes are copied once, between the store and LMCache's objects, by the store's threads; each
    read is verified. Beside its bytes an object has its shapes and dtypes, of which LMCache's keys
    say nothing: what is stored in another layout is a miss, as is what is damaged. What a lookup
    found is leased until it is unlocked, or for `lease_s`.

    Thread safety: all calls.
    """

    def __init__(self, settings: dict[str, Any], l1_memory_desc: Any = None) -> None:
        """See LeasingSettings. ValueError or nearkv.core.Error if it cannot be."""
        self._options = LeasingSettings.parse("a NearKV L2 adapter", settings)
        self._store = self._options.open()
        super().__init__(max_capacity_bytes=self._store.stats().total_bytes)
        # Each user may have a salt: those that nobody works with are not kept open.
        self._spaces: WeakValueDictionary[tuple, Namespace] = WeakValueDictionary()
        self._models: dict[str, str] = {}  # Of each name, the identity.
        self._residents = Residents(self._store)
        self._leases = Leases()  # Of the lookup thread.
        self._order = ChunkOrder()
        self._ids = itertools.count()
        self._parts: dict[int, tuple[Job, NamespacePart]] = {}  # By their jobs' ids.
        self._stored: dict[L2TaskId, L2StoreResult] = {}
        self._found: dict[L2TaskId, Bitmap] = {}
        self._loaded: dict[L2TaskId, Bitmap] = {}
        self._said = ""  # The last warning, which is not repeated.
        self._lock = threading.Lock()
        self._stored_event, self._found_event, self._loaded_event = (
            create_event_notifier() for _ in range(3)
        )
        self._closing = os.eventfd(0, os.EFD_CLOEXEC)
        self._lookups = ThreadPoolExecutor(1, thread_name_prefix="nearkv-lookup")
        self._completions = threading.Thread(
            target=self._complete, name="nearkv-completions", daemon=True
        )
        self._completions.start()
        atexit.register(self.close)  # Of a process that ends without.

    def get_store_event_fd(self) -> int:
        """Readable when stores are over."""
        return self._stored_event.fileno()

    def get_lookup_and_lock_event_fd(self) -> int:
        """Readable when lookups are over."""
        return self._found_event.fileno()

    def get_load_event_fd(self) -> int:
        """Readable when loads are over."""
        return self._loaded_event.fileno()

    def submit_store_task(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> L2TaskId:
        """Stores the chunks that are not there; their memory is in use until the task is over."""
        return self._submit(keys, objects, is_load=False)

    def pop_completed_store_tasks(self) -> dict[L2TaskId, L2StoreResult]:
        """Those since the last call: a success if all of it is stored."""
        with self._lock:
            stored, self._stored = self._stored, {}
        return stored

    def submit_lookup_and_lock_task(
        self, keys: list[ObjectKey], group_layout_descs: dict[int, MemoryLayoutDesc]
    ) -> L2TaskId:
        """Looks for chunks and leases those that are there."""
        task_id = next(self._ids)
        self._lookups.submit(self._look_up, task_id, list(keys))
        return task_id

    def query_lookup_and_lock_result(self, task_id: L2TaskId) -> Bitmap | None:
        """Which are there, once; None until then."""
        with self._lock:
            return self._found.pop(task_id, None)

    def submit_unlock(self, keys: list[ObjectKey]) -> None:
        """Takes a promise back; a lease ends with the last promise of its lookup."""
        self._lookups.submit(self._leases.unlock, list(keys))

    def submit_load_task(self, keys: list[ObjectKey], objects: list[MemoryObj]) -> L2TaskId:
        """Fills objects with what is stored; they are in use until the task is over."""
        return self._submit(keys, objects, is_load=True)

    def query_load_result(self, task_id: L2TaskId) -> Bitmap | None:
        """Which came whole, once; None until then."""
        with self._lock:
            return self._loaded.pop(task_id, None)

    def delete(self, keys: list[ObjectKey]) -> None:
        """Deletes chunks but for those that are promised."""
        gone: dict[ObjectKey, int] = {}
        for space, places in self._by_namespace(keys):
            try:
                result = space.erase([keys[i].chunk_hash for i in places])
            except (Error, ValueError) as error:  # LMCache deletes while it closes, too.
                self._tell(str(error))
                continue
            ended = zip(places, result.statuses, strict=True)
            erased = [keys[i] for i, status in ended if status in (Status.OK, Status.NOT_FOUND)]
            gone |= self._residents.remove(space, erased)
        self._tell_deleted(gone)

    def get_usage(self) -> AdapterUsage:
        """Bytes by cache_salt of what this adapter has stored or loaded and the store still has."""
        self._tell_gone()
        return super().get_usage()

    def report_status(self) -> dict[str, Any]:
        """Whether the store answers, and what it holds for all who use it."""
        stats = self._store.stats()
        return {
            "is_healthy": self._completions.is_alive() and stats.total_bytes > 0,
            "type": "nearkv",
            "leased_keys": len(self._leases),
            "total_bytes": stats.total_bytes,
            "used_bytes": stats.used_bytes,
            "objects": stats.objects,
            "evictions": stats.evictions,
            "corruptions": stats.corruptions,
        }

    def close(self) -> None:
        """Ends what is under way, and the leases; memory of tasks is free afterwards."""
        if self._store.closed:
            return
        atexit.unregister(self.close)
        os.eventfd_write(self._closing, 1)
        self._completions.join()
        self._lookups.shutdown(cancel_futures=True)
        self._store.close()
        os.close(self._closing)
        for event in (self._stored_event, self._found_event, self._loaded_event):
            event.close()

    def _submit(
        self, keys: list[ObjectKey], objects: list[MemoryObj], *, is_load: bool
    ) -> L2TaskId:
        buffers = [one.byte_array for one in objects]
        task = TransferTask(
            next(self._ids), is_load, list(keys), [len(buffer) for buffer in buffers]
        )
        for space, places, options in self._parts_of(keys, is_load=is_load):
            layouts = [layout_of(objects[i]) for i in places]
            headers = [bytearray(LAYOUT_BYTES) for _ in places] if is_load else layouts
            part = NamespacePart(task, space, places, layouts, headers)
            names = [keys[i].chunk_hash for i in places]
            memory = [[header, buffers[i]] for header, i in zip(headers, places, strict=True)]
            submit = space.submit_get if is_load else space.submit_set
            try:
                with self._lock:  # The job is known even if it is over at once.
                    job = submit(names, memory, **options)
                    self._parts[job.id] = job, part
                    task.jobs_left += 1
            except Error as error:
                self._tell(str(error))
        with self._lock:
            self._end_job(task)
        return task.id

    def _parts_of(
        self, keys: list[ObjectKey], *, is_load: bool
    ) -> Iterator[tuple[Namespace, list[int], dict[str, Any]]]:
        """What is one job each: a namespace, the places of keys, and options."""
        for space, places in self._by_namespace(keys):
            if is_load:
                yield space, places, {}
                continue
            for options, run in self._order.runs([keys[i].chunk_hash for i in places]):
                yield space, [places[n] for n in run], options

    def _complete(self) -> None:
        """Runs in a thread of its own: hears of jobs that are over."""
        poller = select.poll()
        poller.register(self._store.event_fd, select.POLLIN)
        poller.register(self._closing, select.POLLIN)
        while self._closing not in (ready := [fd for fd, _ in poller.poll(_LOOK_MS)]):
            over = self._store.drain()
            if not ready:  # It may be that a daemon is silent.
                with self._lock:
                    waiting = [job for job, _ in self._parts.values()]
                over += [job for job in waiting if job.is_over()]
            for job in over:
                with self._lock:
                    known = self._parts.pop(job.id, None)
                if known is None:  # One that ended between the two looks is told of twice.
                    continue
                _, part = known
                try:
                    self._end_part(part, job.wait())
                except Exception:  # Of a listener of LMCache's: the next job has to be heard of.
                    logger.exception("NearKV L2 adapter: a listener failed")

    def _end_part(self, part: NamespacePart, result: JobResult) -> None:
        task = part.task
        good = []
        ends = zip(part.places, result.bitmap, result.object_bytes, strict=True)
        for n, (place, ok, given_bytes) in enumerate(ends):
            size_bytes = task.sizes_bytes[place] + LAYOUT_BYTES
            is_same = given_bytes == size_bytes and part.headers[n] == part.layouts[n]
            if ok and (is_same or not task.is_load):
                good.append(place)
        new = []
        for place in good:
            task.whole[place] = True
            if self._residents.add(part.space, task.keys[place], task.sizes_bytes[place]):
                new.append(place)
        wrong = {status.name for status in result.statuses} - {"OK", "NOT_FOUND"}
        if wrong:
            what = "load" if task.is_load else "store"
            self._tell(f"chunks did not {what}: {', '.join(sorted(wrong))}")
        try:
            self._tell_listeners(task, good, new)
        finally:
            with self._lock:
                task.new_bytes += sum(task.sizes_bytes[i] for i in new)
                self._end_job(task)

    def _end_job(self, task: TransferTask) -> None:
        task.jobs_left -= 1
        if task.jobs_left:
            return
        if task.is_load:
            self._loaded[task.id] = bitmap_of(task.whole)
            self._loaded_event.notify()
        else:
            self._stored[task.id] = L2StoreResult(all(task.whole), task.new_bytes)
            self._stored_event.notify()

    def _look_up(self, task_id: L2TaskId, keys: list[ObjectKey]) -> None:
        """Runs in the lookup thread."""
        found = [False] * len(keys)
        for space, places in self._by_namespace(keys):
            self._order.learn([keys[i].chunk_hash for i in places])
            for first in range(0, len(places), _KEYS_AT_A_TIME):
                some = places[first : first + _KEYS_AT_A_TIME]
                lease = space.pin([keys[i].chunk_hash for i in some], self._options.lease_s)
                looked_up = zip(some, lease.statuses, strict=True)
                there = [i for i, status in looked_up if status == Status.OK]
                self._leases.add(lease, (keys[i] for i in there))
                for place in there:
                    found[place] = True
        with self._lock:
            self._found[task_id] = bitmap_of(found)
        self._found_event.notify()

    def _by_namespace(self, keys: list[ObjectKey]) -> Iterator[tuple[Namespace, list[int]]]:
        """Places of keys by their namespaces, but of those that cannot be opened."""
        by_name: dict[tuple[str, int, int, str], list[int]] = {}
        for place, key in enumerate(keys):
            name = (key.model_name, key.kv_rank, key.object_group_id, key.cache_salt)
            by_name.setdefault(name, []).append(place)
        for name, places in by_name.items():
            try:
                yield self._namespace(*name), places
            except (Error, ValueError) as error:
                self._tell(str(error))

    def _namespace(self, model: str, rank: int, group: int, cache_salt: str) -> Namespace:
        name = (model, rank, group, cache_salt)
        space = self._spaces.get(name)
        if space is None:
            if model not in self._models:
                self._models[model] = model_identity(model, self._options.model_version)
            space = self._spaces[name] = self._store.namespace(
                model,
                layout=f"lmcache-l2 {self._models[model]} {self._options.layout}",
                tenant=self._options.tenant,
                rank=rank,
                group=group,
                salt=f"{self._options.salt}\0{cache_salt}".encode(),
            )
        return space

    def _tell_listeners(self, task: TransferTask, good: list[int], new: list[int]) -> None:
        """LMCache's eviction and accounting: what is there, what is new, what was used."""
        used = good if task.is_load else [i for i in good if i not in new]
        if used:
            self._notify_keys_accessed([task.keys[i] for i in used])
        if new:
            sizes = [task.sizes_bytes[i] for i in new]
            self._notify_keys_stored([task.keys[i] for i in new], sizes)
        if not task.is_load:  # Others may have had to make room.
            self._tell_gone()

    def _tell_gone(self) -> None:
        try:
            gone = self._residents.take_gone()
        except (Error, ValueError) as error:
            self._tell(str(error))
        else:
            self._tell_deleted(gone)

    def _tell_deleted(self, gone: dict[ObjectKey, int]) -> None:
        if gone:
            self._notify_keys_deleted(list(gone), list(gone.values()))

    def _tell(self, warning: str) -> None:
        if warning != self._said:
            logger.warning("NearKV L2 adapter: %s", warning)
        self._said = warning
