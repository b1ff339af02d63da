"""What caches over a pool have in common: pages that are given back, rows that change places."""

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from nearkv.transformers.far import Sequences, drop_quietly


class PooledCache(Cache, AbstractContextManager):
    """A cache whose pages go back by close(), at the end of a `with`, or with the object."""

    def _hold(self, layers: Sequence[Any], *sequences: Sequences) -> None:
        """Begins with these layers, whose pages are those of the sequences."""
        super().__init__(layers)
        for each in sequences:
            weakref.finalize(self, drop_quietly, each)

    def close(self) -> None:
        """Gives all pages back to the pool."""
        self.reset()

    def __exit__(self, *failure: object) -> None:
        self.close()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Makes row i of the batch what row beam_idx[i] was."""
        self.batch_select_indices(beam_idx)


class SequencesCache(PooledCache):
    """A cache in which a row of the batch is one sequence of the pool, in all layers that attend.

    Those have the row's tokens there, as `stored`, and forget the newest ones by shorten(), which
    leaves there what stored_without() tells.
    """

    def _own(self, sequences: Sequences, layers: Sequence[Any]) -> None:
        self._hold(layers, sequences)
        self._sequences = sequences
        self._attending = [layer for layer in layers if isinstance(layer, PooledLayer)]

    def _fork(self, fork_layer: Callable[[Any, Sequences], Any]) -> Self:
        """A cache of such layers over sequences that share the pages so far."""
        sequences = self._sequences.fork(self._attending[0].stored)
        other = type(self).__new__(type(self))
        other._own(sequences, [fork_layer(layer, sequences) for layer in self.layers])
        return other

    def reset(self) -> None:
        """Forgets all tokens."""
        self._sequences.drop()
        super().reset()

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the newest tokens; the count is negative, as everywhere in transformers."""
        if tokens_to_remove > 0:
            raise ValueError(f"crop removes -n tokens; {tokens_to_remove} is positive")
        first = self._attending[0]
        if tokens_to_remove == 0 or first.length == 0:
            return
        if -tokens_to_remove >= first.length:
            self.reset()
            return
        stored = first.stored_without(-tokens_to_remove)
        is_cut = stored != first.stored
        with self._sequences.truncating(stored) if is_cut else nullcontext():
            for layer in self._attending:
                layer.shorten(-tokens_to_remove)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats each row of the batch."""
        self.batch_select_indices(torch.arange(len(self._sequences.ids)).repeat_interleave(repeats))


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
