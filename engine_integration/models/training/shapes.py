"""Llamas turned into models of other shapes: KV heads, windows, latents, indexers, states.

A shape is a class that transformers has and the weights that it begins with, as near to what the
Llama computes as they can be without training. Embeddings, norms and MLPs stay the Llama's own;
distil.py trains what mixes tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    DeepseekV32Config,
    GraniteMoeHybridConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MinistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from training.indexers import first_indexers
from training.latents import factored, queries_factored

WINDOW_TOKENS = 64
GLOBAL_LAYERS = (1,)
"""Which hold the heads that recall; the others get windows."""
RECURRENT_LAYERS = (2,)
LATENT_CHANNELS = 128
ROTATED_CHANNELS = 64
INDEX_HEADS = 4
PICKED_TOKENS = 128
"""That an indexer leaves to its layer's attention."""

_SAME = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_parameters",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
)

State = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """How a Llama becomes a model of this shape.

    `moments` [layers, hidden, hidden] are the mean outer products of what attention is given.
    """

    config: Callable[[LlamaConfig], PreTrainedConfig]
    weights: Callable[[State, LlamaConfig, Tensor], State]
    taught: tuple[int, ...]
    """Layers that have to learn what the Llama's do."""
    indexed: bool = False
    """Whether their indexers then have to learn where it looks."""


def shaped(llama: LlamaForCausalLM, shape: Shape, moments: Tensor) -> PreTrainedModel:
    """A model of a shape, which computes what the Llama does or is to be trained to."""
    torch.manual_seed(0)
    config = shape.config(llama.config)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    state = {name: tensor.detach().clone() for name, tensor in llama.state_dict().items()}
    # A recurrent layer has nothing to begin with but its own first weights.
    model.load_state_dict(model.state_dict() | shape.weights(state, llama.config, moments))
    return model.eval()


def _same(config: LlamaConfig, **changes: object) -> dict[str, object]:
    return {name: getattr(config, name) for name in _SAME} | changes


def _heads(count: int) -> Callable[[LlamaConfig], LlamaConfig]:
    return lambda config: LlamaConfig(**_same(config, num_key_value_heads=count))


def _repeated(state: State, config: LlamaConfig, moments: Tensor) -> State:
    """Each query head gets its KV head to itself: exact."""
    group = config.num_attention_heads // config.num_key_value_heads
    return _with_kv_heads(state, config, lambda heads, layer: heads.repeat_interleave(group, 0))


def _merged(state: State, config: LlamaConfig, moments: Tensor) -> State:
    """One KV head for all: that of the heads that recall, elsewhere the mean."""
    return _with_kv_heads(
        state,
        config,
        lambda heads, layer: heads[:1] if layer in GLOBAL_LAYERS else heads.mean(0, keepdim=True),
    )


def _with_kv_heads(
    state: State, config: LlamaConfig, change: Callable[[Tensor, int], Tensor]
) -> State:
    for layer in range(config.num_hidden_layers):
        for part in ("k_proj", "v_proj"):
            name = f"model.layers.{layer}.self_attn.{part}.weight"
            heads = state[name].unflatten(0, (config.num_key_value_heads, config.head_dim))
            state[name] = change(heads, layer).flatten(0, 1)
    return state


def _windowed_config(config: LlamaConfig) -> MinistralConfig:
    kinds = [
        "full_attention" if layer in GLOBAL_LAYERS else "sliding_attention"
        for layer in range(config.num_hidden_layers)
    ]
    return MinistralConfig(**_same(config, sliding_window=WINDOW_TOKENS, layer_types=kinds))


def _latent_changes(config: LlamaConfig) -> dict[str, object]:
    theta = config.rope_parameters["rope_theta"]
    changes = {
        "num_key_value_heads": config.num_attention_heads,
        "kv_lora_rank": LATENT_CHANNELS,
        "qk_rope_head_dim": ROTATED_CHANNELS,
        "qk_nope_head_dim": config.head_dim - ROTATED_CHANNELS,
        "v_head_dim": config.head_dim,
        # The fastest pairs of a head turn as fast as before.
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": theta ** (ROTATED_CHANNELS / config.head_dim),
        },
        "first_k_dense_replace": config.num_hidden_layers,
    }
    same = _same(config, **changes)
    del same["head_dim"]
    return same


def _latent_config(config: LlamaConfig) -> DeepseekV3Config:
    return DeepseekV3Config(
        **_latent_changes(config), q_lora_rank=None, rope_interleave=False, num_mtp_layers=0
    )


def _latent(state: State, config: LlamaConfig, moments: Tensor) -> State:
    return factored(state, config, moments, LATENT_CHANNELS, ROTATED_CHANNELS)


def _indexed_config(config: LlamaConfig) -> DeepseekV32Config:
    return DeepseekV32Config(
        **_latent_changes(config),
        q_lora_rank=config.hidden_size,
        index_n_heads=INDEX_HEADS,
        index_head_dim=config.head_dim,
        index_topk=PICKED_TOKENS,
    )


def _indexed(state: State, config: LlamaConfig, moments: Tensor) -> State:
    indexers = first_indexers(state, config, ROTATED_CHANNELS, GLOBAL_LAYERS)
    latents = factored(state, config, moments, LATENT_CHANNELS, ROTATED_CHANNELS, interleaved=True)
    return queries_factored(latents, moments) | indexers


def _recurrent_config(config: LlamaConfig) -> GraniteMoeHybridConfig:
    kinds = [
        "linear_attention" if layer in RECURRENT_LAYERS else "full_attention"
        for layer in range(config.num_hidden_layers)
    ]
    changes = {
        "layer_types": kinds,
        "position_embedding_type": "rope",
        "attention_multiplier": config.head_dim**-0.5,
        "shared_intermediate_size": config.intermediate_size,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "mamba_n_heads": 8,
        "mamba_d_state": 64,
        # What the matrices of a recurrent layer begin with.
        "initializer_range": config.hidden_size**-0.5,
    }
    return GraniteMoeHybridConfig(**_same(config, **changes))


def _recurrent(state: State, config: LlamaConfig, moments: Tensor) -> State:
    """Attention goes, and nothing comes for it yet; MLPs are Granite's by name."""
    for layer in range(config.num_hidden_layers):
        prefix = f"model.layers.{layer}"
        gate, up, down = (
            state.pop(f"{prefix}.mlp.{part}_proj.weight") for part in ("gate", "up", "down")
        )
        state[f"{prefix}.shared_mlp.input_linear.weight"] = torch.cat([gate, up])
        state[f"{prefix}.shared_mlp.output_linear.weight"] = down
        if layer in RECURRENT_LAYERS:
            for part in "qkvo":
                del state[f"{prefix}.self_attn.{part}_proj.weight"]
    return state


SHAPES = {
    "mha": Shape(_heads(4), _repeated, taught=()),
    "mqa": Shape(_heads(1), _merged, taught=(0, 1, 2)),
    "local_global": Shape(_windowed_config, lambda state, config, moments: state, taught=()),
    "mla": Shape(_latent_config, _latent, taught=(0, 1, 2)),
    "dsa": Shape(_indexed_config, _indexed, taught=(0, 1, 2), indexed=True),
    "hybrid": Shape(_recurrent_config, _recurrent, taught=RECURRENT_LAYERS),
}
