"""A model while it reads a text: its layers' keys, values and queries as attention gets them."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_ATTENTION = "bench_reading"
_CHUNK_TOKENS = 512
_TOLERANCE = 0.02
"""Of outputs in bf16; one without the mask would be off by more than the output is."""


class NotAttention(Exception):
    """What a layer returned is not softmax(Q K^T) V of what it was seen to be given."""


def global_layers(config: Any) -> list[int]:
    """Layers that attend to all tokens before."""
    text_config = config.get_text_config()
    kinds = getattr(text_config, "layer_types", None)
    return [
        layer
        for layer in range(text_config.num_hidden_layers)
        if kinds is None or kinds[layer] == "full_attention"
    ]


class Reading:
    """Reads a text in chunks and keeps queries of some layers; keys and values are the cache's.

    `scales[layer]` is what Q K^T is multiplied by. The last token's output of each such layer is
    compared with attention in float64; NotAttention where they differ.
    """

    def __init__(self, model: Any, layers: Collection[int]) -> None:
        self._model = model
        self._chunks: dict[int, list[torch.Tensor]] = {layer: [] for layer in layers}
        self._is_last = False
        self.scales: dict[int, float] = {}
        self.cache = DynamicCache(config=model.config)
        AttentionInterface.register(_ATTENTION, self._attend)
        AttentionMaskInterface.register(_ATTENTION, sdpa_mask)
        model.set_attn_implementation(_ATTENTION)

    def read(self, tokens: torch.Tensor, progress: Callable[[str], None]) -> None:
        """Reads tokens, int64 [count], behind those read before."""
        with torch.inference_mode():
            for first in range(0, tokens.numel(), _CHUNK_TOKENS):
                progress(f"{first} of {tokens.numel()} tokens read")
                chunk = tokens[None, first : first + _CHUNK_TOKENS]
                self._is_last = first + _CHUNK_TOKENS >= tokens.numel()
                self._model(chunk, past_key_values=self.cache, logits_to_keep=1)

    def queries(self, layer: int) -> torch.Tensor:
        """A layer's queries of all tokens, bf16 [query_heads, tokens, head_dim], after RoPE."""
        return torch.cat(self._chunks[layer], 1)

    def rows(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A layer's keys and values, bf16 [kv_heads, tokens, head_dim]."""
        cached = self.cache.layers[layer]
        return cached.keys[0].bfloat16(), cached.values[0].bfloat16()

    def _attend(self, module, query, key, value, attention_mask, **options):
        output, weights = sdpa_attention_forward(
            module, query, key, value, attention_mask, **options
        )
        if (chunks := self._chunks.get(module.layer_idx)) is not None:
            chunks.append(query[0].bfloat16())
            scale = float(options.get("scaling") or query.shape[-1] ** -0.5)
            self.scales[module.layer_idx] = scale
            if self._is_last:
                _compare(output[0, -1], attention(query[0, :, -1:], key[0], value[0], scale)[:, 0])
        return output, weights


def attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
) -> torch.Tensor:
    """Attention of queries [query_heads, rows, dim] to all keys, in float64: [heads, rows, dim]."""
    heads = keys.shape[0]
    grouped = queries.double().unflatten(0, (heads, -1)).flatten(1, 2)
    weights = (grouped @ keys.double().transpose(1, 2) * scale).softmax(-1)
    return (weights @ values.double()).reshape(*queries.shape[:2], -1)


def _compare(told: torch.Tensor, exact: torch.Tensor) -> None:
    error = float((told.double() - exact).norm() / exact.norm())
    if not error < _TOLERANCE:
        raise NotAttention(f"a layer's output is {error:.2g} off attention to its keys and values")
