"""An offload that does nothing at once: what is left is vLLM's own scheduling of offloads."""

from collections.abc import Collection
from typing import Any

from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    GPULoadStoreSpec,
    LoadStoreSpec,
    LookupResult,
    OffloadingManager,
    OffloadingSpec,
    OffloadingWorker,
    OffloadKey,
    PrepareStoreOutput,
    ReqContext,
    RequestOffloadingContext,
    TransferResult,
)


class NullManager(OffloadingManager):
    """Remembers what was stored, and nothing else."""

    def __init__(self) -> None:
        self._there: set[OffloadKey] = set()

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT or MISS."""
        return LookupResult.HIT if key in self._there else LookupResult.MISS

    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> LoadStoreSpec:
        """Nothing is prepared."""
        return LoadStoreSpec()

    def prepare_store(
        self, keys: Collection[OffloadKey], req_context: ReqContext
    ) -> PrepareStoreOutput:
        """Everything is to be stored."""
        return PrepareStoreOutput(list(keys), LoadStoreSpec(), evicted_keys=[])

    def complete_store(
        self, keys: Collection[OffloadKey], req_context: ReqContext, success: bool = True
    ) -> None:
        """They are there."""
        self._there.update(keys)

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Chunks as they come."""
        return RequestOffloadingContext()


class NullWorker(OffloadingWorker):
    """Its jobs end when they begin."""

    def __init__(self) -> None:
        self._finished: list[TransferResult] = []

    def submit_store(
        self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec
    ) -> bool:
        """Copies nothing."""
        self._finished.append(TransferResult(job_id, True))
        return True

    def submit_load(self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec) -> bool:
        """Copies nothing."""
        self._finished.append(TransferResult(job_id, True))
        return True

    def get_finished(self) -> list[TransferResult]:
        """Those since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def wait(self, job_ids: set[int]) -> None:
        """Nothing is ever under way."""

    def shutdown(self) -> None:
        """There is nothing to let go of."""


class NullSpec(OffloadingSpec):
    """For an OffloadingConnector."""

    def get_manager(self) -> OffloadingManager:
        """For the scheduler."""
        return NullManager()

    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        """For this rank."""
        return NullWorker()

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """None."""
        return {}
