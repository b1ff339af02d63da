"""vLLM's attention in place by codes: of long requests a part of the rows is read.

NearKV writes K and V itself here, as rows in vLLM's own blocks, since single tokens of them are
read. So it also knows which codes no longer hold. vLLM's kernel, which attends for prompts, packs
keys otherwise: it is given a copy of the blocks that it needs, a layer at a time.
"""

import dataclasses
from typing import Any

import torch
from vllm.config import VllmConfig, get_layers_from_vllm_config
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.logger import init_logger
from vllm.model_executor.layers.attention import Attention
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

from nearkv.core import PAGE_TOKENS, AttendMode, BlockCache, BlockCodes
from nearkv.gains import AskedQueries, read_gains
from nearkv.vllm.attention_options import AttentionOptions, refuse
from nearkv.vllm.configured import configured_options
from nearkv.vllm.in_place import InPlaceImpl, InPlaceMetadataBuilder
from nearkv.vllm.kv_rows import halves

logger = init_logger(__name__)


class CodedMetadataBuilder(InPlaceMetadataBuilder):
    """As in place, where codes can be kept."""

    def __init__(
        self,
        kv_cache_spec: Any,
        layer_names: list[str],
        vllm_config: VllmConfig,
        device: torch.device,
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        if kv_cache_spec.dtype != torch.bfloat16:
            refuse("by codes reads bfloat16", 'take --dtype bfloat16, or "mode": "dense"')
        if kv_cache_spec.block_size % PAGE_TOKENS:
            refuse(
                f"by codes has blocks of multiples of {PAGE_TOKENS} tokens",
                'take --block-size 128, or "mode": "dense"',
            )
        if vllm_config.kv_transfer_config is not None:
            refuse(
                "by codes is not told what a connector writes into blocks",
                'take "mode": "dense", or leave out --kv-transfer-config',
            )
        layers = get_layers_from_vllm_config(vllm_config, Attention, layer_names)
        self._impls = [layers[name].impl for name in layer_names]
        options = AttentionOptions.parse(vllm_config.additional_config)
        if options.gains:
            path = options.gains.replace("{rank}", str(get_tensor_model_parallel_rank()))
            shape = len(layer_names), kv_cache_spec.num_kv_heads, kv_cache_spec.head_size
            for impl, gains in zip(self._impls, read_gains(path, shape), strict=True):
                impl.gains = gains

    def counts(self) -> dict[str, int]:
        """What the codes of all layers have been used for, as nearkv.core's BlockCounts."""
        each = [impl.codes.counts for impl in self._impls if impl.codes]
        names = "pages", "approximate", "exact", "exact_calls", "read_bytes", "cached_bytes"
        return {name: sum(getattr(counts, name) for counts in each) for name in names}


class CodedImpl(InPlaceImpl):
    """A layer's attention."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.kv_sharing_target_layer_name is not None:
            refuse("by codes has no layers that share K and V", 'take "mode": "dense"')
        options = configured_options()
        self._approximation = {
            "mode": AttendMode[options.mode.upper()],
            "error": options.error,
            "top_k": options.top_k,
            "if_faster": options.if_faster,
        }
        self.gains = None
        """Of K, int8 [kv_heads, head_size]. None: to be learned of the first prompt."""
        self._asked = AskedQueries()
        self.codes: BlockCodes | None = None
        """Once something was written."""
        self._codes_of: torch.Tensor | None = None

    def do_kv_cache_update(
        self,
        layer: torch.nn.Module,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Writes a step's K and V."""
        if not self._is_taken:
            super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)
        elif slot_mapping.numel():
            self._blocks_of(layer, kv_cache)
            self.codes.write(key, value, slot_mapping)

    def _learn(self, query: torch.Tensor, key: torch.Tensor, starts: torch.Tensor) -> None:
        """Takes a prompt's queries down, until there are enough of them to tell gains."""
        longest = int(starts.diff().argmax())
        tokens = slice(int(starts[longest]), int(starts[longest + 1]))
        count = tokens.stop - tokens.start
        if count < PAGE_TOKENS:
            return
        of_heads = query[tokens].view(count, self.num_kv_heads, -1, self.head_size).transpose(0, 1)
        self._asked.note(of_heads.flatten(1, 2), count)
        if self._asked.are_enough:
            self.gains = self._asked.gains(key[tokens].transpose(0, 1)).numpy()
            self.codes.set_gains(self.gains)

    def _blocks_of(self, layer: torch.nn.Module, kv_cache: torch.Tensor) -> BlockCache:
        if self._codes_of is not kv_cache:
            self._codes_of = kv_cache
            self.codes = BlockCodes(*halves(kv_cache), self.gains)
            logger.info_once(
                "NearKV attends in place by codes: %d threads of torch's, mode %s. Codes of a "
                "layer take up to %.1f MiB beside its %.1f MiB of vLLM's cache",
                torch.get_num_threads(),
                self._approximation["mode"].name.lower(),
                self.codes.most_bytes / 2**20,
                kv_cache.nbytes / 2**20,
            )
        return self.codes.cache

    def _by_codes(self) -> dict[str, Any]:
        return {"codes": self.codes} | self._approximation

    def _attend_own(
        self,
        layer: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: Any,
        *rest: Any,
    ) -> None:
        if self._is_taken and metadata is not None:
            if self.gains is None and self.codes:
                self._learn(query, key, metadata.query_start_loc)
            packed = getattr(metadata, "nearkv_packed", None)
            if packed is None:
                packed = metadata.nearkv_packed = _packed(metadata, kv_cache.shape[2])
            blocks, metadata = packed
            rows = (half[blocks].transpose(1, 2).flatten(0, 1) for half in halves(kv_cache))
            kv_cache = kv_cache.new_empty(len(blocks), *kv_cache.shape[1:])
            slots = torch.arange(kv_cache.shape[0] * kv_cache.shape[2])
            CPUAttentionBackendImpl.do_kv_cache_update(self, layer, *rows, kv_cache, slots)
        super()._attend_own(layer, query, key, value, kv_cache, metadata, *rest)


def _packed(metadata: Any, block_tokens: int) -> tuple[torch.Tensor, Any]:
    """The blocks that a step's requests have, and metadata that names them by their places."""
    table = metadata.block_table
    counts = -(-metadata.seq_lens // block_tokens)
    is_used = torch.arange(table.shape[1]) < counts.unsqueeze(1)
    blocks, places = table[is_used].long().unique(return_inverse=True)
    renamed = torch.zeros_like(table)
    renamed[is_used] = places.to(table.dtype)
    return blocks, dataclasses.replace(metadata, block_table=renamed)
