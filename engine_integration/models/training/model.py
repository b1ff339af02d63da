"""The model: transformers' own Llama, with an attention that shows its queries and keys.

The loss of losses.py supervises attention itself. `forward` collects what it needs through
transformers' attention interface, so that training and inference run the same model code.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from training.tokenizer import SPECIAL_TOKENS, VOCAB_SIZE

_ATTENTION = "sdpa_showing_queries_and_keys"


@dataclass
class QueriesAndKeys:
    """Rotated queries (batch, query heads, tokens, head_dim) and keys (batch, KV heads, ...)."""

    queries: Tensor
    keys: Tensor


def llama_config(**changes: int) -> LlamaConfig:
    """Shape of the model that is shipped, or a variation of it.

    The rotary base is huge on purpose: about half of the frequencies turn by less than half a
    radian over the whole context, which leaves room to match tokens wherever they stand.
    """
    bos, eos, pad = range(len(SPECIAL_TOKENS))
    shape = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "max_position_embeddings": 33_792,
    }
    return LlamaConfig(
        **(shape | changes),
        rope_parameters={"rope_type": "default", "rope_theta": 1e10},
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=bos,
        eos_token_id=eos,
        pad_token_id=pad,
    )


def new_llama(config: LlamaConfig) -> LlamaForCausalLM:
    """A model that `forward` can run; its weights are yet to be set (see initial_weights.py)."""
    AttentionInterface.register(_ATTENTION, _attention)
    return LlamaForCausalLM._from_config(config, attn_implementation=_ATTENTION)


def forward(
    model: LlamaForCausalLM, tokens: Tensor, positions: Tensor, mask: Tensor
) -> tuple[Tensor, list[QueriesAndKeys]]:
    """Logits (batch, tokens, vocabulary), and the queries and keys of each layer.

    `tokens` and `positions` are (batch, tokens); `mask` (batch, 1, tokens, tokens) is added to the
    attention logits and must itself be causal.
    """
    seen: list[QueriesAndKeys] = []
    output = model(tokens, attention_mask=mask, position_ids=positions, use_cache=False, seen=seen)
    return output.logits, seen


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    seen: list[QueriesAndKeys],
    **options: object,
) -> tuple[Tensor, None]:
    seen.append(QueriesAndKeys(query, key))
    mask = attention_mask.to(query.dtype)
    return sdpa_attention_forward(module, query, key, value, mask, **options)
