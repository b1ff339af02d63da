"""vLLM's connector onto a NearKV store: its offload, with direct copies, layers, and failures."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorTransferResults,
)
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import (
    OffloadingConnectorMetadata,
    OffloadingWorkerMetadata,
    TransferJob,
)
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import GPULoadStoreSpec, OffloadKey, ReqContext, make_offload_key

from nearkv.vllm.chunk_store import MODEL_SETTINGS, model_settings
from nearkv.vllm.direct import ConnectorOptions, DirectManager
from nearkv.vllm.direct_worker import DirectWorker, LoadFailures

if TYPE_CHECKING:
    import torch
    from vllm.config import VllmConfig
    from vllm.distributed.kv_events import KVCacheEvent
    from vllm.forward_context import ForwardContext
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import Request


logger = init_logger(__name__)

# How long a step without a model may take: a request that comes meanwhile waits for its end.
_IDLE_STEP_S = 0.005


@dataclasses.dataclass
class WorkerMetadata(OffloadingWorkerMetadata):
    """What a worker tells its scheduler, with the chunks that failed to load."""

    failed_keys: set[OffloadKey] = dataclasses.field(default_factory=set)

    def aggregate(self, other: OffloadingWorkerMetadata) -> "WorkerMetadata":
        """That of several ranks."""
        both = super().aggregate(other)
        failed = self.failed_keys | getattr(other, "failed_keys", set())
        return WorkerMetadata(both.completed_jobs, both.transfer_stats, failed)


def _with_spec(vllm_config: "VllmConfig") -> "VllmConfig":
    """The configuration, which names the spec that goes with this connector, and its model."""
    extra = vllm_config.kv_transfer_config.kv_connector_extra_config
    extra |= {"spec_name": "NearKVDirectSpec", "spec_module_path": "nearkv.vllm.direct"}
    extra[MODEL_SETTINGS] = model_settings(vllm_config)
    return vllm_config


class NearKVConnector(OffloadingConnector):
    """vLLM's scheduling of offloads, onto chunks of a store that may fail to load.

    Blocks that did not come whole are told to vLLM, which computes them again. With `layerwise`
    a request begins at once: each layer waits for its own pages, and is stored while the next one
    computes. With `hand_over`, or of an engine that is only a producer, an answer comes when its
    blocks are stored. A producer loads no blocks, a consumer stores none.
    """

    def __init__(
        self, vllm_config: "VllmConfig", role: KVConnectorRole, kv_cache_config: "KVCacheConfig"
    ) -> None:
        """ValueError or nearkv.core.Error says what is wrong."""
        super().__init__(_with_spec(vllm_config), role, kv_cache_config)
        transfer = vllm_config.kv_transfer_config
        self._options = ConnectorOptions.of(transfer.kv_connector_extra_config)
        self._hands_over = self._options.hand_over or not transfer.is_kv_consumer
        if self._options.hand_over and not transfer.is_kv_producer:
            raise ValueError(
                "hand_over needs an engine that stores blocks: give it kv_role kv_both, or leave "
                "hand_over out"
            )
        if self._options.layerwise and vllm_config.scheduler_config.async_scheduling:
            raise ValueError(
                "layerwise needs --no-async-scheduling: a layer that fails to load is found out "
                "when vLLM would have scheduled the next step already"
            )
        if self._options.layerwise and len(kv_cache_config.kv_cache_groups) > 1:
            raise ValueError(
                "layerwise needs a model of one KV cache group, for vLLM recomputes failed layers "
                "of no other: leave it out"
            )
        if role == KVConnectorRole.SCHEDULER:
            self._manager.loads = transfer.is_kv_consumer
            self._manager.stores = transfer.is_kv_producer
            if transfer.is_kv_consumer and transfer.kv_load_failure_policy != "recompute":
                logger.warning(
                    'NearKVConnector: kv_load_failure_policy is "%s", so that a request fails if a '
                    'block of it does not come whole from the store; with "recompute" vLLM '
                    "computes that block",
                    transfer.kv_load_failure_policy,
                )
        # Loads by layers of one step, numbered apart from vLLM's: the scheduler's, the worker's.
        self._next_layer_load = -1
        self._layer_loads: dict[int, TransferJob] = {}
        self._layer_contexts: list[ReqContext] = []
        self._loading: dict[int, TransferJob] = {}
        self._requests: dict[int, str] = {}  # The worker's, of other loads on their way.
        self._failures = LoadFailures()

    @property
    def _manager(self) -> DirectManager:
        return self.scheduler.manager

    @property
    def _worker(self) -> DirectWorker:
        return self.connector_worker.worker

    # The scheduler's side.

    def get_num_new_matched_tokens(
        self, request: "Request", num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """As vLLM's, after one question to the store for all blocks."""
        keys = self._keys_of(request, num_computed_tokens)
        self._manager.look_ahead(request.request_id, keys)
        tokens, is_later = super().get_num_new_matched_tokens(request, num_computed_tokens)
        return tokens, is_later and not self._options.layerwise

    def update_state_after_alloc(
        self, request: "Request", blocks: "KVCacheBlocks", num_external_tokens: int
    ) -> None:
        """As vLLM's, but for loads by layers: they end in this step, and need not be followed."""
        if not self._options.layerwise or num_external_tokens == 0:
            super().update_state_after_alloc(request, blocks, num_external_tokens)
            return
        state = self.scheduler._req_status[request.request_id]
        [group], [config] = state.group_states, self.scheduler.config.kv_group_configs
        first = state.num_locally_computed_tokens // config.tokens_per_block
        count = num_external_tokens // config.tokens_per_block
        keys = group.offload_keys[first : first + count]
        group.next_stored_chunk_idx = first + count
        numbers = [block.block_id for block in blocks.blocks[0][first : first + count]]
        target = GPULoadStoreSpec(numbers, group_sizes=[count], block_indices=[first])
        source = self._manager.prepare_load(keys, state.req_context)
        self._layer_loads[self._next_layer_load] = TransferJob(request.request_id, source, target)
        self._layer_contexts.append(state.req_context)
        self._next_layer_load -= 1

    def build_connector_meta(self, scheduler_output: "SchedulerOutput") -> KVConnectorMetadata:
        """As vLLM's, with this step's loads by layers."""
        meta = super().build_connector_meta(scheduler_output)
        meta.load_jobs |= self._layer_loads
        self._layer_loads = {}
        return meta

    def update_connector_output(self, connector_output: "KVConnectorOutput") -> None:
        """As vLLM's; what failed to load is a miss from now on."""
        super().update_connector_output(connector_output)
        for context in self._layer_contexts:
            self._manager.complete_load((), context)
        self._layer_contexts.clear()
        # After their leases have ended, for what is leased cannot be erased.
        meta = connector_output.kv_connector_worker_meta
        if isinstance(meta, WorkerMetadata) and meta.failed_keys:
            self._manager.fail_load(meta.failed_keys)
            self._store_again(meta.failed_keys)

    def take_events(self) -> Iterable["KVCacheEvent"]:
        """As vLLM's, with a medium that routers know how to weigh."""
        for event in super().take_events():
            if hasattr(event, "medium"):
                event.medium = self._options.event_medium
            yield event

    def _keys_of(self, request: "Request", num_computed_tokens: int) -> list[OffloadKey]:
        """All that vLLM may look up of a request: its very objects, which it has hashes of."""
        state, config = self.scheduler._req_status[request.request_id], self.scheduler.config
        state.update_offload_keys()
        keys: list[OffloadKey] = []
        for group, known in zip(config.kv_group_configs, state.group_states, strict=True):
            run = known.offload_keys[num_computed_tokens // group.tokens_per_chunk :]
            keys += run
            is_prefix = group.sliding_window_size_in_chunks is None
            if is_prefix and run and not self._manager.holds(run[0]):
                # What full attention lacks at the beginning ends vLLM's search, but for tails.
                keys.clear()
                break
        if config.supports_partial_tail:
            groups = [group.group_idx for group in config.kv_group_configs]
            keys += [make_offload_key(one, i) for one in request.block_hashes for i in groups]
        return keys

    def _store_again(self, keys: set[OffloadKey]) -> None:
        """Requests that counted on chunks compute them, and then store them as their own."""
        configs = self.scheduler.config.kv_group_configs
        for request, state in self.scheduler._req_status.items():
            for config, group in zip(configs, state.group_states, strict=True):
                first = next((i for i, key in enumerate(group.offload_keys) if key in keys), None)
                if first is None or first >= group.next_stored_chunk_idx:
                    continue
                group.next_stored_chunk_idx = first
                # Before a window vLLM still has numbers of blocks that hold other tokens by now.
                known = group.block_ids[first:]
                held = self._kv_cache_manager.get_block_ids(request)[config.group_idx][first:]
                group.block_ids[first:] = [*held, *[0] * len(known)][: len(known)]

    # The worker's side.

    def register_kv_caches(self, kv_caches: "dict[str, torch.Tensor]") -> None:
        """Once, before all else."""
        super().register_kv_caches(kv_caches)
        self._worker.hands_on_failures = True
        if self._options.layerwise and not self._worker.is_by_layer:
            raise ValueError("layerwise needs layers of equal pages: leave it out")

    def start_load_kv(self, forward_context: "ForwardContext", **kwargs: Any) -> None:
        """Begins all loads of this step."""
        meta = self._meta
        if self._options.layerwise:
            for job_id, job in meta.load_jobs.items():
                self._worker.submit_load_by_layer(job_id, job.src_spec, job.dst_spec)
            self._loading, meta.load_jobs = meta.load_jobs, {}
        self._requests |= {job_id: job.req_id for job_id, job in meta.load_jobs.items()}
        super().start_load_kv(forward_context, **kwargs)
        if forward_context.attn_metadata is None:  # No model runs: vLLM would ask without a pause.
            self._worker.help_loads(_IDLE_STEP_S)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Until this layer's pages are there, or known not to come."""
        if self._loading:
            self._worker.wait_for_layer(layer_name)

    def save_kv_layer(
        self, layer_name: str, kv_layer: "torch.Tensor", attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Begins to store this layer's pages of this step."""
        if self._options.layerwise:
            for job_id, job in self._meta.store_jobs.items():
                self._worker.submit_store_layer(job_id, layer_name, job.src_spec, job.dst_spec)

    def wait_for_save(self) -> None:
        """Ends what goes by layers; who hands over has stored when this returns."""
        if self._options.layerwise or self._hands_over:
            stores, self._meta.store_jobs = self._meta.store_jobs, {}
            for job_id, job in stores.items():
                self._worker.submit_store(job_id, job.src_spec, job.dst_spec)
            if self._hands_over:
                self._worker.wait(stores)
        loads = self.connector_worker._connector_worker_meta.transfer_stats.load
        for ended in self._worker.end_loads_by_layer(self._loading):
            loads.record(ended.transfer_size, ended.transfer_time)
        self._loading = {}
        super().wait_for_save()

    def get_transfer_results(self, finished_req_ids: set[str]) -> KVConnectorTransferResults:
        """As vLLM's, with the requests whose load failed where it takes no numbers of blocks."""
        results = super().get_transfer_results(finished_req_ids)
        self._failures = self._worker.take_failures()
        failed = {self._requests[job_id] for job_id in self._failures.jobs & self._requests.keys()}
        self._requests = {
            job_id: request
            for job_id, request in self._requests.items()
            if request not in results.finished_recving
        }
        if len(self._kv_cache_config.kv_cache_groups) > 1:
            self._failures.blocks.clear()
            results.failed_recving |= failed
        return results

    def get_block_ids_with_load_errors(self) -> set[int]:
        """The blocks of this step that did not come whole."""
        return self._failures.blocks

    def build_connector_worker_meta(self) -> OffloadingWorkerMetadata:
        """As vLLM's, with what failed, and counts also where no job of vLLM's has ended."""
        worker = self.connector_worker
        meta, worker._connector_worker_meta = (
            worker._connector_worker_meta,
            OffloadingWorkerMetadata(),
        )
        return WorkerMetadata(meta.completed_jobs, meta.transfer_stats, self._failures.keys)

    # Both sides.

    @property
    def _meta(self) -> OffloadingConnectorMetadata:
        assert isinstance(self._connector_metadata, OffloadingConnectorMetadata)
        return self._connector_metadata

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: dict[str, Any]) -> bool:
        """Layers are seen only between graphs."""
        return bool(extra_config.get("layerwise"))

    @classmethod
    def build_prom_metrics(cls, vllm_config: "VllmConfig", *arguments: Any) -> Any:
        """vLLM's own, and those of the store."""
        return super().build_prom_metrics(_with_spec(vllm_config), *arguments)
