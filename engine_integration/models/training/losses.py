"""Two losses on attention itself, which teach single heads where to look.

They are cross-entropies over the attention distribution with a margin: every wrong key counts
exp(margin) times, so a head that is right in a short sequence stays right among many more keys.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from training.model import QueriesAndKeys
from training.sequences import NO_SOURCE

# Query heads of layer 1 that learn to look at the token to repeat.
RECALL_LAYER = 1
RECALL_HEADS = (0, 1)

_RECALL_ROWS = 192
_OFFSET_ROWS = 32


def recall_loss(
    attention: list[QueriesAndKeys], sources: Tensor, margin: float, generator: torch.Generator
) -> Tensor | None:
    """Pulls the recall heads to the token to repeat; None if nothing is repeated.

    `sources` (batch, tokens) holds the index of that token or NO_SOURCE.
    """
    rows = (sources != NO_SOURCE).nonzero()
    if len(rows) == 0:
        return None
    rows = rows[torch.randperm(len(rows), generator=generator)[:_RECALL_ROWS]]
    wanted = sources[rows[:, 0], rows[:, 1], None].expand(-1, len(RECALL_HEADS))
    return _attention_cross_entropy(attention[RECALL_LAYER], RECALL_HEADS, rows, wanted, margin)


def offset_loss(
    attention: list[QueriesAndKeys], positions: Tensor, margin: float, generator: torch.Generator
) -> Tensor:
    """Keeps head h of layer 0 on the token h + 1 back, at random rows that no jump precedes."""
    heads = attention[0].queries.shape[1]
    sequences, tokens = positions.shape
    batch = torch.randint(sequences, (_OFFSET_ROWS,), generator=generator)
    token = torch.randint(heads + 1, tokens, (_OFFSET_ROWS,), generator=generator)
    unbroken = positions[batch, token] - positions[batch, token - heads] == heads
    rows = torch.stack([batch, token], dim=1)[unbroken]
    wanted = rows[:, 1:] - torch.arange(1, heads + 1)
    return _attention_cross_entropy(attention[0], range(heads), rows, wanted, margin)


def _attention_cross_entropy(
    layer: QueriesAndKeys, heads: Sequence[int], rows: Tensor, wanted: Tensor, margin: float
) -> Tensor:
    """Mean cross-entropy of the attention of some heads to the keys they should look at.

    `rows` (rows, 2) holds sequence and token of every query, `wanted` (rows, heads) the index of
    its key for each head.
    """
    _, query_heads, tokens, head_dim = layer.queries.shape
    kv_heads = [head * layer.keys.shape[1] // query_heads for head in heads]
    total = layer.queries.new_zeros((), dtype=torch.float32)
    for sequence in range(len(layer.queries)):
        here = rows[:, 0] == sequence
        token, target = rows[here, 1], wanted[here]
        queries = layer.queries[sequence, list(heads)][:, token]
        logits = torch.einsum("hrd,hkd->rhk", queries, layer.keys[sequence, kv_heads]).float()
        logits = logits * head_dim**-0.5 + margin
        logits = logits.scatter_add(2, target[:, :, None], torch.full((*target.shape, 1), -margin))
        future = torch.arange(tokens) > token[:, None, None]
        logits = logits.masked_fill(future, float("-inf"))
        total = total + F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum")
    return total / max(1, wanted.numel())
