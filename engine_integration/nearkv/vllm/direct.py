"""vLLM's offload without a tier between: chunks go straight between its KV cache and a store."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any, Self

from vllm import _custom_ops as ops
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
    OffloadingConnectorStats,
)
from vllm.platforms import current_platform
from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    LoadStoreSpec,
    LookupResult,
    Medium,
    OffloadingEvent,
    OffloadingManager,
    OffloadingMetricMetadata,
    OffloadingSpec,
    OffloadKey,
    PrepareStoreOutput,
    ReqContext,
    RequestOffloadingContext,
    ScheduleEndContext,
)
from vllm.v1.kv_offload.config import OffloadingConfig

from nearkv.store import Lease
from nearkv.vllm.chunk_store import MODEL_SETTINGS, ChunkStore, layout_of
from nearkv.vllm.copier import Copier
from nearkv.vllm.direct_worker import DirectWorker, StoredChunks
from nearkv.vllm.metrics import StoreMetrics, metric_definitions
from nearkv.vllm.options import VllmStoreSettings
from nearkv.vllm.staging import Staging

# What vLLM itself reads from the same place, and what NearKVConnector puts there.
_OTHERS = (
    MODEL_SETTINGS,
    "spec_name",
    "spec_module_path",
    "block_size",
    "blocks_per_chunk",
    "offload_prompt_only",
    "canonical_layout",
    "self_describing_kv_events",
)


# What Dynamo's router weighs; it ignores other names, which llm-d counts as a GPU's.
_MEDIA = ("CPU", "CPU_TIER2", "DISK", "STORAGE", "EXTERNAL", "NETWORK", "REMOTE", "SHARED")


@dataclasses.dataclass
class ConnectorOptions(VllmStoreSettings):
    """Those of a NearKVConnector."""

    layerwise: bool = False
    """Load and store layer by layer, while the model computes."""
    hand_over: bool = False
    """Answer when a request's blocks are stored, for another engine that goes on with it."""
    medium: str = ""
    """What events call the store; without it CPU_TIER2, or SHARED behind a socket."""
    staging_bytes: int = 256 << 20
    """Of a worker on a GPU: pinned host memory that blocks go through."""

    @classmethod
    def of(cls, extra_config: Mapping[str, Any]) -> Self:
        """Those in vLLM's kv_connector_extra_config. ValueError names what is wrong."""
        options = cls.parse("NearKVConnector", dict(extra_config), _OTHERS)
        if options.medium and options.medium not in _MEDIA:
            raise ValueError(f"medium is one of {', '.join(_MEDIA)}, not '{options.medium}'")
        return options

    @property
    def event_medium(self) -> str:
        """The medium of events."""
        return self.medium or ("SHARED" if self.socket else "CPU_TIER2")


class DirectManager(OffloadingManager):
    """The scheduler's side: which chunks are there, which are to be kept or stored.

    `loads` and `stores` are what this engine does at all. A chunk that failed to load is a miss
    until it was stored again.
    """

    loads = True
    stores = True

    def __init__(self, chunks: ChunkStore) -> None:
        """Takes over the chunks."""
        self._chunks = chunks
        self._metrics = StoreMetrics(chunks)
        self._there: set[OffloadKey] = set()
        self._failed: set[OffloadKey] = set()
        self._storing: set[OffloadKey] = set()
        self._found: dict[str, list[Lease]] = {}  # In this step, by requests.
        self._leases: dict[str, list[Lease]] = {}

    def look_ahead(self, request_id: str, keys: Collection[OffloadKey]) -> None:
        """Asks the store for a request's chunks at once; lookup() then answers from that.

        What is there stays for the rest of the step, and for a load that the step decides on.
        """
        self._chunks.unpin(self._found.pop(request_id, ()))
        self._there, leases = self._chunks.pin(keys) if self.loads else (set(), [])
        self._there -= self._failed
        self._found[request_id] = leases

    def holds(self, key: OffloadKey) -> bool:
        """Whether one chunk is there."""
        return self.loads and self._chunks.holds(key)

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT or MISS, as of look_ahead()."""
        return LookupResult.HIT if key in self._there else LookupResult.MISS

    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> LoadStoreSpec:
        """Takes over what look_ahead() leased, until complete_load()."""
        leases = self._found.pop(req_context.req_id, [])
        self._leases.setdefault(req_context.req_id, []).extend(leases)
        return StoredChunks(list(keys))

    def complete_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Ends the request's leases."""
        self._chunks.unpin(self._leases.pop(req_context.req_id, ()))

    def fail_load(self, keys: Collection[OffloadKey]) -> None:
        """What did not come whole is not offered again, and makes way for what is stored next."""
        self._failed.update(keys)
        self._chunks.erase(keys)
        self._metrics.count_failures(len(keys))

    def prepare_store(
        self, keys: Collection[OffloadKey], req_context: ReqContext
    ) -> PrepareStoreOutput:
        """Those that are neither there nor on their way; the store makes room by itself."""
        if not self.stores:
            return PrepareStoreOutput([], StoredChunks([]), evicted_keys=[])
        left_out = self._storing.intersection(keys)
        left_out |= self._chunks.present(keys) - self._failed
        missing = [key for key in keys if key not in left_out] if left_out else list(keys)
        self._storing.update(missing)
        chunks = StoredChunks(missing, self._chunks.parents_of(missing, req_context))
        return PrepareStoreOutput(missing, chunks, evicted_keys=[])

    def complete_store(
        self, keys: Collection[OffloadKey], req_context: ReqContext, success: bool = True
    ) -> None:
        """They may be found from now on."""
        self._storing.difference_update(keys)
        self._failed.difference_update(keys)

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Marks chunks as used."""
        self._chunks.touch(keys)

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Chunks as they come."""
        return RequestOffloadingContext()

    def on_schedule_end(self, context: ScheduleEndContext) -> None:
        """Ends leases of what the step did not decide to load."""
        for leases in self._found.values():
            self._chunks.unpin(leases)
        self._found.clear()

    def reset_cache(self) -> None:
        """Deletes all that this engine could find: its weights may have changed.

        RuntimeError if that cannot be: the engine may not go on with what is stored.
        """
        for leases in chain(self._found.values(), self._leases.values()):
            self._chunks.unpin(leases)
        self._found.clear()
        self._leases.clear()
        self._storing.clear()
        self._there.clear()
        self._chunks.erase_all()

    def take_events(self) -> Iterable[OffloadingEvent]:
        """What came to the store and what went from it."""
        return self._chunks.take_events(Medium.STORAGE, None)

    def get_stats(self) -> OffloadingConnectorStats | None:
        """Counts since the last call."""
        return self._metrics.take()

    def shutdown(self) -> None:
        """Lets go of the store."""
        self._chunks.close()


class NearKVDirectSpec(OffloadingSpec):
    """What NearKVConnector is made of; under another connector a failed load ends the engine."""

    @classmethod
    def build_metric_definitions(
        cls, extra_config: dict[str, Any]
    ) -> dict[str, OffloadingMetricMetadata]:
        """Those of the store."""
        return metric_definitions()

    def __init__(self, config: OffloadingConfig) -> None:
        """ValueError names what is wrong in the configuration."""
        super().__init__(config)
        self.options = ConnectorOptions.of(config.extra_config)
        if self.blocks_per_chunk != 1:
            raise ValueError(
                "chunks of NearKVConnector are vLLM's blocks: leave block_size and "
                "blocks_per_chunk out, and give vLLM itself a larger --block-size"
            )
        if config.canonical_layout:
            raise ValueError(
                "NearKVConnector stores blocks as they lie in vLLM's cache: leave canonical_layout "
                "out, or take NearKVTier below vLLM's own offload"
            )
        if self.options.uri and config.parallel.world_size > 1:
            raise ValueError(
                f"{config.parallel.world_size} ranks cannot own one file: give the socket of a "
                "daemon (nearkv serve) instead of a uri"
            )

    def get_manager(self) -> DirectManager:
        """For the scheduler."""
        return DirectManager(self._open())

    def get_worker(self, kv_caches: CanonicalKVCaches) -> DirectWorker:
        """For this rank."""
        staging = self._make_staging()
        return DirectWorker(self._open(), kv_caches, self.config, staging)

    def _make_staging(self) -> Staging | None:
        """What blocks go through where they do not lie in host memory."""
        if current_platform.is_cpu():
            return None
        if not current_platform.is_cuda_alike():
            raise ValueError(
                f"NearKVConnector copies to and from GPUs of CUDA and ROCm and host memory, not "
                f"{current_platform.device_name}: take NearKVTier below vLLM's own offload"
            )
        copier = Copier(current_platform, ops.swap_blocks_batch)
        return Staging(copier, self.options.staging_bytes)

    def _open(self) -> ChunkStore:
        layout = layout_of(self, self.options, any_ranks=False, stored="by layer")
        return ChunkStore(self.options, self, layout)
