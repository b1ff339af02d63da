"""Models of transformers, small and of random weights, and how tests run them."""

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV2Config,
    DeepseekV3Config,
    DynamicCache,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from nearkv.transformers import NearKVCache, make_pool

# These models are small, and tests run beside each other.
torch.set_num_threads(1)

SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "head_dim": 16,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
WINDOWED = {"use_sliding_window": True, "sliding_window": 90, "max_window_layers": 1}
WITHOUT_HEAD_DIM = {key: value for key, value in SMALL.items() if key != "head_dim"}
LATENT = WITHOUT_HEAD_DIM | {
    "num_key_value_heads": 8,
    "kv_lora_rank": 48,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 32,
    "v_head_dim": 16,
    # Without experts: which ones a token takes turns on the last bit of a rounding.
    "first_k_dense_replace": 3,
}
CONFIGS = {
    "llama, a KV head per head": LlamaConfig(**SMALL, num_key_value_heads=8),
    "llama, groups of 2": LlamaConfig(**SMALL, num_key_value_heads=4),
    "qwen3, groups of 4": Qwen3Config(**SMALL, num_key_value_heads=2),
    "mistral, one KV head, window 100": MistralConfig(
        **SMALL, num_key_value_heads=1, sliding_window=100
    ),
    "mistral, window shorter than what stays here": MistralConfig(
        **SMALL, num_key_value_heads=2, sliding_window=30
    ),
    "qwen2, some layers windowed": Qwen2Config(
        **WITHOUT_HEAD_DIM | {"hidden_size": 128}, num_key_value_heads=4, **WINDOWED
    ),
    "gemma2, soft cap and windows": Gemma2Config(
        **SMALL, num_key_value_heads=4, sliding_window=80, attn_logit_softcapping=5.0
    ),
    "gemma3, windows and one full layer": Gemma3TextConfig(
        **SMALL,
        num_key_value_heads=4,
        sliding_window=80,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "deepseek v2, latents": DeepseekV2Config(**LATENT, q_lora_rank=None),
    "deepseek v3, latents": DeepseekV3Config(**LATENT, q_lora_rank=32),
}
_PEAKED = ("q_proj.weight", "k_proj.weight", "q_b_proj.weight", "kv_b_proj.weight")


def make_model(config: PreTrainedConfig, dtype: torch.dtype = torch.bfloat16) -> torch.nn.Module:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).to(dtype).eval()
    for name, weight in model.named_parameters():
        if name.endswith(_PEAKED):
            weight.data *= 8  # Peaked attention, so that a missing token shows.
    return model


def plain_attention(config: PreTrainedConfig) -> str:
    """The implementation of transformers that a model's attention is compared with."""
    return "eager" if getattr(config, "attn_logit_softcapping", None) else "sdpa"


def near_cache(
    model: torch.nn.Module, device: str = "cpu:?memory=64MiB", **options: Any
) -> NearKVCache:
    dtype = torch.bfloat16 if options.get("rounded") else model.dtype
    return NearKVCache(make_pool(model.config, device, dtype=dtype), **options)


class RoundingCache(DynamicCache):
    """All tokens, rounded to bfloat16 as a pool has them."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *place: Any, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rounded = (states.bfloat16().to(states.dtype) for states in (key_states, value_states))
        return super().update(*rounded, *place, **options)


def run_logits(model, cache, attention: str, tokens, steps: list[int], mask=None, decode=None):
    """Logits of every token, `steps` tokens at a time; `decode` computes the steps of one token."""
    model.set_attn_implementation(attention)
    logits, begin = [], 0
    with torch.no_grad():
        for count in steps:
            end = begin + count
            seen = {} if mask is None else {"attention_mask": mask[:, :end]}
            forward = decode if decode is not None and count == 1 else model
            result = forward(tokens[:, begin:end], past_key_values=cache, use_cache=True, **seen)
            logits.append(result.logits.float())
            begin = end
    return torch.cat(logits, 1)


def random_tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(1, 97, (batch, length), generator=torch.Generator().manual_seed(4))
