"""A layer of a cache whose tokens are partly reused, partly computed in their place."""

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer


class BlendLayer(DynamicLayer):
    """K and V of all tokens; while `rows` is set, updates write over those rows.

    Afterwards it is transformers' own layer, which grows.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, first: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values
        self.rows: torch.Tensor | None = None
        self._first = first

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes over `rows`, or adds tokens."""
        if self.rows is None:
            return super().update(key_states, value_states, *args, **kwargs)
        self.keys[:, :, self.rows] = key_states
        self.values[:, :, self.rows] = value_states
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Tokens; while rows are computed, those before the first that may be."""
        return super().get_seq_length() if self.rows is None else self._first

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """A mask covers all tokens."""
        if self.rows is None:
            return super().get_mask_sizes(query_length)
        return self.keys.shape[2], 0
