"""A lightning indexer whose keys are not here: what a model computes of them is done elsewhere."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

# Scores that are held at once, fp32.
_SCORES = 1 << 24


@dataclass
class IndexerQuery:
    """What an indexer asks: the tokens of the `k` highest scores for each query.

    A score is the sum over heads of weight * max(query key * scale, 0).
    """

    queries: torch.Tensor
    """[batch, queries, heads, key_dim], fp32."""
    scale: float
    weights: torch.Tensor
    """[batch, queries, 1, heads], fp32."""
    hidden: torch.Tensor
    """bool [batch, queries, tokens]: not seen by the query."""
    k: int

    def answer_here(self, keys: torch.Tensor) -> torch.Tensor:
        """Columns int64 [batch, queries, k] of keys [batch, tokens, key_dim].

        Computed as models do it, to the bit, but for so many queries at once as memory suffices.
        """
        batch, queries, heads, _ = self.queries.shape
        turned = keys.transpose(-1, -2).float().unsqueeze(1)
        step = max(1, _SCORES // (batch * heads * keys.shape[1]))
        parts = []
        for begin in range(0, queries, step):
            some = slice(begin, begin + step)
            scores = (torch.matmul(self.queries[:, some], turned) * self.scale).relu()
            scores = torch.matmul(self.weights[:, some], scores).squeeze(-2)
            scores = scores.masked_fill(self.hidden[:, some], -math.inf)
            parts.append(scores.topk(self.k, dim=-1).indices)
        return torch.cat(parts, 1)


class TopKTokens(NamedTuple):
    """What torch.topk gives, as far as an indexer looks at it."""

    indices: torch.Tensor


# What the indexer of DeepSeek V3.2 does with its keys; a name stands for an operand.
_FORMULA = (
    ("transpose", (-1, -2)),
    ("float", ()),
    ("unsqueeze", (1,)),
    ("matmul", ("queries",)),
    ("mul", ("scale",)),
    ("relu", ()),
    ("matmul", ("weights",)),
    ("squeeze", (-2,)),
    ("masked_fill", ("hidden", -math.inf)),
)


class KeysElsewhere:
    """Stands for an indexer's keys [batch, tokens, key_dim], and for all that it makes of them.

    Models know nothing of pools: their indexers multiply all keys by queries and weights, and take
    the best. Here this is noted, and topk() has `answer` find the same. Anything else that a model
    does with its keys is refused with a RuntimeError.
    """

    def __init__(self, tokens: int, answer: Callable[[IndexerQuery], torch.Tensor]) -> None:
        self._tokens, self._answer = tokens, answer
        self._steps = iter(_FORMULA)
        self._operands: dict[str, Any] = {}

    @property
    def shape(self) -> torch.Size:
        """Of the scores."""
        return torch.Size((*self._operands["queries"].shape[:2], self._tokens))

    def topk(self, k: int, dim: int) -> TopKTokens:
        """The best of each query, once all steps of the formula were taken."""
        if next(self._steps, None) or dim != -1:
            raise self._unknown("topk")
        return TopKTokens(self._answer(IndexerQuery(**self._operands, k=k)))

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Any = None
    ) -> "KeysElsewhere":
        *operands, scores = arguments
        if not isinstance(scores, cls):
            raise cls._unknown(function.__name__)
        return scores._step(function.__name__, *operands)

    def __mul__(self, scale: float) -> "KeysElsewhere":
        return self._step("mul", scale)

    def __getitem__(self, place: Any) -> "KeysElsewhere":
        return self._step("getitem", place)

    def __getattr__(self, name: str) -> Callable[..., "KeysElsewhere"]:
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self._step, name)

    def _step(self, name: str, *given: Any) -> "KeysElsewhere":
        known, wanted = next(self._steps, ("topk", ()))
        if name != known or len(given) != len(wanted):
            raise self._unknown(name)
        for want, operand in zip(wanted, given, strict=True):
            if isinstance(want, str):
                self._operands[want] = operand
            elif isinstance(operand, torch.Tensor) or operand != want:
                raise self._unknown(name)
        return self

    @staticmethod
    def _unknown(name: str) -> RuntimeError:
        return RuntimeError(
            f"this model's indexer scores its keys in a way that NearKV does not know ({name}): "
            'say model.set_attn_implementation("nearkv"), or use DynamicCache(config=model.config)'
        )
