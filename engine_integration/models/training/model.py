"""The Llama architecture in plain PyTorch, with the parts of training that it must expose.

Parameter names equal those of transformers' LlamaForCausalLM, so exporting is a plain save.
`forward` also returns the rotated queries and keys of each layer, which the attention losses
supervise, and takes an additive attention mask, which the dilution bias needs.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class ModelConfig:
    """Shape of the model; field names follow LlamaConfig.

    The rotary base is huge on purpose: about half of the frequencies turn by less than half a
    radian over the whole context, which leaves room to match tokens wherever they stand.
    """

    vocab_size: int = 2048
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 128
    rope_theta: float = 1e10
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 33_792

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_attention_heads // self.num_key_value_heads

    def inverse_frequencies(self) -> Tensor:
        """Radians per position of each rotary pair (head_dim / 2, float64)."""
        pairs = torch.arange(0, self.head_dim, 2, dtype=torch.float64)
        return self.rope_theta ** (-pairs / self.head_dim)


@dataclass
class QueriesAndKeys:
    """Rotated queries (batch, query heads, tokens, head_dim) and keys (batch, KV heads, ...)."""

    queries: Tensor
    keys: Tensor


Rotation = tuple[Tensor, Tensor]


def rotation(config: ModelConfig, positions: Tensor) -> Rotation:
    """Cosines and sines (batch, 1, tokens, head_dim) for position ids (batch, tokens)."""
    angles = positions.double()[:, None, :, None] * config.inverse_frequencies()
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, by: Rotation) -> Tensor:
    """Applies a rotation to queries or keys, in the half-split layout of Llama."""
    cos, sin = (table.to(x.dtype) for table in by)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.group_size = config.group_size
        query_size = config.num_attention_heads * config.head_dim
        kv_size = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, query_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(query_size, config.hidden_size, bias=False)

    def forward(
        self, x: Tensor, by: Rotation, mask: Tensor | None
    ) -> tuple[Tensor, QueriesAndKeys]:
        """Attention output for normed hidden states, and the queries and keys behind it."""
        queries = rotate(self._heads(self.q_proj(x)), by)
        keys = rotate(self._heads(self.k_proj(x)), by)
        values = self._heads(self.v_proj(x))
        output = F.scaled_dot_product_attention(
            queries,
            keys.repeat_interleave(self.group_size, dim=1),
            values.repeat_interleave(self.group_size, dim=1),
            attn_mask=None if mask is None else mask.to(queries.dtype),
            is_causal=mask is None,
        )
        return self.o_proj(output.transpose(1, 2).flatten(2)), QueriesAndKeys(queries, keys)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class Mlp(nn.Module):
    """SwiGLU feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Output for normed hidden states."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Attention and feed-forward network, each after a norm and around a residual."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = Mlp(config)

    def forward(
        self, x: Tensor, by: Rotation, mask: Tensor | None
    ) -> tuple[Tensor, QueriesAndKeys]:
        """The new hidden states, and the queries and keys of the layer."""
        attended, queries_and_keys = self.self_attn(self.input_layernorm(x), by, mask)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), queries_and_keys


class Decoder(nn.Module):
    """Embedding, layers and final norm; the name of its place in LlamaForCausalLM is `model`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)


class RecallLlama(nn.Module):
    """Llama with tied embeddings."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)

    def forward(
        self, tokens: Tensor, by: Rotation, mask: Tensor | None = None
    ) -> tuple[Tensor, list[QueriesAndKeys]]:
        """Logits (batch, tokens, vocabulary), and the queries and keys of each layer.

        `mask` (batch, 1, tokens, tokens) is added to the attention logits and must itself be
        causal; without it the attention is causal.
        """
        x = self.model.embed_tokens(tokens)
        attention: list[QueriesAndKeys] = []
        for layer in self.model.layers:
            x, queries_and_keys = layer(x, by, mask)
            attention.append(queries_and_keys)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight), attention
