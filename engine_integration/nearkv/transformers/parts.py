"""What a cache of transformers consists of, for whoever stores it: K and V here, states there."""

import torch
from transformers.cache_utils import Cache, DummyLayer, LinearAttentionCacheLayerMixin

from nearkv.core import PAGE_TOKENS, Dtype
from nearkv.transformers.infini import NearKVInfiniLayer
from nearkv.transformers.layer import NearKVLayer
from nearkv.transformers.layout import TORCH_DTYPES
from nearkv.transformers.states import put_states, states_in

States = list[torch.Tensor]


class CacheParts:
    """What a cache consists of: layers with K and V, layers with states; or a list of states.

    Infini-attention has both: K and V of the segment that is not over, and for a state what became
    of those before it.
    """

    def __init__(self, cache: Cache | States) -> None:
        self._cache = cache
        self.attending: list[NearKVLayer] = []
        self._folding: dict[str, NearKVInfiniLayer] = {}
        self._recurrent: dict[str, LinearAttentionCacheLayerMixin] = {}
        layers = [] if isinstance(cache, list) else cache.layers
        for index, layer in enumerate(layers):
            known = isinstance(layer, DummyLayer)
            if isinstance(layer, NearKVLayer):
                self.attending.append(layer)
                known = True
            if isinstance(layer, NearKVInfiniLayer):
                self.attending.append(layer.local)
                self._folding[str(index)] = layer
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
        rows = [(*layer.layout.wanted, layer.pool.dtype) for layer in self.attending]
        return str([*rows, *(layer.settings for layer in self._folding.values())])

    def first_token(self, tokens: int) -> int:
        """Of so many tokens the first one whose K and V a cache has; a block begins there."""
        segments = {layer.segment_tokens for layer in self._folding.values()}
        return tokens - tokens % min(segments) if segments else 0

    def check(self, tokens: int) -> None:
        """Raises ValueError if the cache does not hold so many tokens of one sequence."""
        wanted = tokens - self.first_token(tokens)
        for folding in self._folding.values():
            if folding.length != tokens:
                raise ValueError(f"the cache holds {folding.length} tokens; wanted are {tokens}")
        for layer in self.attending:
            if layer.length != wanted or len(layer.stored) > 1 or any(layer.pads):
                raise ValueError(
                    f"the cache holds {layer.length} tokens of {len(layer.stored)} sequences, "
                    f"with padding of {layer.pads}; wanted is one sequence of {wanted} without"
                )
        for state in self._all_states().values():
            if not tokens:
                raise ValueError("the cache is not empty: reset() it, or take another")
            if state.shape[0] != 1:
                raise ValueError(f"the cache holds {state.shape[0]} sequences; wanted is one")
        if tokens and not self.attending and not self._all_states():
            raise ValueError("the cache is empty, or its model keeps its states elsewhere")

    def block(self, number: int) -> list[torch.Tensor]:
        """K and V of a block's tokens, layer by layer; the block of first_token() is number 0."""
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
        end = tokens - self.first_token(tokens)
        begin = end // PAGE_TOKENS * PAGE_TOKENS
        tensors = {f"state.{name}": state for name, state in self._all_states().items()}
        for number, layer in enumerate(self.attending):
            # A segment that has just been folded has left nothing.
            if end:
                keys, values = layer.rows(begin, end)
                tensors |= {f"keys.{number}": keys, f"values.{number}": values}
        return {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}

    def fill(
        self, tokens: int, snapshot: dict[str, torch.Tensor], blocks: list[torch.Tensor]
    ) -> None:
        """Puts all of so many tokens into the empty cache; on an error it is empty again."""
        try:
            self._fill(tokens, snapshot, blocks)
        except BaseException:
            self._cache.clear() if isinstance(self._cache, list) else self._cache.reset()
            raise

    def _fill(
        self, tokens: int, snapshot: dict[str, torch.Tensor], blocks: list[torch.Tensor]
    ) -> None:
        for number, layer in enumerate(self.attending):
            if f"keys.{number}" not in snapshot:
                continue
            tails = snapshot[f"keys.{number}"], snapshot[f"values.{number}"]
            pair = zip(blocks[2 * number : 2 * number + 2], tails, strict=True)
            rows = [torch.cat([some.transpose(0, 1).flatten(1, 2), tail], 1) for some, tail in pair]
            layer.update(rows[0][None], rows[1][None])
            layer.settle(None, rows[0].shape[1])
        if isinstance(self._cache, list):
            self._cache += [state for _, state in sorted(snapshot.items())]
            return
        for name, state in sorted(snapshot.items()):
            kind, _, place = name.partition(".")
            index, _, name_there = place.partition(".")
            if kind == "state" and index in self._recurrent:
                put_states(self._recurrent[index], {name_there: state})
        for index, layer in self._folding.items():
            layer.take_up(
                tokens,
                snapshot.get(f"state.{index}.matrix"),
                snapshot.get(f"state.{index}.normaliser"),
            )

    def _all_states(self) -> dict[str, torch.Tensor]:
        if isinstance(self._cache, list):
            return {f"{number:04}": state for number, state in enumerate(self._cache)}
        recurrent = {
            f"{index}.{name}": state
            for index, layer in self._recurrent.items()
            for name, state in states_in(layer).items()
        }
        folded = {
            f"{index}.{name}": state
            for index, layer in self._folding.items()
            if not layer.memory.is_empty
            for name, state in (
                ("matrix", layer.memory.matrix),
                ("normaliser", layer.memory.normaliser),
            )
        }
        return recurrent | folded
