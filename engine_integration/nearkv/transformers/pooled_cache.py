"""What caches over a pool have in common: pages that are given back, rows that change places."""

import weakref
from collections.abc import Sequence
from typing import Any, Self

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from nearkv.transformers.far import Sequences, drop_quietly


class PooledCache(Cache):
    """A cache whose pages go back by close(), at the end of a `with`, or with the object."""

    def _hold(self, layers: Sequence[Any], *sequences: Sequences) -> None:
        """Begins with these layers, whose pages are those of the sequences."""
        super().__init__(layers)
        for each in sequences:
            weakref.finalize(self, drop_quietly, each)

    def close(self) -> None:
        """Gives all pages back to the pool."""
        self.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Makes row i of the batch what row beam_idx[i] was."""
        self.batch_select_indices(beam_idx)


class PooledLayer(CacheLayerMixin):
    """A layer that has `length` tokens, here and elsewhere, and no maximum."""

    length: int

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Masks cover all tokens, wherever they are."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """All tokens."""
        return self.length

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


def changed_rows(indices: torch.Tensor, count: int) -> list[int]:
    """Which of `count` rows each row becomes; empty if all stay what they are."""
    rows = torch.arange(count)[indices.cpu()].tolist()
    return [] if rows == list(range(count)) else rows
