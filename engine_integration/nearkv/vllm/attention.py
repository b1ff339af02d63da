"""vLLM's attention near the data: blocks that closed also lie in a pool, and queries go there.

The backend is vLLM's own of the platform, with this in front of it; where nothing of a request is
in the pool yet, vLLM's own kernel attends. All tokens stay in vLLM's blocks, so whatever the pool
refuses, loses or cannot find any more is attended to there.
"""

from typing import Any

import torch
from vllm.config import VllmConfig, get_current_vllm_config
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.logger import init_logger
from vllm.v1.attention.backend import AttentionType, CommonAttentionMetadata
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

from nearkv.core import MAX_HEAD_DIM, AttendMode, Device, Dtype, Pool
from nearkv.far import FarAttention
from nearkv.gains import load_gains
from nearkv.vllm.attention_options import AttentionOptions, refuse
from nearkv.vllm.far_pages import FarPages
from nearkv.vllm.far_step import FarStep, LayerAttention
from nearkv.vllm.kv_rows import KVRows, packed_rows
from nearkv.vllm.some_requests import some_requests

logger = init_logger(__name__)

_DTYPES = {torch.bfloat16: Dtype.BF16, torch.float16: Dtype.FP16}


class FarBuilder:
    """In front of a metadata builder of vLLM's: looks up, once a step, what is in the pool."""

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: VllmConfig, device: Any
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        options = AttentionOptions.parse(vllm_config.additional_config)
        self.far = FarAttention(
            mode=AttendMode[options.mode.upper()],
            top_k=options.top_k,
            error=options.error,
            if_faster=options.if_faster,
        )
        self.pages: FarPages | None = None
        self._numbers = {name: number for number, name in enumerate(layer_names)}
        if type(kv_cache_spec) not in (FullAttentionSpec, SlidingWindowSpec):
            return  # Cross attention, chunks, and what else comes: vLLM's own attention.
        is_sliding = isinstance(kv_cache_spec, SlidingWindowSpec)
        window = kv_cache_spec.sliding_window if is_sliding else 0
        if vllm_config.parallel_config.decode_context_parallel_size > 1:
            refuse("has no decode context parallelism", "take a size of 1")
        if not options.uri:
            refuse(
                "attends in vLLM's own blocks on the CPU alone",
                'name a pool: "uri": "cpu:?memory=4GiB"',
            )
        dtype = getattr(torch, options.rounded) if options.rounded else kv_cache_spec.dtype
        rank = str(get_tensor_model_parallel_rank())
        device = Device(options.uri.replace("{rank}", rank))
        if device.cores:
            cores = ", ".join(map(str, device.cores))
            logger.info_once("NearKV's pool works on cores %s", cores)
        pool = Pool.create(
            device,
            layers=len(layer_names),
            kv_heads=kv_cache_spec.num_kv_heads,
            head_dim=kv_cache_spec.head_size,
            dtype=_DTYPES[dtype],
            max_sequences=options.max_sequences,
            codes=self.far.mode != AttendMode.DENSE,
        )
        if options.gains:
            load_gains(pool, options.gains.replace("{rank}", rank))
        self.pages = FarPages(pool, kv_cache_spec.block_size, options.window_tokens, window)
        # A connector writes into blocks too, and tells nobody here of which.
        self._is_verified = vllm_config.kv_transfer_config is not None

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> Any:
        """The base's metadata, with what a step needs of the pool in `nearkv_step`."""
        common = common_attn_metadata
        plain_build = super().build
        metadata = plain_build(common_prefix_len, common, fast_build)
        metadata.nearkv_step = metadata.nearkv_layers = None
        if self.pages is not None:
            starts = common.query_start_loc_cpu[: common.num_reqs + 1].tolist()
            rows = self.pages.begin(
                common.block_table_tensor.cpu().numpy(),
                common.seq_lens[: common.num_reqs].tolist(),
                common.query_start_loc_cpu[: common.num_reqs + 1].diff().tolist(),
                common.slot_mapping[: common.num_actual_tokens].cpu().numpy(),
            )
            if rows and common.causal is True:
                metadata.nearkv_layers = self._numbers
                metadata.nearkv_step = FarStep(
                    self.pages,
                    self.far,
                    rows,
                    starts,
                    self.device,
                    self._is_verified,
                    lambda rows: some_requests(plain_build, common, rows),
                )
        return metadata


class FarImpl:
    """In front of an attention implementation of vLLM's: sends queries to the pool, and merges."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            num_heads,
            head_size,
            scale,
            num_kv_heads,
            alibi_slopes,
            sliding_window,
            kv_cache_dtype,
            logits_soft_cap,
            attn_type,
            kv_sharing_target_layer_name,
            **more,
        )
        # Other layers have vLLM's own attention.
        self._is_far = attn_type == AttentionType.DECODER and kv_sharing_target_layer_name is None
        self._scale, self._soft_cap = scale, logits_soft_cap or 0.0
        self._window = sliding_window or 0
        self._rounded: torch.dtype | None = None
        if not self._is_far:
            return
        config = get_current_vllm_config()
        options = AttentionOptions.parse(config.additional_config)
        dtype = config.model_config.dtype
        if alibi_slopes is not None:
            refuse("has no ALiBi", "take a model with rotary positions")
        if more.get("sinks") is not None:
            refuse("has no learned sinks", "take a model without them")
        if head_size % 16 or head_size > MAX_HEAD_DIM:
            most = f"multiples of 16 up to {MAX_HEAD_DIM}"
            refuse(f"has a pool of heads of {most}, not {head_size}", "take a model with such")
        if dtype not in (*_DTYPES, torch.float32):
            refuse(f"has no model in {dtype}", "--dtype bfloat16, float16 or float32")
        if kv_cache_dtype not in ("auto", str(dtype).removeprefix("torch.")):
            refuse(f"keeps no {kv_cache_dtype} of a model in {dtype}", "--kv-cache-dtype auto")
        if options.rounded:
            self._rounded = getattr(torch, options.rounded)
        if self._rounded not in (None, dtype) and dtype != torch.float32:
            refuse(f"rounds only float32, not {dtype}", "leave out rounded")
        if dtype == torch.float32 and self._rounded is None:
            refuse(f"has a pool of bfloat16 or float16, not {dtype}", '"rounded": "bfloat16"')

    def kv_rows(self, layer: torch.nn.Module, cache: torch.Tensor) -> KVRows:
        """How this platform's blocks are read."""
        raise NotImplementedError

    def do_kv_cache_update(
        self,
        layer: torch.nn.Module,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Caches K and V, rounded to what the pool holds."""
        if self._rounded is not None:
            key, value = (rows.to(self._rounded).to(rows.dtype) for rows in (key, value))
        super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)

    def forward(
        self,
        layer: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        attn_metadata: Any,
        output: torch.Tensor,
        *more: Any,
        **named: Any,
    ) -> torch.Tensor:
        """Attention of a step in one layer; what closed in it goes to the pool afterwards."""
        rows = query, key, value
        own = super().forward
        step = getattr(attn_metadata, "nearkv_step", None) if self._is_far else None
        if step is None or any(part is not None for part in (*more, *named.values())):
            own(layer, *rows, kv_cache, attn_metadata, output, *more, **named)
            return output
        number = attn_metadata.nearkv_layers[layer.layer_name]
        shape = LayerAttention(number, self._scale, self._soft_cap, self._window)
        reader = self.kv_rows(layer, kv_cache)
        step.verify(shape, kv_cache, reader)
        step.attend(shape, query, output, kv_cache, reader)
        if not step.is_far(self._window):
            own(layer, *rows, kv_cache, attn_metadata, output)
        elif part := step.part(self._window):
            part.attend(own, layer, rows, kv_cache, output)
        step.store(shape, query, kv_cache, reader)
        return output


class NearKVAttentionImpl(FarImpl, CPUAttentionBackendImpl):
    """Attention on the CPU platform."""

    def kv_rows(self, layer: torch.nn.Module, cache: torch.Tensor) -> KVRows:
        """How the CPU kernels pack blocks."""
        return packed_rows(cache.dtype, cache.shape[2], self.head_size, layer.isa)


class NearKVMetadataBuilder(FarBuilder, CPUAttentionMetadataBuilder):
    """Metadata on the CPU platform."""
