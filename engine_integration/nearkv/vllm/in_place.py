"""vLLM's attention in place: NearKV's kernels read vLLM's own blocks, and copy nothing.

On a CPU the engine's memory is the memory near the compute. The backend is vLLM's own of the CPU
platform, with one call a layer in front of it that attends for all requests that decode. Prompts,
and what the kernels do not take, attend in vLLM's own kernel.
"""

from dataclasses import dataclass
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.logger import init_logger
from vllm.v1.attention.backend import AttentionType, CommonAttentionMetadata
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

from nearkv.core import MAX_HEAD_DIM, BlockBatch, BlockCache
from nearkv.vllm.attention_options import refuse
from nearkv.vllm.kv_rows import MAX_QUERIES, block_layout, halves, packed_rows
from nearkv.vllm.some_requests import SomeRequests, some_requests

logger = init_logger(__name__)


@dataclass
class InPlaceStep:
    """Requests of a step that attend in place, and the others."""

    batch: BlockBatch
    others: SomeRequests | None


class InPlaceMetadataBuilder(CPUAttentionMetadataBuilder):
    """In front of vLLM's: hands over the block tables, once a step."""

    def __init__(
        self,
        kv_cache_spec: Any,
        layer_names: list[str],
        vllm_config: VllmConfig,
        device: torch.device,
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        if vllm_config.parallel_config.decode_context_parallel_size > 1:
            refuse("has no decode context parallelism", "take a size of 1")
        # Cross attention, chunks, and what else comes: vLLM's own attention.
        self.is_in_place = type(kv_cache_spec) in (FullAttentionSpec, SlidingWindowSpec)
        """May be changed between steps, as benches do to compare."""
        self._batch = BlockBatch()
        self.attended_queries = 0
        """In all steps, by the group's layers in place."""

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> Any:
        """vLLM's metadata, with `nearkv_step`: None where nothing attends in place.

        vLLM's own is made for every step, some microseconds, since any layer may ask for it.
        """
        common = common_attn_metadata
        metadata = super().build(common_prefix_len, common, fast_build)
        metadata.nearkv_step = None
        if self.is_in_place and common.causal is True:
            metadata.nearkv_step = self._step(common)
        return metadata

    def _step(self, common: CommonAttentionMetadata) -> InPlaceStep | None:
        starts = common.query_start_loc_cpu[: common.num_reqs + 1]
        self._batch.begin_step(
            starts,
            common.seq_lens[: common.num_reqs],
            common.block_table_tensor[: common.num_reqs],
            block_tokens=self.block_size,
            max_queries=MAX_QUERIES,
        )
        if not self._batch.queries:
            return None
        self.attended_queries += self._batch.queries
        if common.max_query_len <= MAX_QUERIES:
            return InPlaceStep(self._batch, None)
        rows = (starts.diff() > MAX_QUERIES).nonzero().flatten().tolist()
        return InPlaceStep(self._batch, some_requests(super().build, common, rows))


class InPlaceImpl(CPUAttentionBackendImpl):
    """A layer's attention."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._cache: tuple[torch.Tensor, BlockCache | None] | None = None
        self._is_taken = (
            self.attn_type == AttentionType.DECODER
            and self.alibi_slopes is None
            and self.sinks is None
            and self.kv_cache_dtype in ("auto", "bfloat16", "float16", "float32")
            and self.head_size % 16 == 0
            and self.head_size <= MAX_HEAD_DIM
        )
        if not self._is_taken:
            logger.warning_once(
                "NearKV attends in place only in decoder layers without ALiBi, learned sinks or "
                "an 8-bit cache, whose heads are multiples of 16 up to %d: vLLM's own kernel "
                "attends in the others",
                MAX_HEAD_DIM,
            )

    def forward(
        self,
        layer: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        output_scale: torch.Tensor | None = None,
        output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attention of a step; query and output [tokens, heads, head_size]."""
        rows = query, key, value
        own = self._attend_own
        step = getattr(attn_metadata, "nearkv_step", None) if self._is_taken else None
        cache = self._blocks_of(layer, kv_cache) if step else None
        if cache is None or output_scale is not None or output_block_scale is not None:
            scales = output_scale, output_block_scale
            own(layer, *rows, kv_cache, attn_metadata, output, *scales)
            return output
        step.batch.attend(
            cache,
            query,
            output,
            scale=self.scale,
            soft_cap=self.logits_soft_cap,
            window=max(self.sliding_window, 0),
            **self._by_codes(),
        )
        if step.others is not None:
            step.others.attend(own, layer, rows, kv_cache, output)
        return output

    def _attend_own(self, *arguments: Any) -> None:
        """vLLM's own attention, as forward()."""
        super().forward(*arguments)

    def _by_codes(self) -> dict[str, Any]:
        """What else BlockBatch.attend() is told."""
        return {}

    def _blocks_of(self, layer: torch.nn.Module, kv_cache: torch.Tensor) -> BlockCache | None:
        """The layer's blocks; None if the kernels do not know how vLLM packs them here."""
        if self._cache is None or self._cache[0] is not kv_cache:
            block_tokens = kv_cache.shape[2]
            packed = packed_rows(kv_cache.dtype, block_tokens, self.head_size, layer.isa)
            layout = block_layout(packed, block_tokens)
            cache = None
            if layout is None:
                logger.warning_once("NearKV cannot attend in place: vLLM packs K and V otherwise")
            else:
                cache = BlockCache(*halves(kv_cache), layout)
                logger.info_once(
                    "NearKV attends in place: %d threads of torch's, K and V %s",
                    torch.get_num_threads(),
                    layout.name.lower().replace("_", "-"),
                )
            self._cache = kv_cache, cache
        return self._cache[1]
