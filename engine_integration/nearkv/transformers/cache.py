"""A transformers cache that keeps recent tokens here and moves whole old pages to a pool."""

from typing import Any

import torch
from transformers.cache_utils import Cache, DummyLayer

from nearkv.core import Codec, Pool
from nearkv.far import FarAttention
from nearkv.retainer import Retention
from nearkv.transformers.far import Sequences
from nearkv.transformers.layer import NearKVLayer
from nearkv.transformers.pooled_cache import SequencesCache, changed_rows
from nearkv.transformers.shape import LayerShape, shape_of
from nearkv.transformers.states import NearKVHybridLayer, NearKVStateLayer, put_states, states_in
from nearkv.transformers.static_layer import NearKVStaticLayer

Layer = NearKVLayer | NearKVStateLayer | DummyLayer


class NearKVCache(SequencesCache):
    """A cache for one batch. Pass it as `past_key_values` to a model whose attention is "nearkv".

    The newest `window_tokens` tokens (up to a page more) stay here; whole pages of 64 tokens
    before them go to `pool`, and every later query goes to them. The pages are given back by
    close(), at the end of a `with`, or with the object; several caches may share a pool. A prompt
    is attended to plainly, before its pages move. Batches, padding on the left, crop(), reset(),
    beams and copy.deepcopy work; sequences that come from one share pages. `retention` keeps each
    sequence within a budget: pages beyond it are compressed, and come back when a query asks for
    them. `rounded` lets a model of another dtype, such as float32, keep K and V in the pool's. Not
    thread-safe.

    A model with recurrent layers needs its `config` here: their states stay here, and the pool has
    the layers that attend. Forks share states until one of them goes on; crop() is refused.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        config: Any = None,
        window_tokens: int = 128,
        max_tokens: int | None = None,
        far: FarAttention | None = None,
        retention: Retention | None = None,
        rounded: bool = False,
    ) -> None:
        if window_tokens < 1:
            raise ValueError(f"window_tokens is {window_tokens}; it must be at least 1")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; it must be at least 1")
        layers = _layers_of(config, pool)
        if max_tokens is not None and any(layer.states for layer in layers):
            raise ValueError("max_tokens is for models whose layers all attend")
        if retention and max_tokens is not None:
            raise ValueError(
                "a retention decides between steps, which no graph does: no max_tokens"
            )
        far = FarAttention.of(far, pool)
        sequences = Sequences(pool, retention)
        options = (sequences, window_tokens, far, rounded)
        made: list[Layer] = []
        numbers = iter(range(pool.layers))
        for layer in layers:
            if not layer.attends:
                made.append(NearKVStateLayer(layer.states) if layer.states else DummyLayer())
            elif layer.states:
                number = next(numbers)
                made.append(NearKVHybridLayer(number, *options, number_of_states=layer.states))
            elif max_tokens is None:
                made.append(NearKVLayer(next(numbers), *options))
            else:
                made.append(NearKVStaticLayer(next(numbers), *options, max_tokens=max_tokens))
        self._own(sequences, made)

    @property
    def pool(self) -> Pool:
        """Where the old pages are; its stats() tell what they cost."""
        return self._sequences.pool

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the newest tokens; the count is negative, as everywhere in transformers."""
        if any(isinstance(layer, NearKVStateLayer) for layer in self.layers):
            raise ValueError(
                "recurrent states cannot forget a token: fork() before tokens that may be taken "
                "back, or load() a prefix from PrefixStates"
            )
        super().crop(tokens_to_remove)

    def rest(self, codec: Codec = Codec.INT4) -> None:
        """Compresses the pages in the pool, until something reads them: between a chat's turns.

        INT4, INT8 and FP8 round K and V, in groups of a channel's 64 tokens for K and of a token's
        channels for V; PLANES_LZ4 and PLANES_ZSTD do not. Forks that share the pages rest as well.
        Error BAD_PAGE if the codec does not take the pool's dtype, POOL_FULL if there is no room.
        """
        self._sequences.cool(codec)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Makes row i of the batch what row indices[i] was."""
        if not (rows := changed_rows(indices, len(self._sequences.ids))):
            return
        self._sequences.rearrange(rows, self._attending[0].stored)
        for layer in self.layers:
            if isinstance(layer, NearKVLayer):
                layer.select_rows(rows)
            elif isinstance(layer, NearKVStateLayer):
                layer.select_states(rows)

    def take(self, prompt: Cache) -> None:
        """Takes up the tokens, none of them padding, that another cache holds after a prompt.

        Raises ValueError if that cache kept but a sliding window of a layer.
        """
        for layer, source in zip(self.layers, prompt.layers, strict=True):
            if isinstance(layer, NearKVLayer):
                if source.keys.shape[2] != source.get_seq_length():
                    raise ValueError("the prompt's cache has forgotten tokens; use DynamicCache()")
                layer.update(source.keys, source.values)
                layer.settle(None, source.keys.shape[2])
            if isinstance(layer, NearKVStateLayer):
                put_states(layer, states_in(source))

    def fork(self, far: FarAttention | None = None) -> "NearKVCache":
        """A cache that goes on from here on its own; the pages so far are shared."""
        if far:
            far.check(self.pool)

        def fork_layer(layer: Layer, sequences: Sequences) -> Layer:
            if isinstance(layer, NearKVLayer):
                return layer.fork(sequences, far or layer.far)
            return layer.fork_states() if isinstance(layer, NearKVStateLayer) else layer

        return self._fork(fork_layer)

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """A state that the model may write into; None before there is one."""
        self._own_states(layer_idx)
        return super().get_conv_state(layer_idx, state_idx)

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """A state that the model may write into; None before there is one."""
        self._own_states(layer_idx)
        return super().get_recurrent_state(layer_idx, state_idx)

    def _own_states(self, layer_idx: int) -> None:
        if isinstance(layer := self.layers[layer_idx], NearKVStateLayer):
            layer.own()

    def __deepcopy__(self, memo: dict[int, Any]) -> "NearKVCache":
        return self.fork()


def _layers_of(config: Any, pool: Pool) -> tuple[LayerShape, ...]:
    """What the layers over a pool keep; without a config, all attend."""
    if config is None:
        return (LayerShape(attends=True),) * pool.layers
    shape = shape_of(config)
    if shape.attending != pool.layers:
        raise ValueError(
            f"{config.model_type} has {shape.attending} layers that attend, the pool {pool.layers};"
            " make it with make_pool(model.config)"
        )
    return shape.layers
