"""vLLM's decode context parallelism by TokenRing: ranks share a request's tokens.

vLLM spreads tokens over the ranks of a group in stripes, and gives each rank block tables of its
own ones. Here the queries of a rank's heads go round the group, and (O, LSE) come back. Its CPU
platform has no context parallelism: what lacks there is an attention that knows of it, and slots.
"""

from functools import cache
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.distributed.parallel_state import get_dcp_group
from vllm.triton_utils.dispatcher import register_kernels
from vllm.v1.attention.backend import AttentionType, CommonAttentionMetadata
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackendImpl,
    CPUAttentionMetadataBuilder,
)

from nearkv.parallel import Links, Scores, Shard, Sharding, TokenRing
from nearkv.vllm.kv_rows import KVRows, Places, packed_rows

_SLOTS = "vllm.v1.worker.block_table.ComputeSlotMappingKernel.kernel"


@cache
def _ring() -> TokenRing:
    """Of this process's group; made on all ranks, when vLLM prepares its cache."""
    links = Links()
    return TokenRing(links.among(get_dcp_group().ranks))


class StepRequest:
    """One request in a step, laid out once for all layers of a group."""

    def __init__(
        self, tokens: slice, length: int, stripe: int, blocks: torch.Tensor, block: int
    ) -> None:
        """`tokens` of the step are its newest of `length`; `blocks` of `block` are here."""
        links = _ring().links
        self.tokens = tokens
        self.spread = Sharding.striped(length, links.size, stripe=stripe)
        held = torch.arange(self.spread.counts[links.rank])
        self._slots = blocks[held // block].long() * block + held % block
        self._places: tuple[Places, Places] | None = None
        positions = torch.arange(length - (tokens.stop - tokens.start), length)
        self.queries = Sharding((positions,) * links.size)

    def shard(self, reader: KVRows, kv_cache: torch.Tensor) -> Shard:
        """K and V that this rank holds in a layer's cache; all layers' have one shape."""
        if self._places is None:
            self._places = reader.places(kv_cache, self._slots)
        rows = reader.read(kv_cache, self._places)
        parts = (part.transpose(0, 1)[None] for part in rows)
        return Shard(*parts, self.spread, _ring().links.rank)


class ContextParallelBuilder(CPUAttentionMetadataBuilder):
    """Says, besides what the platform's says, how requests' tokens are spread."""

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: VllmConfig, device: Any
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._stripe = vllm_config.parallel_config.cp_kv_cache_interleave_size
        register_kernels({_SLOTS: slots_of_stripes})
        _ring()

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> Any:
        """The platform's metadata, with the step's StepRequests in `nearkv_requests`."""
        metadata = super().build(common_prefix_len, common_attn_metadata, fast_build)
        ends = metadata.query_start_loc.tolist()
        metadata.nearkv_requests = [
            StepRequest(slice(first, end), length, self._stripe, blocks, self.block_size)
            for first, end, length, blocks in zip(
                ends[:-1], ends[1:], metadata.seq_lens.tolist(), metadata.block_table, strict=False
            )
        ]
        return metadata


class ContextParallelImpl(CPUAttentionBackendImpl):
    """Attention of a rank's heads to the tokens of all ranks of its group."""

    can_return_lse_for_decode = True
    supports_dcp = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.attn_type != AttentionType.DECODER or self.kv_sharing_target_layer_name:
            raise ValueError(
                "NearKV's context parallelism is for decoders whose layers keep K and V: "
                "--decode-context-parallel-size 1"
            )
        if self.alibi_slopes is not None or self.sinks is not None or self.is_fp8_kv_cache:
            raise ValueError(
                "NearKV's context parallelism has no ALiBi, learned sinks or fp8 KV caches: "
                "--decode-context-parallel-size 1"
            )

    def do_kv_cache_update(
        self,
        layer: torch.nn.Module,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Caches the tokens of this rank."""
        own = (slot_mapping >= 0).nonzero().flatten()
        if len(own):
            rows = key[own], value[own]
            super().do_kv_cache_update(layer, *rows, kv_cache, slot_mapping[own])

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
        """Of each request of a step in turn, prompts and decoding alike."""
        if attn_metadata is None:
            return output
        reader = packed_rows(kv_cache.dtype, kv_cache.shape[2], self.head_size, layer.isa)
        scores = self._scores()
        for request in attn_metadata.nearkv_requests:
            own = query[request.tokens].transpose(0, 1)[None]
            shard = request.shard(reader, kv_cache)
            part = _ring().attend(own, shard, request.queries, scores)
            output[request.tokens] = part[0].transpose(0, 1)
        return output

    def _scores(self) -> Scores:
        window = max(self.sliding_window, 0)
        return Scores(scale=self.scale, window=window, soft_cap=float(self.logits_soft_cap))


def slots_of_stripes(
    tokens: int,
    most: int,
    starts: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    stride: int,
    slots: torch.Tensor,
    block_tokens: int,
    ranks: int,
    rank: int,
    stripe: int,
    pad: int,
    step: int,
) -> None:
    """In the place of vLLM's kernel of Triton: where tokens go, `pad` for those of other ranks."""
    counts = starts.diff()
    request = torch.arange(len(counts)).repeat_interleave(counts)
    at = positions[: len(request)]
    place = at // (stripe * ranks) * stripe + at % stripe
    block = block_table[request, place // block_tokens].long()
    own = at // stripe % ranks == rank
    slots[: len(request)] = torch.where(own, block * block_tokens + place % block_tokens, pad)
    slots[len(request) :] = pad
