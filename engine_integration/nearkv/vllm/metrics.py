"""What Prometheus is told of a store, by the engine's conventions."""

import time

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
    OffloadingConnectorStats,
)
from vllm.v1.kv_offload.base import (
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingMetricMetadata,
)

from nearkv.store import ObjectStoreStats
from nearkv.vllm.chunk_store import ChunkStore

LOAD_FAILURES = "vllm:kv_offload_nearkv_load_failures"
_GAUGES = {
    "vllm:kv_offload_nearkv_used_bytes": ("used_bytes", "Bytes that chunks hold in the store."),
    "vllm:kv_offload_nearkv_total_bytes": ("total_bytes", "Bytes that chunks can hold there."),
    "vllm:kv_offload_nearkv_chunks": ("objects", "Chunks in the store."),
}
_COUNTERS = {
    "vllm:kv_offload_nearkv_evictions": ("evictions", "Chunks that had to make room."),
    "vllm:kv_offload_nearkv_corruptions": ("corruptions", "Chunks whose checksum failed."),
}
_INTERVAL_S = 1.0


def metric_definitions() -> dict[str, OffloadingMetricMetadata]:
    """All metrics below, for build_metric_definitions()."""
    gauges = {
        name: OffloadingGaugeMetadata(documentation=text) for name, (_, text) in _GAUGES.items()
    }
    counters = {
        name: OffloadingCounterMetadata(documentation=text) for name, (_, text) in _COUNTERS.items()
    }
    failures = OffloadingCounterMetadata(documentation="Chunks that were there but did not load.")
    return {**gauges, **counters, LOAD_FAILURES: failures}


class StoreMetrics:
    """Counts of one store, as vLLM collects them: asked for once a second at most."""

    def __init__(self, chunks: ChunkStore) -> None:
        self._chunks = chunks
        self._asked_s = 0.0
        self._before: ObjectStoreStats | None = chunks.stats()
        self._failures = 0

    def count_failures(self, count: int) -> None:
        """Chunks whose load failed."""
        self._failures += count

    def take(self) -> OffloadingConnectorStats | None:
        """What changed since the last call; None: nothing, or it is too early."""
        now_s = time.monotonic()
        if now_s - self._asked_s < _INTERVAL_S and not self._failures:
            return None
        self._asked_s = now_s
        taken = OffloadingConnectorStats()
        if self._failures:
            taken.increase_counter(LOAD_FAILURES, self._failures)
            self._failures = 0
        if (stats := self._chunks.stats()) is not None:
            for name, (field, _) in _GAUGES.items():
                taken.set_gauge(name, getattr(stats, field))
            for name, (field, _) in _COUNTERS.items():
                before = getattr(self._before, field, 0)
                # A daemon that began anew counts from zero.
                taken.increase_counter(name, max(0, getattr(stats, field) - before))
            self._before = stats
        return taken
