"""What the attention of an answer was like: where it went, and what an approximate mode misses."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from nearkv.core import PAGE_TOKENS, AttendMode
from nearkv.demo.runs import RoundedCache
from nearkv.far import FarAttention
from nearkv.transformers import NearKVCache

_OBSERVED = "nearkv-observed"

Rows = tuple[torch.Tensor, torch.Tensor]
"""K and V of a layer for the tokens of a document, [1, kv_heads, tokens, channels]."""


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
    model: Any, document: Sequence[Rows], question: Sequence[int], answer: Sequence[int]
) -> list[torch.Tensor]:
    """Queries [heads, answer's tokens, head_dim] of each layer that the answer's tokens came from.

    Scaled, so that logits are their products with keys.
    """
    queries: list[torch.Tensor] = []

    def attend(module: torch.nn.Module, query: torch.Tensor, *rest: Any, **named: Any) -> Any:
        scale = named.get("scaling") or query.shape[-1] ** -0.5
        queries.append(query[0, :, -len(answer) :].float() * scale)
        return sdpa_attention_forward(module, query, *rest, **named)

    AttentionInterface.register(_OBSERVED, attend)
    AttentionMaskInterface.register(_OBSERVED, sdpa_mask)
    model.set_attn_implementation(_OBSERVED)
    cache = RoundedCache()
    for layer, rows in enumerate(document):
        cache.update(*rows, layer)
    with torch.no_grad():
        model(torch.tensor([[*question, *answer[:-1]]]), past_key_values=cache, logits_to_keep=1)
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


def peak_attention(document: Sequence[Rows], queries: Sequence[torch.Tensor]) -> list[float]:
    """The largest share of its attention that a head gave to each page of 64 tokens.

    Over all layers, heads and tokens of the answer: most heads look at what is near and at the
    first token whatever is asked, and a mean of all shows little but these. Attention counts
    within the document.
    """
    peaks = torch.zeros(-(-document[0][0].shape[2] // PAGE_TOKENS))
    for (keys, _), query in zip(document, queries, strict=True):
        grouped = query.unflatten(0, (keys.shape[1], -1)).flatten(1, 2)
        shares = (grouped @ keys[0].float().transpose(1, 2)).softmax(-1)
        pages = torch.stack([part.sum(-1) for part in shares.split(PAGE_TOKENS, -1)], -1)
        peaks = torch.maximum(peaks, pages.amax((0, 1)))
    return peaks.tolist()
