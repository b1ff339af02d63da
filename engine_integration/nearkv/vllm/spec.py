"""vLLM's tiering offload, also where there is no GPU."""

from typing import Any

from vllm.platforms import current_platform
from vllm.v1.kv_offload.base import CanonicalKVCaches, OffloadingWorker
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from nearkv.vllm.host_worker import HostOffloadingWorker


class NearKVOffloadingSpec(TieringOffloadingSpec):
    """TieringOffloadingSpec whose worker also runs on vLLM's CPU platform.

    On others it is TieringOffloadingSpec.
    """

    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        """The worker of this process, made once."""
        if not current_platform.is_cpu():
            return super().get_worker(kv_caches)
        if self._worker is None:
            if self.config.canonical_layout:
                raise ValueError("canonical_layout needs a GPU: leave it out on the CPU platform")
            self._worker: Any = HostOffloadingWorker(
                kv_caches, self.blocks_per_chunk, self._open_region()
            )
        return self._worker

    def _open_region(self) -> SharedOffloadRegion:
        rank = 0 if self.replicated_layout else self.config.parallel.rank
        return SharedOffloadRegion(
            engine_id=self._engine_id,
            rank=rank,
            num_chunks=self.num_chunks,
            kv_bytes_per_chunk=self.kv_bytes_per_chunk,
            cpu_page_size=self.cpu_page_size_per_worker,
        )
