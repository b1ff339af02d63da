"""Computing some rows of a prompt in their place, fewer from layer to layer."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from nearkv.blend.layers import BlendLayer
from nearkv.blend.model import BlendModel, look_at_update
from nearkv.blend.selection import deviation, kept_share, share_of


class InPlace:
    """One pass of a model over rows of a prompt, whose other rows its cache already holds.

    The model's own forward runs; hooks in front of its layers take rows away. `ready` is asked
    once before each layer, and ends with that layer's reused K and V in the cache. With a
    `narrow_to` ratio the rows are all behind the prefix, and from the second layer on those go on
    whose K and V deviate most.
    """

    def __init__(
        self,
        model: BlendModel,
        cache: DynamicCache,
        rows: torch.Tensor,
        ready: Iterator[None],
        narrow_to: float | None,
    ) -> None:
        self._model = model
        self._cache = cache
        self._ready = ready
        self._narrow_to = narrow_to
        self._given = rows  # To the model's forward.
        self._kept = torch.arange(len(rows), device=rows.device)  # Of those.
        self._length: int = cache.layers[0].keys.shape[2]
        self.computed: list[int] = []
        """Of each layer: rows that went through all of it."""

    def run(self, tokens: torch.Tensor) -> None:
        """`tokens` [1, length] of the whole prompt."""
        layers: list[Any] = self._cache.layers
        for layer in layers:
            layer.rows = self._given
        # Rows that are all there are behind the prefix have the model's own, causal, mask.
        first = layers[0].get_seq_length()
        is_whole = len(self._given) == self._length - first
        with ExitStack() as hooks:
            for number, layer in enumerate(self._model.layers):
                enter = partial(self._enter, number)
                hooks.callback(layer.register_forward_pre_hook(enter, with_kwargs=True).remove)
            self._model.decoder(
                input_ids=tokens[:, self._given],
                position_ids=self._given[None],
                attention_mask=None if is_whole else self._mask(),
                past_key_values=self._cache,
                use_cache=True,
            )
        for layer in layers:
            layer.rows = None

    def _rows(self) -> torch.Tensor:
        return self._given[self._kept]

    def _mask(self) -> torch.Tensor:
        """[1, 1, rows, length]: what each row sees."""
        columns = torch.arange(self._length, device=self._given.device)
        return (columns <= self._rows()[:, None])[None, None]

    def _enter(
        self, number: int, module: torch.nn.Module, given: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        # Chunks are computed apart meanwhile, and layers looked at, with caches of their own.
        if options.get("past_key_values") is not self._cache:
            return None
        next(self._ready)
        hidden, *others = given
        if number > 0 and self._narrow_to is not None:
            keep = self._choose(number, module, hidden, self._for_kept(options))
            hidden, self._kept = hidden[:, keep], self._kept[keep]
        self._cache.layers[number].rows = self._rows()
        self.computed.append(len(self._kept))
        return (hidden, *others), self._for_kept(options)

    def _for_kept(self, options: dict[str, Any]) -> dict[str, Any]:
        """What the model gives to each layer, for the rows that are left."""
        if len(self._kept) == len(self._given):
            return options
        cos, sin = options["position_embeddings"]
        rotation = cos[:, self._kept], sin[:, self._kept]
        place = self._rows()[None]
        return options | {
            "attention_mask": self._mask(),
            "position_embeddings": rotation,
            "position_ids": place,
        }

    def _choose(
        self, number: int, module: torch.nn.Module, hidden: torch.Tensor, options: dict[str, Any]
    ) -> torch.Tensor:
        """Which of the rows go on: those whose K and V differ most from what was reused.

        The others' are kept as well, now that they are computed.
        """
        assert self._narrow_to is not None
        new = look_at_update(lambda cache: module(hidden, **options | {"past_key_values": cache}))
        layer: BlendLayer = self._cache.layers[number]
        layer.rows = self._rows()
        old = layer.keys[:, :, layer.rows], layer.values[:, :, layer.rows]
        share = kept_share(self._narrow_to, number, len(self._model.layers))
        most = deviation(new, old).topk(share_of(share, len(self._given))).indices
        layer.update(*new)
        return most.sort().values
