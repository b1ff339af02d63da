"""The secondary tier: chunks of vLLM's KV cache as objects of a NearKV store."""

import dataclasses
import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from nkv_abi import Status
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
    OffloadingConnectorStats,
)
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import (
    LookupResult,
    Medium,
    OffloadingEvent,
    OffloadingMetricMetadata,
    OffloadingSpec,
    OffloadKey,
    ReqContext,
    RequestOffloadingContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

from nearkv.store import MAX_OBJECT_BYTES, Job, Pages
from nearkv.vllm.chunk_store import ChunkStore, layout_of
from nearkv.vllm.metrics import StoreMetrics, metric_definitions
from nearkv.vllm.options import VllmStoreSettings

logger = init_logger(__name__)


@dataclasses.dataclass
class _TierTransfer:
    """Jobs on their way, one for each KV cache group, and what vLLM has to be told of them."""

    jobs: dict[Job, Sequence[int]]
    """With the places of their keys among those that were asked for."""
    asked: TransferJob
    is_load: bool
    began_s: float


class NearKVTier(SecondaryTierManager):
    """Chunks by their keys: what a store acknowledged outlives the engine.

    All calls come from the scheduler's thread; the store's threads copy between vLLM's primary
    chunks and the store, which verifies what it gives back. A chunk that does not come whole is a
    failed load of this chunk, and a miss from then on: vLLM computes it again. What a daemon does
    not answer is given up.
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
        """See VllmStoreSettings for `settings`. ValueError or nearkv.core.Error if it cannot be."""
        super().__init__(
            offloading_spec=offloading_spec,
            primary_kv_view=primary_kv_view,
            tier_type=tier_type,
            backpressure_detector=backpressure_detector,
        )
        options = VllmStoreSettings.parse("a NearKV tier", settings)
        self.locality = options.event_locality
        self._chunks: Pages | None = Pages([np.asarray(primary_kv_view)])
        self._chunk_bytes = self._chunks.block_bytes
        if self._chunk_bytes > MAX_OBJECT_BYTES:
            raise ValueError(
                f"a chunk of {self._chunk_bytes} bytes is no object of a NearKV store, which has "
                f"{MAX_OBJECT_BYTES} at most: take a smaller blocks_per_chunk"
            )
        layout = layout_of(offloading_spec, options, any_ranks=True, chunk_bytes=self._chunk_bytes)
        self._stored = ChunkStore(options, offloading_spec, layout)
        self._metrics = StoreMetrics(self._stored)
        self._transfers: list[_TierTransfer] = []
        self._ended: list[JobResult] = []
        self._failed: set[OffloadKey] = set()

    @classmethod
    def build_metric_definitions(
        cls, extra_config: dict[str, Any]
    ) -> dict[str, OffloadingMetricMetadata]:
        """Those of the store."""
        return metric_definitions()

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT or MISS, at once; a store that does not answer has nothing."""
        is_there = key not in self._failed and self._stored.holds(key)
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
        under_way = []
        for transfer in self._transfers:
            if all(job.is_over() for job in transfer.jobs):
                self._end(transfer)
            else:
                under_way.append(transfer)
        self._transfers = under_way
        ended, self._ended = self._ended, []
        return ended

    def has_pending_work(self) -> bool:
        """Whether jobs are on their way."""
        return bool(self._transfers)

    def drain_jobs(self) -> None:
        """Waits until no copy touches primary chunks."""
        for transfer in self._transfers:
            self._end(transfer)
        self._transfers.clear()

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Marks chunks as used."""
        self._stored.touch(keys)

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Chunks as they come."""
        return RequestOffloadingContext()

    def take_events(self) -> Iterable[OffloadingEvent]:
        """What came to the store and what went from it."""
        return self._stored.take_events(self.medium, self.tier_type)

    def get_stats(self) -> OffloadingConnectorStats | None:
        """Counts since the last call."""
        return self._metrics.take()

    def shutdown(self) -> None:
        """Ends what is under way, closes the store, and lets go of vLLM's memory."""
        if self._chunks is None:
            return
        self.drain_jobs()
        self._stored.close()
        self._chunks = self._primary_kv_view = None

    def _submit(self, asked: TransferJob, *, is_load: bool) -> None:
        assert self._chunks is not None
        transfer = _TierTransfer({}, asked, is_load, time.perf_counter())
        self._transfers.append(transfer)
        # vLLM names chunks to store in any order.
        for part in self._stored.by_group(asked.keys, None if is_load else asked.req_context):
            try:
                memory = self._chunks.of(asked.chunk_ids[part.places])
            except (
                ValueError
            ) as error:  # Chunks that vLLM does not have: they fail, and it goes on.
                logger.warning("NearKV tier: %s", error)
                continue
            begin = partial(part.space.submit_set, chain=True, parent=part.parent)
            submit = part.space.submit_get if is_load else begin
            # A queue that is full: vLLM computes what it cannot load, and keeps what is not stored.
            if (job := self._stored.ask(None, submit, part.hashes, memory)) is not None:
                transfer.jobs[job] = part.places

    def _end(self, transfer: _TierTransfer) -> None:
        """Waits, if it is not over, and tells vLLM how it ended."""
        asked = transfer.asked
        is_whole = [False] * len(asked.keys)
        statuses: set[str] = set()
        keys, wrong = list(asked.keys), []
        for job, places in transfer.jobs.items():
            result = job.wait_or_cancel()
            statuses |= {status.name for status in result.statuses if status != Status.OK}
            ends = result.whole(self._chunk_bytes) if transfer.is_load else result.bitmap
            for place, is_ok, is_there in zip(places, ends, result.bitmap, strict=True):
                is_whole[place] = is_ok
                if is_there and not is_ok:
                    wrong.append(keys[place])
        self._stored.erase(wrong)  # What has another size would keep others from being stored.
        good = [key for key, whole in zip(keys, is_whole, strict=True) if whole]
        if len(good) < len(is_whole):
            logger.warning(
                "NearKV tier: %d of %d chunks did not %s: %s",
                len(is_whole) - len(good),
                len(is_whole),
                "load" if transfer.is_load else "store",
                ", ".join(sorted(statuses)) or "another size",
            )
        if transfer.is_load:
            self._failed.update(set(asked.keys).difference(good))
            self._metrics.count_failures(len(is_whole) - len(good))
        self._ended.append(
            JobResult(
                job_id=asked.job_id,
                success=len(good) == len(is_whole),
                successful_keys=good if transfer.is_load else None,
                transfer_time=time.perf_counter() - transfer.began_s,
                transfer_bytes=len(good) * self._chunk_bytes,
            )
        )
