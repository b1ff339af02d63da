"""Models of transformers, small and of random weights, and how tests run them."""

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AXK2Config,
    DeepseekV2Config,
    DeepseekV3Config,
    DeepseekV32Config,
    DynamicCache,
    FalconH1Config,
    FalconMambaConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GlmMoeDsaConfig,
    GraniteMoeHybridConfig,
    JambaConfig,
    KimiLinearConfig,
    Lfm2Config,
    LlamaConfig,
    Mamba2Config,
    MambaConfig,
    MistralConfig,
    NemotronHConfig,
    OlmoHybridConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3NextConfig,
    RwkvConfig,
    Zamba2Config,
    ZambaConfig,
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
INDEXED = LATENT | {
    "q_lora_rank": 32,
    "index_topk": 40,
    "index_head_dim": 32,
    # So many that few tokens have a score of exactly 0: ties are broken by chance.
    "index_n_heads": 16,
}
SPARSE = {
    "deepseek v3.2": DeepseekV32Config(**INDEXED),
    "glm 5, a layer that takes the picks of another": GlmMoeDsaConfig(
        **INDEXED, indexer_types=["full", "shared", "full"]
    ),
    "axk2, gated": AXK2Config(**INDEXED),
}
"""Models whose attention is over what an indexer picks."""
GROUPED = SMALL | {"num_key_value_heads": 2}
FOUR_LAYERS = WITHOUT_HEAD_DIM | {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
}
MAMBA = {"mamba_d_state": 8, "mamba_dt_rank": 8}
MAMBA_2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_d_state": 16,
    "mamba_chunk_size": 32,
}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
TURNS = ["linear_attention", "full_attention"] * 2
HYBRIDS = {
    "jamba, mamba and attention": JambaConfig(
        **FOUR_LAYERS,
        **MAMBA,
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=1,
        num_experts_per_tok=1,
    ),
    "zamba, mamba and shared attention": ZambaConfig(
        **WITHOUT_HEAD_DIM
        | {"num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 5},
        **MAMBA,
        n_mamba_heads=2,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid", "mamba"],
    ),
    "zamba 2, mamba 2 and shared attention": Zamba2Config(
        **WITHOUT_HEAD_DIM | {"num_attention_heads": 4, "num_hidden_layers": 4},
        attention_head_dim=32,
        mamba_d_state=16,
        mamba_headdim=16,
        n_mamba_heads=8,
        mamba_ngroups=1,
        chunk_size=32,
        num_mem_blocks=1,
        layers_block_type=["mamba", "mamba", "hybrid", "mamba"],
    ),
    "falcon h1, mamba 2 beside attention": FalconH1Config(**GROUPED, **MAMBA_2, mamba_d_ssm=128),
    "granite 4, mamba 2 and attention": GraniteMoeHybridConfig(
        **FOUR_LAYERS,
        **MAMBA_2,
        layer_types=TURNS,
        num_local_experts=0,
        shared_intermediate_size=96,
    ),
    "nemotron h, layers that keep nothing": NemotronHConfig(
        **{key: value for key, value in GROUPED.items() if key != "num_hidden_layers"},
        layers_block_type=["mamba", "attention", "mlp", "mamba"],
        mamba_num_heads=8,
        mamba_head_dim=16,
        n_groups=1,
        ssm_state_size=16,
        chunk_size=32,
    ),
    "qwen3 next, gated delta rule": Qwen3NextConfig(
        **GROUPED | {"num_hidden_layers": 4},
        **LINEAR,
        layer_types=TURNS,
        mlp_only_layers=[0, 1, 2, 3],
    ),
    "olmo hybrid, gated delta rule": OlmoHybridConfig(**FOUR_LAYERS, **LINEAR, layer_types=TURNS),
    "kimi linear, delta rule and latents": KimiLinearConfig(
        **LATENT | {"num_hidden_layers": 4},
        linear_head_dim=16,
        linear_num_heads=4,
        linear_conv_kernel_dim=4,
        layer_types=TURNS,
        mlp_layer_types=["dense"] * 4,
    ),
    "lfm2, convolutions and attention": Lfm2Config(
        **FOUR_LAYERS,
        layer_types=["conv", "full_attention"] * 2,
    ),
}
"""Models with recurrent layers beside those that attend."""
RECURRENT = {
    "mamba": MambaConfig(**SMALL, state_size=8),
    "falcon mamba": FalconMambaConfig(**SMALL, state_size=8),
    "mamba 2": Mamba2Config(
        **SMALL | {"head_dim": 16}, state_size=16, num_heads=8, n_groups=2, chunk_size=32
    ),
    "rwkv": RwkvConfig(
        vocab_size=97, hidden_size=64, attention_hidden_size=64, num_hidden_layers=3
    ),
}
"""Models that attend nowhere."""
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
    pool = make_pool(model.config, device, dtype=dtype, codes="far" in options)
    return NearKVCache(pool, config=model.config, **options)


class RoundingCache(DynamicCache):
    """All tokens, rounded to bfloat16 as a pool has them."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *place: Any, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rounded = (states.bfloat16().to(states.dtype) for states in (key_states, value_states))
        return super().update(*rounded, *place, **options)

    def update_indexer(self, indexer_key_states: torch.Tensor, layer_idx: int) -> torch.Tensor:
        rounded = indexer_key_states.bfloat16().to(indexer_key_states.dtype)
        return super().update_indexer(rounded, layer_idx)


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
