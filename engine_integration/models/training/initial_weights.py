"""Starting weights, with heads of layer 0 that look back a fixed number of tokens.

Recall needs a layer that tells each token what stands before it. Learning such heads from nothing
takes a small model long, so they are written by hand: one embedding channel is constant, the key
projection turns it into one fixed vector on the fastest rotary pairs, and the query projection of
head h turns it into the same vector rotated back by h + 1 tokens. The two then agree best at
exactly that distance. Training keeps the heads with a light loss (see losses.py).
"""

import math

import torch
from torch import nn
from transformers import LlamaForCausalLM

_CONSTANT_CHANNEL = 0
_CONSTANT = 1.2
_OFFSET_PAIRS = 20
_OFFSET_GAIN = 1.1
_EMBEDDING_STD = 0.15


@torch.no_grad()
def initialise(model: LlamaForCausalLM, seed: int) -> None:
    """Fills a model with its starting weights."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            std = 1 / math.sqrt(parameter.shape[1])
            nn.init.normal_(parameter, std=std, generator=generator)
    nn.init.normal_(model.model.embed_tokens.weight, std=_EMBEDDING_STD, generator=generator)
    model.model.norm.weight.fill_(0.3)
    for layer in model.model.layers:
        layer.mlp.down_proj.weight.zero_()
        layer.self_attn.o_proj.weight.mul_(0.3)
    _write_offset_heads(model)


def _write_offset_heads(model: LlamaForCausalLM) -> None:
    config = model.config
    model.model.embed_tokens.weight[:, _CONSTANT_CHANNEL] = _CONSTANT
    attention = model.model.layers[0].self_attn
    queries = attention.q_proj.weight.mul_(0.3)
    keys = attention.k_proj.weight.mul_(0.3)
    frequencies = model.model.rotary_emb.inv_freq[:_OFFSET_PAIRS]
    half = config.head_dim // 2
    for head in range(config.num_key_value_heads):
        start = head * config.head_dim
        keys[start : start + _OFFSET_PAIRS, _CONSTANT_CHANNEL] = _OFFSET_GAIN
    for head in range(config.num_attention_heads):
        start = head * config.head_dim
        angles = -(head + 1) * frequencies
        queries[start : start + _OFFSET_PAIRS, _CONSTANT_CHANNEL] = _OFFSET_GAIN * angles.cos()
        start += half
        queries[start : start + _OFFSET_PAIRS, _CONSTANT_CHANNEL] = _OFFSET_GAIN * angles.sin()
