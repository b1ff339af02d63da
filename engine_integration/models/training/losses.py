"""Losses: weighted next-token cross-entropy, and two losses on attention itself.

The attention losses teach single heads where to look. They are cross-entropies over the attention
distribution with a margin: every wrong key counts exp(margin) times, so a head that is right in a
short sequence stays right among many more keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from training.model import ModelConfig, QueriesAndKeys
from training.sequences import NO_SOURCE

# Query heads of layer 1 that learn to look at the token to repeat; they share KV head 0.
RECALL_LAYER = 1
RECALL_HEADS = (0, 1)

_RECALL_ROWS = 192
_OFFSET_ROWS = 32


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats of every prediction, (batch, tokens)."""
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none").view(
        targets.shape
    )


@dataclass(frozen=True)
class AttentionRows:
    """Query rows to supervise: row i is token `token[i]` of sequence `batch[i]`."""

    batch: Tensor
    token: Tensor


def recall_loss(
    config: ModelConfig,
    attention: list[QueriesAndKeys],
    sources: Tensor,
    margin: float,
    generator: torch.Generator,
) -> Tensor | None:
    """Pulls the recall heads to the token to repeat; None if nothing is repeated.

    `sources` (batch, tokens) holds the index of that token or NO_SOURCE.
    """
    batch, token = (sources != NO_SOURCE).nonzero(as_tuple=True)
    if len(batch) == 0:
        return None
    chosen = torch.randperm(len(batch), generator=generator)[:_RECALL_ROWS]
    rows = AttentionRows(batch[chosen], token[chosen])
    wanted = sources[rows.batch, rows.token]
    wanted = wanted[:, None].expand(-1, len(RECALL_HEADS))
    return _attention_cross_entropy(
        config, attention[RECALL_LAYER], RECALL_HEADS, rows, wanted, margin
    )


def offset_loss(
    config: ModelConfig,
    attention: list[QueriesAndKeys],
    positions: Tensor,
    margin: float,
    generator: torch.Generator,
) -> Tensor:
    """Keeps head h of layer 0 on the token h + 1 back, at random rows that no jump precedes."""
    heads = config.num_attention_heads
    sequences, tokens = positions.shape
    batch = torch.randint(sequences, (_OFFSET_ROWS,), generator=generator)
    token = torch.randint(heads + 1, tokens, (_OFFSET_ROWS,), generator=generator)
    unbroken = positions[batch, token] - positions[batch, token - heads] == heads
    rows = AttentionRows(batch[unbroken], token[unbroken])
    wanted = rows.token[:, None] - torch.arange(1, heads + 1)
    return _attention_cross_entropy(config, attention[0], range(heads), rows, wanted, margin)


def _attention_cross_entropy(
    config: ModelConfig,
    layer: QueriesAndKeys,
    heads: Sequence[int],
    rows: AttentionRows,
    wanted: Tensor,
    margin: float,
) -> Tensor:
    """Mean cross-entropy of the attention of some heads, at the given rows, to the wanted keys.

    `wanted` (rows, heads) holds the index of the key that each head should look at.
    """
    kv_heads = [head // config.group_size for head in heads]
    queries = layer.queries[:, list(heads)].transpose(1, 2)[rows.batch, rows.token]
    total = queries.new_zeros((), dtype=torch.float32)
    for sequence, keys in enumerate(layer.keys.unbind(0)):
        here = rows.batch == sequence
        token, target = rows.token[here], wanted[here]
        logits = torch.einsum("rhd,hkd->rhk", queries[here], keys[kv_heads]).float()
        logits = logits * config.head_dim**-0.5 + margin
        logits = logits.scatter_add(
            2, target[:, :, None], logits.new_full((*target.shape, 1), -margin)
        )
        future = torch.arange(keys.shape[1]) > token[:, None, None]
        logits = logits.masked_fill(future, float("-inf"))
        total = total + F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum")
    return total / max(1, wanted.numel())
