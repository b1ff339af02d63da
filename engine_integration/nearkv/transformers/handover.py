"""Which layer of which cache attention belongs to: models hand on nothing but its keys."""

import threading
from typing import Any

import torch

UNATTENDED = (
    "the last tokens were not attended to by NearKV: if that failed, reset() the cache, else first "
    'say model.set_attn_implementation("nearkv")'
)
"""What a layer says that gets tokens before the last ones were attended to."""

_next = threading.local()


def expect_attention(layer: Any, keys: torch.Tensor, values: torch.Tensor) -> None:
    """What this thread attends to next is what `layer` has just given its model."""
    _next.layer, _next.kept = layer, (keys, values)


def take_next(key: torch.Tensor) -> Any | None:
    """The layer that attention to these keys belongs to; None if they are no cache's of NearKV."""
    layer = getattr(_next, "layer", None)
    if layer is None:
        return None
    kept, _next.layer, _next.kept = _next.kept, None, None
    # Of a model whose attention is another one, the last update may still wait here.
    if not torch.compiler.is_compiling() and not layer.layout.is_cached(key, kept):
        return None
    return layer
