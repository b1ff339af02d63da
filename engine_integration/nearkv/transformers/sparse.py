"""A cache for models with DeepSeek's sparse attention (DSA), whose indexers pick from a store."""

from typing import Any

import torch

from nearkv.core import MAX_TOP_K, Device
from nearkv.sparse import SparseLatents
from nearkv.transformers.far import Sequences
from nearkv.transformers.pooled_cache import SequencesCache, changed_rows
from nearkv.transformers.shape import shape_of
from nearkv.transformers.sparse_layer import NearKVSparseLayer


def make_sparse_latents(
    config: Any,
    latents: Device | str = "cpu:",
    keys: Device | str = "cpu:",
    *,
    dtype: torch.dtype = torch.bfloat16,
    max_sequences: int = 64,
) -> SparseLatents:
    """Formats two devices for the latents and the indexer keys of a model; what they held is lost.

    `dtype` is bfloat16 or float16, as a rule the model's. A row of a batch, or a beam, is one
    sequence. Raises ValueError for a model that does not fit, with what to do.
    """
    shape = shape_of(config)
    if not shape.index_dim:
        raise ValueError(
            f"{config.model_type} has no indexer: use NearKVCache(make_pool(model.config))"
        )
    return SparseLatents.create(
        latents,
        keys,
        layers=shape.attending,
        index_layers=[number for number, layer in enumerate(shape.layers) if layer.indexes],
        latent_dim=shape.rows["head_dim"],
        value_dim=shape.rows["value_dim"],
        key_dim=shape.index_dim,
        dtype=dtype,
        max_sequences=max_sequences,
    )


class NearKVSparseCache(SequencesCache):
    """A cache for one batch of a model with a lightning indexer, whose attention is "nearkv".

    All latents and indexer keys lie in `store`. For a token that follows others its indexer's
    queries go down and the ids of the best tokens come back, then, of their latents, those that are
    not among the `resident_tokens` kept here for each row and layer. A prompt is attended to
    plainly. Batches, padding on the left, crop(), reset(), beams and copy.deepcopy work; sequences
    that come from one share pages. `rounded` lets a model of another dtype, such as float32, keep
    its rows in the store's. Steps are not compiled. Not thread-safe.
    """

    def __init__(
        self, store: SparseLatents, *, resident_tokens: int = MAX_TOP_K, rounded: bool = False
    ) -> None:
        if resident_tokens < 1:
            raise ValueError(f"resident_tokens is {resident_tokens}; it must be at least 1")
        sequences = Sequences(store)
        options = (store, sequences, resident_tokens, rounded)
        count = store.latents.layers
        self._own(sequences, [NearKVSparseLayer(index, *options) for index in range(count)])

    @property
    def store(self) -> SparseLatents:
        """Where the latents and the indexer keys are; its pools' stats() tell what they cost."""
        return self._sequences.pool

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Makes row i of the batch what row indices[i] was."""
        before = list(self._sequences.ids)
        if rows := changed_rows(indices, len(before)):
            self._sequences.rearrange(rows, self.layers[0].stored)
            for layer in self.layers:
                layer.select_rows(rows, before)

    def fork(self) -> "NearKVSparseCache":
        """A cache that goes on from here on its own; the pages so far are shared."""
        return self._fork(lambda layer, sequences: layer.fork(sequences))

    def __deepcopy__(self, memo: dict[int, Any]) -> "NearKVSparseCache":
        return self.fork()
