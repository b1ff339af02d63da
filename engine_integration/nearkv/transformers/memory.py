"""An associative matrix per head, that remembers what keys and values it was shown."""

from collections.abc import Sequence

import torch


class CompressiveMemory:
    """M = sum of f(k) v^T and z = sum of f(k), f(x) = elu(x) + 1, of each row and KV head.

    recall() of a query q is f(q) M / f(q) z. With `delta` fold() adds what is new of v: v minus
    what recall() gives of k before. Kept in fp32, here; its tensors never change, so that copies
    may share them.
    """

    def __init__(self, *, delta: bool) -> None:
        self.delta = delta
        self.matrix: torch.Tensor | None = None
        """[batch, kv_heads, key channels, value channels]."""
        self.normaliser: torch.Tensor | None = None
        """[batch, kv_heads, key channels]."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was folded yet."""
        return self.matrix is None

    def fold(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Takes up tokens [batch, kv_heads, tokens, channels], in fp32."""
        if self.matrix is None:
            self.matrix = keys.new_zeros(*keys.shape[:2], keys.shape[3], values.shape[3])
            self.normaliser = keys.new_zeros(*keys.shape[:2], keys.shape[3])
        elif self.delta:
            values = values - self.recall(keys[:, :, None])[:, :, 0]
        shown = _feature(keys)
        self.matrix = self.matrix + shown.transpose(2, 3) @ values
        self.normaliser = self.normaliser + shown.sum(2)

    def recall(self, queries: torch.Tensor) -> torch.Tensor:
        """Values [batch, kv_heads, group, queries, channels] for queries of that shape, fp32.

        Something must have been folded.
        """
        asked = _feature(queries)
        weights = asked @ self.normaliser[:, :, None, :, None]
        # Queries far below zero in all channels ask for nothing.
        return asked @ self.matrix[:, :, None] / weights.clamp(min=torch.finfo(asked.dtype).tiny)

    def select_rows(self, rows: Sequence[int]) -> None:
        """Makes row i what row rows[i] was."""
        if self.matrix is not None:
            index = torch.tensor(rows, device=self.matrix.device)
            self.matrix, self.normaliser = self.matrix[index], self.normaliser[index]


def _feature(states: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.elu(states) + 1
