"""Lightning indexers (DeepSeek-V3.2, arXiv 2512.02556): where they begin, and their lesson.

An indexer is taught which tokens its layer's attention looks at, before anything is left out: the
softmax of its scores is to be the mean of all heads' attention. Only indexers learn.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.models.deepseek_v32.modeling_deepseek_v32 import apply_rotary_pos_emb

from training.distil import Step, draw_steps, learn, mixers, observed
from training.schedule import Stage


def first_indexers(
    state: dict[str, Tensor], config: LlamaConfig, rotated_channels: int, recalling: tuple[int, ...]
) -> dict[str, Tensor]:
    """Weights that score as a Llama's heads do, as far as one key for all of them can.

    The key is that of the first KV head in layers that recall, elsewhere the mean; of its channels
    those that rotate fastest come first.
    """
    channels = torch.arange(config.head_dim).view(2, -1)
    fast = rotated_channels // 2
    order = torch.cat([channels[:, :fast].flatten(), channels[:, fast:].flatten()])
    weights = {}
    for layer in range(config.num_hidden_layers):
        prefix = f"model.layers.{layer}.self_attn"
        queries, keys = (
            state[f"{prefix}.{part}_proj.weight"].unflatten(0, (-1, config.head_dim))[:, order]
            for part in "qk"
        )
        key = keys[0] if layer in recalling else keys.mean(0)
        weights[f"{prefix}.indexer.wk.weight"] = key
        weights[f"{prefix}.indexer.wq_b.weight"] = queries.flatten(0, 1)
    return weights


def match_indexers(
    student: PreTrainedModel,
    teacher: LlamaForCausalLM,
    tokenizer: Tokenizer,
    text: str,
    stage: Stage,
    seed: str,
) -> Iterator[float]:
    """Trains the indexers on the teacher's attention; yields their divergence from it, in nats.

    The teacher's attention must be "eager", which tells its weights.
    """
    student.requires_grad_(False)
    learning = [one for mixer in mixers(student) for one in mixer.indexer.parameters()]
    steps = draw_steps(student, tokenizer, text, stage, seed)
    return learn(learning, stage, steps, partial(_divergence, student, teacher))


@contextmanager
def all_picked(model: PreTrainedModel) -> Iterator[None]:
    """No indexer leaves anything out."""
    indexers = [mixer.indexer for mixer in mixers(model)]
    for indexer in indexers:
        indexer.index_topk = model.config.max_position_embeddings
    try:
        yield
    finally:
        for indexer in indexers:
            indexer.index_topk = model.config.index_topk


def index_scores(attention: nn.Module, hidden: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """What an indexer makes of hidden states [batch, tokens, hidden]: [batch, tokens, tokens].

    Its own forward() has no gradients and gives only whom it picks.
    """
    indexer = attention.indexer
    rotated = indexer.qk_rope_head_dim
    queries = indexer.wq_b(attention.q_a_layernorm(attention.q_a_proj(hidden)))
    queries = queries.unflatten(-1, (indexer.n_heads, indexer.head_dim))
    keys = indexer.k_norm(indexer.wk(hidden)).unsqueeze(2)
    turned = apply_rotary_pos_emb(
        queries[..., :rotated], keys[..., :rotated], cos, sin, unsqueeze_dim=2
    )
    queries, keys = (
        torch.cat([part, whole[..., rotated:]], -1)
        for part, whole in zip(turned, (queries, keys), strict=True)
    )
    products = torch.einsum("bqhd,bkd->bqhk", queries, keys[:, :, 0]) * indexer.softmax_scale
    weights = indexer.weights_proj(hidden) * indexer.n_heads**-0.5
    return torch.einsum("bqhk,bqh->bqk", products.relu(), weights)


def _divergence(student: PreTrainedModel, teacher: LlamaForCausalLM, step: Step) -> Tensor:
    with torch.no_grad():
        seen = observed(teacher, step)
        cos, sin = student.model.rotary_emb(seen[0].given, step.batch.positions)
    weights = step.batch.weights.clamp(min=1)
    apart = []
    for attention, layer in zip(mixers(student), seen, strict=True):
        scores = index_scores(attention, layer.given, cos, sin) + step.diluted[:, 0]
        # Tokens that nobody sees have a logarithm that no gradient can pass.
        shares = scores.log_softmax(-1).masked_fill(step.diluted[:, 0].isinf(), 0)
        each = F.kl_div(shares, layer.looks.mean(1), reduction="none").sum(-1)
        apart.append((each * weights).mean())
    return torch.stack(apart).mean()
