"""What a cache of transformers consists of, for whoever stores it: K and V here, states there."""

import torch
from transformers.cache_utils import Cache, DummyLayer, LinearAttentionCacheLayerMixin

from nearkv.core import PAGE_TOKENS, Dtype
from nearkv.transformers.layer import NearKVLayer
from nearkv.transformers.layout import TORCH_DTYPES
from nearkv.transformers.states import put_states, states_in

States = list[torch.Tensor]


class CacheParts:
    """What a cache consists of: layers with K and V, layers with states; or a list of states."""

    def __init__(self, cache: Cache | States) -> None:
        self._cache = cache
        self.attending: list[NearKVLayer] = []
        self._recurrent: dict[str, LinearAttentionCacheLayerMixin] = {}
        layers = [] if isinstance(cache, list) else cache.layers
        for index, layer in enumerate(layers):
            known = isinstance(layer, DummyLayer)
            if isinstance(layer, NearKVLayer):
                self.attending.append(layer)
                known = True
            if isinstance(layer, LinearAttentionCacheLayerMixin):
                self._recurrent[str(index)] = layer
                known = True
            if not known:
                raise ValueError(
                    f"layer {index} is a {type(layer).__name__}, of which PrefixStates knows "
                    "nothing: use NearKVCache(make_pool(model.config), config=model.config)"
                )
        if not isinstance(cache, list) and not layers:
            raise ValueError("the cache has no layers yet: DynamicCache(config=model.config)")

    def kind(self) -> str:
        """What caches have to agree in."""
        return str([(*layer.layout.wanted, layer.pool.dtype) for layer in self.attending])

    def check(self, tokens: int) -> None:
        """Raises ValueError if the cache does not hold so many tokens of one sequence."""
        for layer in self.attending:
            if layer.length != tokens or len(layer.stored) > 1 or any(layer.pads):
                raise ValueError(
                    f"the cache holds {layer.length} tokens of {len(layer.stored)} sequences, "
                    f"with padding of {layer.pads}; wanted is one sequence of {tokens} without"
                )
        for state in self._all_states().values():
            if not tokens:
                raise ValueError("the cache is not empty: reset() it, or take another")
            if state.shape[0] != 1:
                raise ValueError(f"the cache holds {state.shape[0]} sequences; wanted is one")
        if tokens and not self.attending and not self._all_states():
            raise ValueError("the cache is empty, or its model keeps its states elsewhere")

    def block(self, number: int) -> list[torch.Tensor]:
        """K and V of a block's tokens, layer by layer."""
        begin = number * PAGE_TOKENS
        pairs = (layer.rows(begin, begin + PAGE_TOKENS) for layer in self.attending)
        return [rows.contiguous() for pair in pairs for rows in pair]

    def blank(self, count: int) -> list[torch.Tensor]:
        """Room for so many blocks: two tensors for each layer, [blocks, ...]."""
        tensors = []
        for layer in self.attending:
            heads, *channels = layer.layout.wanted
            dtype = TORCH_DTYPES[Dtype(layer.pool.dtype)]
            tensors += [
                torch.empty(count, heads, PAGE_TOKENS, dim, dtype=dtype) for dim in channels
            ]
        return tensors

    def snapshot(self, tokens: int) -> dict[str, torch.Tensor]:
        """States, and the K and V that no block has."""
        begin = tokens // PAGE_TOKENS * PAGE_TOKENS
        tensors = {f"state.{name}": state for name, state in self._all_states().items()}
        for number, layer in enumerate(self.attending):
            keys, values = layer.rows(begin, tokens)
            tensors |= {f"keys.{number}": keys, f"values.{number}": values}
        return {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}

    def fill(self, snapshot: dict[str, torch.Tensor], blocks: list[torch.Tensor]) -> None:
        """Puts all into the empty cache; on an error it is empty again."""
        try:
            self._fill(snapshot, blocks)
        except BaseException:
            self._cache.clear() if isinstance(self._cache, list) else self._cache.reset()
            raise

    def _fill(self, snapshot: dict[str, torch.Tensor], blocks: list[torch.Tensor]) -> None:
        for number, layer in enumerate(self.attending):
            tails = snapshot[f"keys.{number}"], snapshot[f"values.{number}"]
            pair = zip(blocks[2 * number : 2 * number + 2], tails, strict=True)
            rows = [torch.cat([some.transpose(0, 1).flatten(1, 2), tail], 1) for some, tail in pair]
            layer.update(rows[0][None], rows[1][None])
            layer.settle(None, rows[0].shape[1])
        for name, state in sorted(snapshot.items()):
            kind, _, place = name.partition(".")
            if kind == "state" and isinstance(self._cache, list):
                self._cache.append(state)
            elif kind == "state":
                index, _, name_there = place.partition(".")
                put_states(self._recurrent[index], {name_there: state})

    def _all_states(self) -> dict[str, torch.Tensor]:
        if isinstance(self._cache, list):
            return {f"{number:04}": state for number, state in enumerate(self._cache)}
        return {
            f"{index}.{name}": state
            for index, layer in self._recurrent.items()
            for name, state in states_in(layer).items()
        }
