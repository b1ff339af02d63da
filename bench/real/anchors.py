"""Other ways to read less of K and V, on the same captured queries.

Each is written anew here as its makers describe it, in float arithmetic; none is their code. Those
that choose tokens choose for each query head; what a group of heads reads is the union.

- `top_k`: the k best tokens by exact scores, and each page's other tokens as one, at the mean of
  their keys and of their values. An oracle: how the best are found is not counted.
- `quest`: pages of 16 tokens, ranked by the largest score that their keys' least and greatest
  channels allow; the best pages are read, nothing stands for the rest (Tang et al. 2024).
- `vattention`: 128 first and 128 last tokens, the best of the others by exact scores (an oracle),
  and a uniform sample of the rest. A first sample tells how many the softmax's denominator needs
  for an error of 5 % in 95 % of cases (Desai et al. 2025).
"""

from collections.abc import Callable
from statistics import NormalDist

import torch

from bench.real.answers import JudgedAnswer, Layer, Query
from bench.real.caches import CACHES
from nearkv.core import PAGE_TOKENS

_QUEST_PAGE = 16
_ENDS = 128
_ERROR = 0.05
_DEVIATIONS = NormalDist().inv_cdf(0.975)

Head = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Of one KV head: queries times scale [group, dim], visible keys and values [tokens, dim]."""

Chosen = tuple[torch.Tensor, float]
"""Outputs [group, dim], and how many rows of K and V in bf16 they took for the group."""


class Anchors:
    """The ways to choose tokens, on one layer. `seed` is that of samples."""

    def __init__(self, layer: Layer, seed: int = 0) -> None:
        self._layer = layer
        self._keys = layer.capture.keys.float()
        self._values = layer.capture.values.float()
        self._random = torch.Generator().manual_seed(seed)

    def top_k(self, query: Query, k: int) -> JudgedAnswer:
        """The k best tokens of each query head, and the means of pages for all others."""
        return self._answer(query, lambda head: self._best_and_means(head, k))

    def quest(self, query: Query, share: float) -> JudgedAnswer:
        """A share of the pages of 16 tokens."""
        return self._answer(query, lambda head: self._best_pages(head, share))

    def vattention(self, query: Query, best: float, sampled: float) -> JudgedAnswer:
        """Shares of the tokens that are taken as the best, and for the first sample."""
        return self._answer(query, lambda head: self._best_and_sample(head, best, sampled))

    def _answer(self, query: Query, choose: Callable[[Head], Chosen]) -> JudgedAnswer:
        outputs, rows = [], 0.0
        for head, keys, values in zip(query.rows, self._keys, self._values, strict=True):
            scaled = head.float() * self._layer.capture.scale
            output, read = choose((scaled, keys[: query.tokens], values[: query.tokens]))
            outputs.append(output)
            rows += read
        told = torch.stack(outputs).double()
        share = rows / (query.rows.shape[0] * query.tokens)
        return JudgedAnswer(self._layer.errors(query, told), share)

    def _best_and_means(self, head: Head, k: int) -> Chosen:
        queries, keys, values = head
        scores = queries @ keys.T
        tokens = keys.shape[0]
        whole = tokens // PAGE_TOKENS * PAGE_TOKENS
        read = torch.zeros_like(scores, dtype=torch.bool)
        read.scatter_(1, scores.topk(min(k, tokens)).indices, True)
        read[:, whole:] = True
        outputs = []
        for query, own, score in zip(queries, read, scores, strict=True):
            left = ~own[:whole].unflatten(0, (-1, PAGE_TOKENS))[..., None]
            counts = left.sum(1)
            mean_keys, mean_values = (
                (rows[:whole].unflatten(0, (-1, PAGE_TOKENS)) * left).sum(1) / counts.clamp(min=1)
                for rows in (keys, values)
            )
            mean_scores = mean_keys @ query + counts[:, 0].log()
            weights = torch.cat([score[own], mean_scores]).softmax(0)
            outputs.append(weights @ torch.cat([values[own], mean_values]))
        return torch.stack(outputs), float(read.any(0).sum() + whole / PAGE_TOKENS)

    def _best_pages(self, head: Head, share: float) -> Chosen:
        queries, keys, values = head
        tokens = keys.shape[0]
        pages = -(-tokens // _QUEST_PAGE)
        filled = torch.cat([keys, keys[-1:].expand(pages * _QUEST_PAGE - tokens, -1)])
        paged = filled.unflatten(0, (pages, _QUEST_PAGE))
        least, most = paged.amin(1), paged.amax(1)
        bounds = queries.clamp(min=0) @ most.T + queries.clamp(max=0) @ least.T
        best = bounds.topk(max(1, round(share * pages))).indices
        taken = torch.zeros_like(bounds, dtype=torch.bool).scatter_(1, best, True)
        taken = taken.repeat_interleave(_QUEST_PAGE, 1)[:, :tokens]
        weights = (queries @ keys.T).masked_fill(~taken, -torch.inf).softmax(-1)
        # Least and most of a page's keys are as many bytes as a row of K and V.
        return weights @ values, float(taken.any(0).sum() + pages)

    def _best_and_sample(self, head: Head, best: float, sampled: float) -> Chosen:
        queries, keys, values = head
        scores = queries @ keys.T
        tokens = keys.shape[0]
        taken = torch.zeros_like(scores, dtype=torch.bool)
        taken[:, :_ENDS] = taken[:, -_ENDS:] = True
        others = scores.masked_fill(taken, -torch.inf)
        taken.scatter_(1, others.topk(round(best * tokens)).indices, True)
        outputs, read = [], taken.any(0)
        for own, score in zip(taken, scores, strict=True):
            rest = (~own).nonzero()[:, 0]
            rest = rest[torch.randperm(rest.numel(), generator=self._random)]
            exponentials = (score - score.max()).exp()
            first = exponentials[rest[: max(2, round(sampled * tokens))]]
            known = exponentials[own].sum()
            denominator = known + first.mean() * rest.numel()
            wanted = (_DEVIATIONS * rest.numel() * first.std() / (_ERROR * denominator)) ** 2
            count = min(max(first.numel(), int(wanted) + 1), rest.numel())
            sample = rest[:count]
            weights = exponentials[sample] * (rest.numel() / count)
            total = exponentials[own] @ values[own] + weights @ values[sample]
            outputs.append(total / (known + weights.sum()))
            read[sample] = True
        return torch.stack(outputs), float(read.sum())


class KeptCache:
    """A layer's K and V as a cache of CACHES keeps them."""

    def __init__(self, layer: Layer, name: str) -> None:
        capture = layer.capture
        self._layer = layer
        self._share = CACHES[name].share(capture.keys.shape[-1])
        self._keys, self._values = CACHES[name].keep(capture.keys, capture.values)

    def attend(self, query: Query) -> JudgedAnswer:
        """Exact attention over what is kept."""
        keys, values = self._keys[:, : query.tokens], self._values[:, : query.tokens]
        weights = query.rows.float() * self._layer.capture.scale @ keys.transpose(1, 2)
        told = (weights.softmax(-1) @ values).double()
        return JudgedAnswer(self._layer.errors(query, told), self._share)
