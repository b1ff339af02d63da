"""Copies between vLLM's KV cache and its primary tier where both are host memory."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from vllm.v1.kv_offload.base import (
    BlockIDsLoadStoreSpec,
    CanonicalKVCaches,
    GPULoadStoreSpec,
    LoadStoreSpec,
    OffloadingWorker,
    TransferResult,
)
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion


class _Place(NamedTuple):
    """A block of the cache, and where in a chunk it belongs."""

    group: int
    block: int
    chunk: int
    block_in_chunk: int


class HostOffloadingWorker(OffloadingWorker):
    """Jobs are done when they are submitted: each is a few copies of whole pages.

    The native attention kernels of the CPU platform pack K and V inside a page, which is why only
    whole pages are copied.
    """

    def __init__(
        self, kv_caches: CanonicalKVCaches, blocks_per_chunk: int, region: SharedOffloadRegion
    ) -> None:
        """Takes over the region."""
        self._blocks_per_chunk = blocks_per_chunk
        self._region = region
        self._references = kv_caches.group_data_refs
        self._cache: list[torch.Tensor] = []
        self._chunks: list[torch.Tensor] = []
        for cache in kv_caches.tensors:
            page_bytes = cache.page_size_bytes
            self._cache.append(cache.tensor.view(torch.int8).view(-1, page_bytes))
            self._chunks.append(region.create_next_worker_view(page_bytes * blocks_per_chunk))
        self._finished: list[TransferResult] = []

    def submit_store(
        self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec
    ) -> bool:
        """From the cache to chunks."""
        return self._copy(job_id, src_spec, dst_spec, stores=True)

    def submit_load(self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec) -> bool:
        """From chunks to the cache."""
        return self._copy(job_id, dst_spec, src_spec, stores=False)

    def get_finished(self) -> list[TransferResult]:
        """Those since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def wait(self, job_ids: set[int]) -> None:
        """Nothing is ever under way."""

    def shutdown(self) -> None:
        """Lets go of the cache and of the region."""
        self._cache.clear()
        self._chunks.clear()
        self._region.cleanup()

    def _copy(
        self, job_id: int, blocks: GPULoadStoreSpec, chunks: LoadStoreSpec, *, stores: bool
    ) -> bool:
        assert isinstance(chunks, BlockIDsLoadStoreSpec)
        began_s = time.perf_counter()
        copied_bytes = 0
        for place in self._places(blocks, chunks):
            for reference in self._references[place.group]:
                cache = self._cache[reference.tensor_idx]
                page_bytes, used_bytes = cache.shape[1], reference.page_size_bytes
                start = place.block_in_chunk * page_bytes
                in_cache = cache[place.block, :used_bytes]
                in_chunk = self._chunks[reference.tensor_idx][place.chunk, start:][:used_bytes]
                target, source = (in_chunk, in_cache) if stores else (in_cache, in_chunk)
                target.copy_(source)
                copied_bytes += used_bytes
        self._finished.append(
            TransferResult(
                job_id=job_id,
                success=True,
                transfer_size=copied_bytes,
                transfer_time=time.perf_counter() - began_s,
            )
        )
        return True

    def _places(self, blocks: GPULoadStoreSpec, chunks: BlockIDsLoadStoreSpec) -> Iterator[_Place]:
        """Of each group, blocks in their order; the first may begin inside a chunk."""
        first_block = first_chunk = 0
        sizes = zip(blocks.group_sizes, blocks.block_indices, strict=True)
        for group, (count, index) in enumerate(sizes):
            if count == 0:
                continue
            skipped = index % self._blocks_per_chunk
            for i in range(count):
                chunk, inside = divmod(skipped + i, self._blocks_per_chunk)
                yield _Place(
                    group,
                    int(blocks.block_ids[first_block + i]),
                    int(chunks.block_ids[first_chunk + chunk]),
                    inside,
                )
            first_block += count
            first_chunk += -(-(skipped + count) // self._blocks_per_chunk)
