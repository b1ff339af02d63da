"""Attention near the data on a GPU: vLLM's FlashAttention, with the pool in front of it.

Not run on a GPU: what is below ran in an engine on the CPU, with FlashAttention's two kernels in
torch. Requests that attend to the pool attend to their newest tokens in torch, on the GPU (see
far_step.py), others in FlashAttention. Queries and results cross once a layer, which the host
waits for; so no CUDA graph has attention in it.
"""

from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.v1.attention.backend import AttentionCGSupport
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadataBuilder,
)

from nearkv.vllm.attention import FarBuilder, FarImpl
from nearkv.vllm.attention_options import refuse
from nearkv.vllm.configured import is_configured
from nearkv.vllm.kv_rows import KVRows, RowLayout


class NearKVFlashAttentionImpl(FarImpl, FlashAttentionImpl):
    """Attention of a layer."""

    def kv_rows(self, layer: torch.nn.Module, cache: torch.Tensor) -> KVRows:
        """A cache [blocks, kv_heads, block, 2 * head_size], in memory in whatever order."""
        strides = cache.stride(2), 0, cache.stride(3), 0
        values = self.head_size * cache.stride(3)
        return KVRows(self.head_size, RowLayout(0, 1, 1, strides), RowLayout(values, 1, 1, strides))


class NearKVFlashAttentionBuilder(FarBuilder, FlashAttentionMetadataBuilder):
    """Metadata of a step."""

    # Each group of layers with block tables of its own has pages of its own.
    supports_update_block_table = False

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: VllmConfig, device: Any
    ) -> None:
        if vllm_config.speculative_config is not None:
            refuse("has no speculative decoding on a GPU", "leave it out")
        if vllm_config.parallel_config.use_ubatching:
            refuse("sees whole batches alone", "leave out --enable-dbo and --ubatch-size")
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    @classmethod
    def get_cudagraph_support(cls, *_: Any) -> AttentionCGSupport:
        """None: the host takes part."""
        return AttentionCGSupport.NEVER


class NearKVFlashAttentionBackend(FlashAttentionBackend):
    """What --attention-backend CUSTOM means."""

    @staticmethod
    def get_name() -> str:
        """Its name among vLLM's."""
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[FlashAttentionImpl]:
        """Who attends."""
        return NearKVFlashAttentionImpl

    @staticmethod
    def get_builder_cls() -> type[FlashAttentionMetadataBuilder]:
        """Who prepares a step."""
        return NearKVFlashAttentionBuilder

    @classmethod
    def validate_configuration(cls, *arguments: Any, **named: Any) -> list[str]:
        """What FlashAttention finds wrong, and that nobody said where the pool is."""
        reasons = super().validate_configuration(*arguments, **named)
        if not is_configured():
            reasons.append("it is NearKV's, which needs nearkv_attention in --additional-config")
        return reasons
