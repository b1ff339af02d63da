"""What a model makes of each layer's attention: how much of its last output lies along it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


class LayerShares:
    """By layer, the mean over tokens of |<added, last>| / <last, last>.

    `added` is what its attention added to the stream, `last` the stream behind the last layer.
    """

    def __init__(self, layers: int) -> None:
        self._added: list[torch.Tensor] = [torch.empty(0)] * layers
        self._sums, self._tokens = torch.zeros(layers, dtype=torch.float64), 0

    @property
    def means(self) -> list[float]:
        """Of all tokens so far."""
        return (self._sums / max(1, self._tokens)).tolist()

    def added(self, layer: int, output: torch.Tensor) -> None:
        """What a layer's attention adds to the stream: [tokens, hidden_size]."""
        self._added[layer] = output

    def last(self, stream: torch.Tensor) -> None:
        """The stream behind the last layer, once all have added to it."""
        along = torch.stack([(added * stream).sum(-1).abs() for added in self._added])
        self._sums += (along / stream.square().sum(-1)).sum(-1).double()
        self._tokens += len(stream)


@contextmanager
def watched_layers(model: Any, layers: Sequence[int]) -> Iterator[LayerShares]:
    """Watches these layers, which attend, of a decoder of transformers."""
    decoder = model.get_decoder()
    shares = LayerShares(len(layers))
    with ExitStack() as hooks:
        for index, layer in enumerate(layers):
            hook = decoder.layers[layer].self_attn.register_forward_hook(
                lambda _module, _inputs, output, index=index: shares.added(index, output[0][0])
            )
            hooks.callback(hook.remove)
        hook = decoder.norm.register_forward_pre_hook(
            lambda _module, inputs: shares.last(inputs[0][0])
        )
        hooks.callback(hook.remove)
        yield shares
