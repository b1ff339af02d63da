"""What the attention of an answer was like: where it went, and what an approximate mode misses."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from nearkv.core import PAGE_TOKENS, AttendMode
from nearkv.far import FarAttention
from nearkv.transformers import NearKVCache
from nearkv.transformers.attention import nearkv_attention_forward

_OBSERVED = "nearkv-observed"


@dataclass(frozen=True)
class Errors:
    """Relative errors |O' - O| / |O| of an approximate mode, over all query rows of an answer.

    O is the exact output over the same pages for the same query; a row is a query head's in one
    layer for one token. `within` is the share of rows whose error is at most what was promised.
    """

    promised: float
    median: float
    largest: float
    within: float
    rows: int

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def observe_queries(
    model: Any, cache: NearKVCache, question: Sequence[int], answer: Sequence[int]
) -> list[torch.Tensor]:
    """Queries [heads, answer's tokens, head_dim] of each layer that the answer's tokens came from.

    Scaled, so that logits are their products with keys. The cache holds the document, and is not
    changed.
    """
    queries: list[torch.Tensor] = []

    def attend(module: torch.nn.Module, query: torch.Tensor, *rest: Any, **named: Any) -> Any:
        scale = named.get("scaling") or query.shape[-1] ** -0.5
        queries.append(query[0, :, -len(answer) :].float() * scale)
        return nearkv_attention_forward(module, query, *rest, **named)

    AttentionInterface.register(_OBSERVED, attend)
    AttentionMaskInterface.register(_OBSERVED, sdpa_mask)
    model.set_attn_implementation(_OBSERVED)
    with cache.fork() as fork, torch.no_grad():
        model(torch.tensor([[*question, *answer[:-1]]]), past_key_values=fork, logits_to_keep=1)
    return queries


def measure_errors(
    cache: NearKVCache, queries: Sequence[torch.Tensor], far: FarAttention
) -> Errors:
    """Attends to what a cache has in its pool, exactly and by `far`, with the same queries."""
    found = []
    for layer, query in zip(cache.layers, queries, strict=True):
        rows = query.unflatten(0, (cache.pool.kv_heads, -1)).flatten(1, 2).contiguous()
        place = (layer.sequences.ids[0], layer.index, rows)
        exact, _ = cache.pool.attend(*place, scale=1, mode=AttendMode.DENSE)
        near, _ = cache.pool.attend(*place, scale=1, **far.options())
        exact, near = torch.from_numpy(exact).double(), torch.from_numpy(near).double()
        found.append(((near - exact).norm(dim=-1) / exact.norm(dim=-1)).flatten())
    errors = torch.cat(found)
    return Errors(
        far.error,
        float(errors.median()),
        float(errors.max()),
        float((errors <= far.error).double().mean()),
        len(errors),
    )


def peak_attention(
    keys: Sequence[torch.Tensor], queries: Sequence[torch.Tensor], tokens: int
) -> list[float]:
    """The largest share of its attention that a head gave to each page of 64 tokens.

    Over all layers, heads and tokens of the answer: most heads look at what is near and at the
    first token whatever is asked, and a mean of all shows little but these. `keys` are those of
    each layer, [kv_heads, tokens or more, head_dim]; attention counts within the document.
    """
    peaks = torch.zeros(-(-tokens // PAGE_TOKENS))
    for rows, query in zip(keys, queries, strict=True):
        grouped = query.unflatten(0, (len(rows), -1)).flatten(1, 2)
        shares = (grouped @ rows[:, :tokens].float().transpose(1, 2)).softmax(-1)
        pages = torch.stack([part.sum(-1) for part in shares.split(PAGE_TOKENS, -1)], -1)
        peaks = torch.maximum(peaks, pages.amax((0, 1)))
    return peaks.tolist()
