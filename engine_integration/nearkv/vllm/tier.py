"""The secondary tier: chunks of vLLM's KV cache as objects of a NearKV store."""

import dataclasses
import difflib
import hashlib
import json
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from nkv_abi import Status
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import (
    Locality,
    LookupResult,
    Medium,
    OffloadingEvent,
    OffloadingSpec,
    OffloadKey,
    ReqContext,
    RequestOffloadingContext,
)
from vllm.v1.kv_offload.file_mapper import FileMapper
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

from nearkv.core import Error
from nearkv.store import MAX_OBJECT_BYTES, Job, Namespace, ObjectStore, StoreEvent, StoreEventKind
from nearkv.vllm import compat

logger = init_logger(__name__)

_KEPT_EVENTS = 65536
_GONE = (StoreEventKind.EVICTED, StoreEventKind.ERASED, StoreEventKind.DAMAGED)


@dataclasses.dataclass
class TierOptions:
    """What a tier's configuration may say beside `type` and `module_path`."""

    uri: str = ""
    """A store of this engine's own: "cpu:FILE?memory=64GiB", made if the file is not there."""
    socket: str = ""
    """Instead: that of a daemon (`nearkv serve`), which other engines may share."""
    tenant: int = 0
    """Whose objects they are: quotas are the tenant's."""
    salt: str = ""
    """Engines share chunks only with those of the same salt."""
    workers: int = 2
    """Threads that copy."""
    enable_kv_events: bool = False
    """Tell vLLM's KV events of chunks that come and go."""
    locality: str = "LOCAL"
    """What events say of the store: LOCAL or REMOTE."""

    @classmethod
    def parse(cls, settings: dict[str, Any]) -> "TierOptions":
        """Options of a configuration; ValueError names what is wrong, and what may be meant."""
        names = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                meant = f"; is {near[0]} meant?" if near else f"; there are {', '.join(names)}"
                raise ValueError(f"a NearKV tier has no option '{name}'{meant}")
        options = cls(**settings)
        if bool(options.uri) == bool(options.socket):
            raise ValueError("a NearKV tier needs a uri or the socket of a daemon, and not both")
        if options.locality not in Locality.__members__:
            raise ValueError(f"locality is LOCAL or REMOTE, not '{options.locality}'")
        return options

    def open(self) -> ObjectStore:
        """The store; nearkv.core.Error says why there is none."""
        if self.socket:
            # vLLM's scheduler waits for nobody: while a daemon restarts, its chunks are misses.
            return ObjectStore.connect(self.socket, patience_s=0)
        path = Path(self.uri.partition(":")[2].partition("?")[0])
        is_new = path == Path() or not path.exists()
        opens = ObjectStore.create if is_new else ObjectStore.open
        return opens(self.uri, workers=self.workers)


def layout_of(spec: OffloadingSpec, chunk_bytes: int) -> str:
    """What chunks have to agree in to be interchangeable, as vLLM's own file tier has it."""
    identity = FileMapper.from_offloading_spec(
        root_dir="",
        offloading_spec=spec,
        blocks_per_file=spec.blocks_per_chunk,
        parallel_agnostic=True,
    ).get_run_config()
    identity |= {"kv_cache_layout": spec.config.kv_cache_layout, "chunk_bytes": chunk_bytes}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), default=str)
    return f"vllm-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _name_of(change: StoreEvent) -> bytes:
    """The SHA-256 of its key: a store tells no more of keys as long as vLLM's."""
    return change.key if change.key_is_digest else hashlib.sha256(change.key).digest()


@dataclasses.dataclass
class _Transfer:
    """A job on its way, and what vLLM has to be told of it."""

    job: Job
    asked: TransferJob
    is_load: bool
    began_s: float


class NearKVTier(SecondaryTierManager):
    """Chunks by their keys: what a store acknowledged outlives the engine.

    All calls come from the scheduler's thread; the store's threads copy between vLLM's primary
    chunks and the store, which verifies what it gives back. A chunk that does not come whole is a
    failed load of this chunk, and a miss from then on: vLLM computes it again.
    """

    medium: ClassVar[Medium] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: OffloadingSpec,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        **settings: Any,
    ) -> None:
        """See TierOptions for `settings`. ValueError or nearkv.core.Error if it cannot be."""
        compat.init_tier(
            self,
            offloading_spec=offloading_spec,
            primary_kv_view=primary_kv_view,
            tier_type=tier_type,
            backpressure_detector=backpressure_detector,
        )
        options = TierOptions.parse(settings)
        self.locality = Locality[options.locality]
        if compat.IS_NEWER_THAN_KNOWN:
            logger.warning("nearkv.vllm was not tested with this version of vLLM")
        self._chunks: np.ndarray | None = np.asarray(primary_kv_view)
        self._chunk_bytes = self._chunks[0].nbytes if len(self._chunks) else 0
        if self._chunk_bytes > MAX_OBJECT_BYTES:
            raise ValueError(
                f"a chunk of {self._chunk_bytes} bytes is no object of a NearKV store, which has "
                f"{MAX_OBJECT_BYTES} at most: take a smaller blocks_per_chunk"
            )
        self._store = options.open()
        self._space = self._open_namespace(offloading_spec, options)
        self._transfers: dict[int, _Transfer] = {}
        self._ended: list[JobResult] = []
        self._failed: set[OffloadKey] = set()
        self._said = ""  # The last warning, which is not repeated.
        self._events: list[OffloadingEvent] | None = None
        self._told: dict[bytes, OffloadKey] = {}  # By their SHA-256: those of events that came.
        if options.enable_kv_events and offloading_spec.kv_events_config.enable_kv_cache_events:
            self._events = []
            self._store.watch(_KEPT_EVENTS)
        elif options.enable_kv_events:
            logger.warning(
                "enable_kv_events of a NearKV tier needs vLLM's KV events: there are none"
            )

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT or MISS, at once; a store that does not answer has nothing."""
        try:
            is_there = key not in self._failed and key in self._space
        except Error as error:
            self._tell(error)
            is_there = False
        return LookupResult.HIT if is_there else LookupResult.MISS

    def submit_store(self, job_metadata: TransferJob) -> None:
        """Stores the chunks that are not there."""
        self._failed.difference_update(job_metadata.keys)
        self._submit(job_metadata, is_load=False)

    def submit_load(self, job_metadata: TransferJob) -> None:
        """Fills chunks with what is stored."""
        self._submit(job_metadata, is_load=True)

    def get_finished_jobs(self) -> Iterable[JobResult]:
        """Those that ended since the last call."""
        for job in self._store.drain():
            if transfer := self._transfers.pop(job.id, None):
                self._end(transfer)
        ended, self._ended = self._ended, []
        return ended

    def has_pending_work(self) -> bool:
        """Whether jobs are on their way."""
        return bool(self._transfers)

    def drain_jobs(self) -> None:
        """Waits until no copy touches primary chunks."""
        for transfer in self._transfers.values():
            self._end(transfer)
        self._transfers.clear()

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Marks chunks as used."""
        try:
            self._space.touch(list(keys))
        except Error as error:
            self._tell(error)

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Chunks as they come."""
        return RequestOffloadingContext()

    def take_events(self) -> Iterable[OffloadingEvent]:
        """What this engine stored, and what of it went from the store."""
        if self._events is None:
            return ()
        changes, _ = self._store.take_events()
        gone = [
            key
            for change in changes
            if change.kind in _GONE and change.namespace_number == self._space.number
            if (key := self._told.pop(_name_of(change), None)) is not None
        ]
        if gone:
            self._events.append(self._event(gone, removed=True))
        events, self._events = self._events, []
        return events

    def shutdown(self) -> None:
        """Ends what is under way, closes the store, and lets go of vLLM's memory."""
        if self._chunks is None:
            return
        self.drain_jobs()
        self._store.close()
        self._chunks = self._primary_kv_view = None

    def _open_namespace(self, spec: OffloadingSpec, options: TierOptions) -> Namespace:
        return self._store.namespace(
            spec.config.model.name,
            spec.config.model.dtype,
            layout_of(spec, self._chunk_bytes),
            tenant=options.tenant,
            salt=options.salt.encode(),
        )

    def _submit(self, asked: TransferJob, *, is_load: bool) -> None:
        assert self._chunks is not None
        keys = list(asked.keys)
        chunks = [self._chunks[int(number)] for number in asked.chunk_ids]
        submit = self._space.submit_get if is_load else self._space.submit_set
        began_s = time.perf_counter()
        try:
            job = submit(keys, chunks)
        except Error as error:
            # As with a full queue: vLLM computes what it cannot load, and keeps what is not stored.
            self._tell(error)
            self._ended.append(compat.job_result(job_id=asked.job_id, success=False))
            return
        self._transfers[job.id] = _Transfer(job, asked, is_load, began_s)

    def _end(self, transfer: _Transfer) -> None:
        """Waits, if it is not over, and tells vLLM how it ended."""
        result = transfer.job.wait()
        asked = transfer.asked
        is_whole = result.bitmap
        if transfer.is_load:
            sizes = zip(is_whole, result.object_bytes, strict=True)
            is_whole = [whole and size == self._chunk_bytes for whole, size in sizes]
        good = [key for key, whole in zip(asked.keys, is_whole, strict=True) if whole]
        if len(good) < len(is_whole):
            statuses = {status.name for status in result.statuses if status != Status.OK}
            what = "load" if transfer.is_load else "store"
            logger.warning(
                "NearKV tier: %d of %d chunks did not %s: %s",
                len(is_whole) - len(good),
                len(is_whole),
                what,
                ", ".join(sorted(statuses)) or "another size",
            )
        if transfer.is_load:
            self._failed.update(set(asked.keys).difference(good))
        elif self._events is not None and good:
            self._told |= {hashlib.sha256(key).digest(): key for key in good}
            self._events.append(self._event(good, removed=False))
        self._ended.append(
            compat.job_result(
                job_id=asked.job_id,
                success=len(good) == len(is_whole),
                successful_keys=good if transfer.is_load else None,
                transfer_time=time.perf_counter() - transfer.began_s,
                transfer_bytes=len(good) * self._chunk_bytes,
            )
        )

    def _tell(self, error: Error) -> None:
        if str(error) != self._said:
            logger.warning("NearKV tier: %s", error)
        self._said = str(error)

    def _event(self, keys: list[OffloadKey], *, removed: bool) -> OffloadingEvent:
        return OffloadingEvent(
            keys=keys,
            medium=self.medium,
            removed=removed,
            locality=self.locality,
            ownership=self.tier_type,
        )
