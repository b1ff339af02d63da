"""Layers that come to a GPU from the host's memory while the layer before is computed."""

from collections.abc import Sequence
from types import TracebackType

import torch


class LayerPrefetch:
    """Tensors of layers, [layers] of pinned host tensors, of which two layers are on the GPU.

    `take(i)` gives layer i's tensors on the GPU and starts layer i + 1's copy on a stream of its
    own; they are good for what is put on the current stream before the next take. Layers are taken
    in order, and again from 0. Not thread-safe.
    """

    def __init__(self, layers: Sequence[Sequence[torch.Tensor]], where: torch.device) -> None:
        if not layers:
            raise ValueError("there are no layers to fetch")
        is_gpu = where.type == "cuda"
        if is_gpu and not all(one.is_pinned() for layer in layers for one in layer):
            raise ValueError("layers to fetch lie in pinned memory; call pin_memory() on them")
        self._layers = layers
        self._places = [[torch.empty_like(one, device=where) for one in layers[0]] for _ in "ab"]
        self._where = where
        self._copying = torch.cuda.Stream(where) if is_gpu else None
        if self._copying is not None:
            # Memory of the current stream's, which torch gives to others without a look at ours.
            for place in (*self._places[0], *self._places[1]):
                place.record_stream(self._copying)
        self._arrived: torch.cuda.Event | None = None
        self._next = 0
        self._fetch()

    def take(self, layer: int) -> list[torch.Tensor]:
        """Layer `layer`'s tensors, for what is put on the current stream from now on."""
        if layer != self._next:
            raise ValueError(f"layer {self._next} is next, not {layer}")
        if self._arrived is not None:
            torch.cuda.current_stream(self._where).wait_event(self._arrived)
        self._places.reverse()
        self._next = (layer + 1) % len(self._layers)
        self._fetch()
        return self._places[1]

    def _fetch(self) -> None:
        """The next layer, to the first place."""
        if self._copying is None:
            self._copy()
            return
        # Who read that place before did so on the current stream.
        self._copying.wait_stream(torch.cuda.current_stream(self._where))
        with torch.cuda.stream(self._copying):
            self._copy()
            self._arrived = self._copying.record_event()

    def _copy(self) -> None:
        for target, source in zip(self._places[0], self._layers[self._next], strict=True):
            if target.shape != source.shape or target.dtype != source.dtype:
                raise ValueError(f"layer {self._next} is of another shape or type than layer 0")
            target.copy_(source, non_blocking=True)

    def __enter__(self) -> "LayerPrefetch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._copying is not None:
            self._copying.synchronize()
