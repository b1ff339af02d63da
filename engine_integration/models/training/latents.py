"""K and V of all heads as one latent: how a Llama's projections become DeepSeek's MLA.

A head's fastest rotary pairs become the one rotated key that all heads share: the mean of the KV
heads'. Its other pairs turn so slowly (see model.py) that they are taken as not rotated; they and
the values are expanded from a latent, whose channels are those that keep most of both.
"""

import torch
from torch import Tensor
from transformers import LlamaConfig


def factored(
    state: dict[str, Tensor],
    config: LlamaConfig,
    moments: Tensor,
    latent_channels: int,
    rotated_channels: int,
    *,
    interleaved: bool = False,
) -> dict[str, Tensor]:
    """A Llama's weights as those of a DeepseekV3 with so many channels in a token's row.

    `moments` [layers, hidden, hidden]: mean outer products of what each layer's attention is given.
    `interleaved`: the two channels of a rotary pair lie side by side, not half the channels apart.
    """
    heads, group = config.num_attention_heads, config.num_attention_heads
    group //= config.num_key_value_heads
    half, fast = config.head_dim // 2, rotated_channels // 2
    channels = torch.arange(config.head_dim).view(2, half)
    pairs, plain = channels[:, :fast], channels[:, fast:].flatten()
    rotated = (pairs.T if interleaved else pairs).flatten()
    for layer, moment in enumerate(moments):
        prefix = f"model.layers.{layer}.self_attn"
        queries, keys, values = (
            state.pop(f"{prefix}.{part}_proj.weight").unflatten(0, (-1, config.head_dim))
            for part in "qkv"
        )
        expanded = torch.cat([keys[:, plain], values], 1)
        down, up = _low_rank(expanded.flatten(0, 1), moment, latent_channels)
        # A latent is divided by its root mean square; on average, the norm's weight undoes it.
        scale = (down @ moment @ down.T).trace().div(latent_channels).sqrt()
        state[f"{prefix}.q_proj.weight"] = queries[:, torch.cat([plain, rotated])].flatten(0, 1)
        state[f"{prefix}.kv_a_proj_with_mqa.weight"] = torch.cat([down, keys[:, rotated].mean(0)])
        state[f"{prefix}.kv_a_layernorm.weight"] = scale.expand(latent_channels)
        up = up.unflatten(0, (heads // group, -1)).repeat_interleave(group, 0)
        state[f"{prefix}.kv_b_proj.weight"] = up.flatten(0, 1)
    return state


def queries_factored(state: dict[str, Tensor], moments: Tensor) -> dict[str, Tensor]:
    """Gives queries a latent of their own, as wide as the model: what an indexer shares."""
    for layer, moment in enumerate(moments):
        prefix = f"model.layers.{layer}.self_attn"
        hidden = len(moment)
        state[f"{prefix}.q_b_proj.weight"] = state.pop(f"{prefix}.q_proj.weight")
        state[f"{prefix}.q_a_proj.weight"] = torch.eye(hidden)
        scale = moment.trace().div(hidden).sqrt()
        state[f"{prefix}.q_a_layernorm.weight"] = scale.expand(hidden)
    return state


def _low_rank(matrix: Tensor, moment: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """`down` [rank, in] and `up` [out, rank] whose product does most nearly what a matrix does."""
    powers, directions = torch.linalg.eigh(moment)
    root = directions * powers.clamp(min=0).sqrt()
    left = torch.linalg.svd(matrix @ root, full_matrices=False).U[:, :rank]
    return left.T @ matrix, left
