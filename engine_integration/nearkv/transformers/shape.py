"""What a model keeps of its tokens, layer by layer: the one place that reads its config for it."""

from dataclasses import dataclass, replace
from typing import Any

from transformers.cache_utils import get_layer_types_and_kwargs

from nearkv.core import MAX_GROUP, MAX_HEAD_DIM, MAX_TOP_K, RowForm


@dataclass(frozen=True)
class LayerShape:
    """What one layer keeps."""

    attends: bool
    """K and V, or a latent, of every token: pages of a pool."""
    states: int = 0
    """Recurrent and convolutional states, whose size tokens do not change: here, and in snapshots
    (nearkv.transformers.prefixes)."""
    indexes: bool = False
    """Beside the latents, an indexer's key of every token."""


@dataclass(frozen=True)
class ModelShape:
    """What a model keeps."""

    layers: tuple[LayerShape, ...]
    rows: dict[str, int]
    """Of a token in a layer that attends, as Pool.create takes them; of no such layer: empty."""
    index_dim: int = 0
    """Channels of an indexer's key; 0: the model has none, and attends to all it sees."""

    @property
    def attending(self) -> int:
        """Layers of the pool."""
        return sum(layer.attends for layer in self.layers)

    @property
    def has_states(self) -> bool:
        """Whether some of it is recurrent."""
        return any(layer.states for layer in self.layers)


# By transformers' names, with their states if they have one each.
_LAYERS = {
    "full_attention": LayerShape(attends=True),
    "sliding_attention": LayerShape(attends=True),
    "chunked_attention": LayerShape(attends=True),
    "indexed_attention": LayerShape(attends=True, indexes=True),
    "linear_attention": LayerShape(attends=False, states=1),
    "conv": LayerShape(attends=False, states=1),
    "hybrid": LayerShape(attends=True, states=1),
    "hybrid_sliding": LayerShape(attends=True, states=1),
    "dummy": LayerShape(attends=False),
}
_OWN_STATES = {
    "recurrent_gemma": "in its modules, where no cache finds them; run it without NearKV",
    "minimax": "in a cache of its own; run it without NearKV",
    "rwkv": "in a list, and no K and V: give that to nearkv.transformers.PrefixStates",
}


def shape_of(config: Any) -> ModelShape:
    """What a model of this config keeps, its decoder if it has an encoder too.

    Raises ValueError for a model whose shape is not known, with what to do.
    """
    text = config.get_text_config(decoder=True)
    _check(text)
    if layers := getattr(text, "num_decoder_layers", None):
        return ModelShape((_LAYERS["full_attention"],) * layers, _rows_of(text))
    types, options = get_layer_types_and_kwargs(text)
    if others := sorted(set(types) - set(_LAYERS)):
        raise ValueError(
            f"{text.model_type} has layers of {', '.join(others)}, and NearKV does not know what "
            f"those keep; it knows {', '.join(_LAYERS)}"
        )
    shapes = tuple(
        replace(known, states=known.states and option.get("number_of_states", 1))
        for known, option in zip((_LAYERS[kind] for kind in types), options, strict=True)
    )
    indexes = any(shape.indexes for shape in shapes) or getattr(text, "index_topk", None)
    if indexes:
        _check_indexers(text, types)
    rows = _rows_of(text) if any(shape.attends for shape in shapes) else {}
    if not indexes:
        return ModelShape(shapes, rows)
    # A layer without an indexer takes what the last one picked that has it.
    picks = getattr(text, "indexer_types", None) or ["full"] * len(shapes)
    shapes = tuple(
        replace(shape, indexes=pick == "full") for shape, pick in zip(shapes, picks, strict=True)
    )
    return ModelShape(shapes, rows, text.index_head_dim)


def _check(text: Any) -> None:
    if place := _OWN_STATES.get(text.model_type):
        raise ValueError(f"{text.model_type} keeps its states {place}")
    shared = getattr(text, "num_kv_shared_layers", 0)
    if shared or any(getattr(text, "kv_sharing_modes", None) or ()):
        raise ValueError(f"{text.model_type}'s layers share K and V; use a model where none does")


def _check_indexers(text: Any, types: list[str]) -> None:
    if set(types) != {"indexed_attention"} or not getattr(text, "kv_lora_rank", None):
        raise ValueError(
            f"an indexer of {text.model_type} picks from other rows than latents, or not for all "
            "layers, which NearKV does not know; use a model such as DeepSeek V3.2"
        )
    most = {"index_topk": MAX_TOP_K, "index_n_heads": MAX_GROUP, "index_head_dim": MAX_HEAD_DIM}
    for name, limit in most.items():
        if (value := getattr(text, name)) > limit:
            raise ValueError(f"{name} of {text.model_type} is {value}, and a device takes {limit}")
    if text.index_head_dim % 16:
        raise ValueError(f"index_head_dim is {text.index_head_dim}, not a multiple of 16")


def _rows_of(text: Any) -> dict[str, int]:
    """What a token's rows are: per KV head, or one latent for all heads (MLA)."""
    heads = getattr(text, "num_attention_heads", None)
    if not heads:
        raise ValueError(
            f"the config of {text.model_type} names no attention heads, so that NearKV does not "
            "know what a token's rows are; use a model that has num_attention_heads"
        )
    if rank := getattr(text, "kv_lora_rank", None):
        head_dim = rank + text.qk_rope_head_dim
        rows = {"kv_heads": 1, "head_dim": head_dim, "value_dim": rank, "v_form": RowForm.NONE}
    else:
        head_dim = (
            getattr(text, "head_dim", None)
            or getattr(text, "attention_head_dim", None)
            or text.hidden_size // heads
        )
        rows = {
            "kv_heads": getattr(text, "num_key_value_heads", None) or heads,
            "head_dim": head_dim,
        }
    if head_dim % 16 or head_dim > MAX_HEAD_DIM:
        raise ValueError(
            f"head_dim is {head_dim}; a pool holds multiples of 16 up to {MAX_HEAD_DIM}. "
            "Use a model with such heads"
        )
    return rows
