"""Which layers of a model a budget cuts, and what a token's rows are there.

Layers that attend to all tokens have one. Those with a window keep that, and recurrent layers their
states, whatever a policy says.
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import get_layer_types_and_kwargs

from nearkv.transformers import make_pool, shape_of
from nearkv.transformers.layout import Layout, layout_of

_BUDGETED = ("full_attention", "hybrid")
_POOL = "cpu:?memory=64MiB"


@dataclass(frozen=True)
class Budgeted:
    """Of one model."""

    layers: tuple[int, ...]
    """Numbers of the model's layers that have a budget, in order; keepers count them from 0."""
    all: bool
    """Whether that is all that the model keeps."""
    rows: dict[str, Any]
    """Of a token in such a layer, as Pool.create takes them."""
    layout: Layout

    def rows_of(self, cache: Any, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [kv_heads, tokens, channels] that a layer's queries reach.

        Of latents the values are the keys' leading channels.
        """
        kept = cache.layers[layer]
        keys, values = self.layout.to_pool(kept.keys[0], kept.values[0])
        return keys, keys[..., : self.layout.value_dim] if values is None else values


def budgeted(config: Any) -> Budgeted:
    """ValueError for a model that no budget can cut: none of its layers attends to all tokens."""
    text = config.get_text_config(decoder=True)
    if getattr(config, "is_encoder_decoder", False):
        raise ValueError(
            f"{text.model_type} has layers of cross-attention; this bench takes decoders"
        )
    shape = shape_of(config)
    kinds, _ = get_layer_types_and_kwargs(text)
    layers = tuple(number for number, kind in enumerate(kinds) if kind in _BUDGETED)
    if not layers:
        raise ValueError(
            f"{text.model_type} has layers of {', '.join(sorted(set(kinds)))} alone; this bench "
            "takes decoders of which some layers attend to all tokens"
        )
    whole = len(layers) == len(kinds) and not shape.has_states
    return Budgeted(layers, whole, shape.rows, layout_of(make_pool(config, _POOL)))
