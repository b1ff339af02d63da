"""One rank's copies between vLLM's KV cache and the objects of a store.

A cache in host memory is copied straight, that of a GPU through memory between. An object has a
part for each layer of each rank, and is there once all of them are.
"""

import dataclasses
import time
from collections.abc import Callable, Collection

import numpy as np
import torch
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    GPULoadStoreSpec,
    LoadStoreSpec,
    OffloadingWorker,
    OffloadKey,
    TransferResult,
    get_offload_block_hash,
    get_offload_group_idx,
)
from vllm.v1.kv_offload.config import OffloadingConfig

from nearkv.store import (
    MAX_OBJECT_BYTES,
    MAX_OBJECT_PARTS,
    Job,
    PageList,
    Pages,
    Status,
)
from nearkv.vllm.chunk_store import ChunkStore, GroupKeys
from nearkv.vllm.staging import LANES, DevicePages, Memory, StagedJob, Staging

logger = init_logger(__name__)


@dataclasses.dataclass
class StoredChunks(LoadStoreSpec):
    """Chunks by their keys, those of a group together; each is one block of vLLM's."""

    keys: list[OffloadKey]
    parents: dict[int, bytes] = dataclasses.field(default_factory=dict)
    """Of a store, by group: the hash of the block that its first chunk follows."""


class _GroupPages:
    """The pages of one KV cache group in this rank's memory, and their parts of an object."""

    def __init__(self, caches: CanonicalKVCaches, group: int, rank: int, ranks: int) -> None:
        self._layers: list[torch.Tensor] = []
        for reference in caches.group_data_refs[group]:
            pages = caches.tensors[reference.tensor_idx].tensor.view(torch.int8)
            self._layers.append(pages[:, : reference.page_size_bytes])
        is_in_host = all(pages.device.type == "cpu" for pages in self._layers)
        self._in_host = Pages(self._layers) if is_in_host else None
        sizes = {pages.shape[1] for pages in self._layers}
        is_by_layer = len(sizes) == 1 and ranks * len(self._layers) <= MAX_OBJECT_PARTS
        self.parts_per_rank = len(self._layers) if is_by_layer else 1
        self.parts = ranks * self.parts_per_rank
        self.first_part = rank * self.parts_per_rank
        self.bytes_per_block = sum(pages.shape[1] for pages in self._layers)
        self.object_bytes = ranks * self.bytes_per_block
        if self.object_bytes > MAX_OBJECT_BYTES:
            raise ValueError(
                f"a block of {self.object_bytes} bytes is no object of a NearKV store, which has "
                f"{MAX_OBJECT_BYTES} at most: give vLLM a smaller --block-size"
            )

    def of_blocks(self, blocks: np.ndarray, layer: int | None) -> PageList:
        """For each block its pages, of all layers or of one."""
        assert self._in_host is not None
        return self._in_host.of(blocks) if layer is None else self._in_host.of(blocks, layer, 1)

    def on_device(self, blocks: np.ndarray, layer: int | None) -> DevicePages:
        """The same by their addresses."""
        layers = self._layers if layer is None else self._layers[layer : layer + 1]
        first = np.array([pages.data_ptr() for pages in layers], np.int64)
        strides = np.array([pages.stride(0) for pages in layers], np.int64)
        addresses = first[:, None] + blocks.astype(np.int64) * strides[:, None]
        return DevicePages(addresses, np.array([pages.shape[1] for pages in layers], np.int64))

    def bytes_of(self, layer: int | None) -> int:
        """What each block has in all layers, or in one."""
        whole = self.bytes_per_block
        return whole if layer is None else whole // self.parts_per_rank


@dataclasses.dataclass
class _Copy:
    """A job of the store, and what it is about; no job: the store did not take it."""

    pages: _GroupPages
    job: Job | StagedJob | None
    layer: int | None
    keys: list[OffloadKey]
    blocks: np.ndarray
    parent: bytes
    """Of a store: the hash of the block before."""

    @property
    def bytes_per_block(self) -> int:
        """What each block has in it."""
        return self.pages.bytes_of(self.layer)

    def is_over(self) -> bool:
        """Whether the store is through with it; asked often enough, it is so at some time."""
        return self.job is None or self.job.is_over()


@dataclasses.dataclass
class _Transfer:
    """A job of vLLM's: done once it has as many copies as it needs and all have ended."""

    is_load: bool
    needed: int
    began_s: float = dataclasses.field(default_factory=time.perf_counter)
    copies: list[_Copy] = dataclasses.field(default_factory=list)
    begun: int = 0
    copied_bytes: int = 0


@dataclasses.dataclass
class LoadFailures:
    """What did not come whole."""

    keys: set[OffloadKey] = dataclasses.field(default_factory=set)
    blocks: set[int] = dataclasses.field(default_factory=set)
    jobs: set[int] = dataclasses.field(default_factory=set)


class DirectWorker(OffloadingWorker):
    """Others' threads copy, the store's or a staging's; only what is called wait waits for them.

    A copy that does not end is given up; until the store answers again, others fail at once.
    A store that failed is a later miss. vLLM asserts that loads succeed: for whoever sets
    `hands_on_failures` a load that failed ends as if it had not, and take_failures() tells it.
    """

    hands_on_failures = False

    def __init__(
        self,
        chunks: ChunkStore,
        kv_caches: CanonicalKVCaches,
        config: OffloadingConfig,
        staging: Staging | None,
    ) -> None:
        """Takes over the chunks, and the staging of a cache that is not in host memory."""
        self._chunks = chunks
        self._staging = staging
        self._was_silent = False
        self._unfinished: set[OffloadKey] = set()
        parallel = config.parallel
        self._pages = [
            _GroupPages(kv_caches, number, parallel.rank, parallel.world_size)
            for number in range(len(config.groups))
        ]
        largest = max(pages.bytes_per_block for pages in self._pages)
        if staging is not None and largest > staging.lane_bytes:
            raise ValueError(
                f"a block of {largest} bytes does not fit in the memory between vLLM's cache and "
                f"the store: give staging_bytes of {2 * LANES * largest} at least"
            )
        self._layers = {name: i for i, name in enumerate(config.groups[0].layer_names)}
        self._transfers: dict[int, _Transfer] = {}
        self._failures = LoadFailures()

    @property
    def is_by_layer(self) -> bool:
        """Whether layers can be copied one by one: there is one group, and its layers are equal."""
        return len(self._pages) == 1 and self._pages[0].parts_per_rank == len(self._layers)

    def submit_store(
        self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec
    ) -> bool:
        """From the cache to the store: what of the job was not submitted by its layers."""
        transfer = self._transfers.setdefault(job_id, _Transfer(is_load=False, needed=1))
        if transfer.begun == 0:
            self._submit(transfer, src_spec, dst_spec, None)
        for layer in range(transfer.begun, transfer.needed):
            self._submit(transfer, src_spec, dst_spec, layer)
        return True

    def submit_load(self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec) -> bool:
        """From the store to the cache."""
        transfer = self._transfers[job_id] = _Transfer(is_load=True, needed=1)
        self._submit(transfer, dst_spec, src_spec, None)
        return True

    def submit_store_layer(
        self, job_id: int, layer_name: str, source: GPULoadStoreSpec, target: LoadStoreSpec
    ) -> None:
        """One layer of a store; layers come in their order."""
        needed = len(self._layers)
        transfer = self._transfers.setdefault(job_id, _Transfer(is_load=False, needed=needed))
        if self._layers[layer_name] == transfer.begun:
            self._submit(transfer, source, target, transfer.begun)

    def submit_load_by_layer(
        self, job_id: int, source: LoadStoreSpec, target: GPULoadStoreSpec
    ) -> None:
        """A load whose layers come in their order, each awaited by wait_for_layer()."""
        needed = len(self._layers)
        transfer = self._transfers[job_id] = _Transfer(is_load=True, needed=needed)
        for layer in range(needed):
            self._submit(transfer, target, source, layer)

    def wait_for_layer(self, layer_name: str) -> None:
        """Returns when what is loaded by layers has this one, or failed to."""
        layer = self._layers.get(layer_name)
        for job_id, transfer in self._transfers.items():
            if transfer.is_load:
                self._end_copies(job_id, transfer, lambda copy: copy.layer == layer)

    def help_loads(self, seconds: float) -> None:
        """Works on loads for so long at most, while there is nothing else to do."""
        end_s = time.perf_counter() + seconds
        for transfer in self._transfers.values():
            for copy in transfer.copies if transfer.is_load else ():
                if copy.job is not None:
                    copy.job.done(max(0, end_s - time.perf_counter()))

    def get_finished(self) -> list[TransferResult]:
        """Those since the last call."""
        finished = []
        for job_id, transfer in list(self._transfers.items()):
            self._end_copies(job_id, transfer, _Copy.is_over)
            if transfer.begun >= transfer.needed and not transfer.copies:
                finished.append(self._end(job_id))
        return finished

    def end_loads_by_layer(self, job_ids: Collection[int]) -> list[TransferResult]:
        """Waits for the rest of their layers; get_finished() does not tell of them."""
        self.wait(job_ids)
        return [self._end(job_id) for job_id in job_ids]

    def take_failures(self) -> LoadFailures:
        """What failed to load since the last call."""
        failures, self._failures = self._failures, LoadFailures()
        return failures

    def wait(self, job_ids: Collection[int]) -> None:
        """Until none of the jobs touches the cache."""
        for job_id in job_ids:
            if (transfer := self._transfers.get(job_id)) is not None:
                self._end_copies(job_id, transfer, lambda copy: True)

    def shutdown(self) -> None:
        """Ends what is under way, and lets go of the cache and the store."""
        self.wait(self._transfers)
        self._transfers.clear()
        if self._staging is not None:
            self._staging.close()
        self._pages.clear()
        self._chunks.close()

    def _end(self, job_id: int) -> TransferResult:
        transfer = self._transfers.pop(job_id)
        return TransferResult(
            job_id=job_id,
            success=self.hands_on_failures or job_id not in self._failures.jobs,
            transfer_size=transfer.copied_bytes,
            transfer_time=time.perf_counter() - transfer.began_s,
        )

    def _submit(
        self, transfer: _Transfer, cache: GPULoadStoreSpec, chunks: LoadStoreSpec, layer: int | None
    ) -> None:
        """One copy for each group that has blocks in it, or as many as a staging can take."""
        assert isinstance(chunks, StoredChunks)
        transfer.begun += 1
        first = 0
        for pages, count in zip(self._pages, cache.group_sizes, strict=True):
            if count == 0:
                continue
            keys = chunks.keys[first : first + count]
            blocks = cache.block_ids[first : first + count]
            first += count
            most = count
            if self._staging is not None:
                most = self._staging.lane_bytes // pages.bytes_of(layer)
            parent = chunks.parents.get(get_offload_group_idx(keys[0]), b"")
            for some in (slice(begin, begin + most) for begin in range(0, count, most)):
                copy = _Copy(pages, None, layer, keys[some], blocks[some], parent)
                parent = get_offload_block_hash(copy.keys[-1])
                copy.job = self._begin(copy, transfer)
                transfer.copies.append(copy)

    def _begin(self, copy: _Copy, transfer: _Transfer) -> Job | StagedJob | None:
        if self._was_silent and not self._chunks.answers():
            return None
        self._was_silent = False
        if self._unfinished:
            self._chunks.erase(self._unfinished)
            self._unfinished.clear()
        [part] = self._chunks.by_group(copy.keys)
        part = part._replace(parent=copy.parent)
        pages, layer = copy.pages, copy.layer
        if self._staging is None:
            memory = pages.of_blocks(copy.blocks, layer)
            return self._chunks.ask(None, self._start, part, pages, memory, layer, transfer)
        submit = self._staging.load if transfer.is_load else self._staging.store
        return submit(
            pages.on_device(copy.blocks, layer),
            lambda memory: self._start(part, pages, memory, layer, transfer),
        )

    @staticmethod
    def _start(
        part: GroupKeys,
        pages: _GroupPages,
        memory: PageList | Memory,
        layer: int | None,
        transfer: _Transfer,
    ) -> Job:
        first, count = pages.first_part, pages.parts_per_rank
        if layer is not None:
            first, count = first + layer, 1
        if transfer.is_load:
            return part.space.submit_get(part.hashes, memory, first_part=first, part_count=count)
        if count == pages.parts:
            return part.space.submit_set(
                part.hashes, memory, parts=count, chain=True, parent=part.parent
            )
        return part.space.submit_set_parts(
            part.hashes,
            memory,
            chain=True,
            parent=part.parent,
            object_bytes=pages.object_bytes,
            parts=pages.parts,
            first_part=first,
            part_count=count,
        )

    def _end_copies(self, job_id: int, transfer: _Transfer, which: Callable[[_Copy], bool]) -> None:
        """Takes note of copies that are over, or waits until they are."""
        left = []
        for copy in transfer.copies:
            if not which(copy):
                left.append(copy)
                continue
            is_whole = [False] * len(copy.keys)
            result = None
            if copy.job is not None:
                result = self._chunks.ask(None, copy.job.wait_or_cancel)
            if result is not None:
                loads = transfer.is_load
                is_whole = result.whole(copy.bytes_per_block) if loads else result.bitmap
            good = is_whole.count(True)
            transfer.copied_bytes += copy.bytes_per_block * good
            if result is not None and not result.all_ok:
                self._was_silent |= Status.TIMEOUT in result.statuses
            if good < len(is_whole):
                self._note_failure(job_id, transfer, copy, is_whole)
        transfer.copies = left

    def _note_failure(
        self, job_id: int, transfer: _Transfer, copy: _Copy, is_whole: list[bool]
    ) -> None:
        keys = [key for key, whole in zip(copy.keys, is_whole, strict=True) if not whole]
        what = "load" if transfer.is_load else "store"
        logger.warning("NearKV: %d of %d chunks did not %s", len(keys), len(is_whole), what)
        if transfer.is_load:
            self._failures.keys.update(keys)
            self._failures.jobs.add(job_id)
            self._failures.blocks.update(copy.blocks[~np.array(is_whole)].tolist())
        elif copy.pages.parts > 1:
            # Nobody waits for parts that will not come: they go before what is begun next.
            self._unfinished.update(keys)
