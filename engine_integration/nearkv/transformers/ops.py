"""What torch.compile sees of a pool: two operators, nearkv::attend_far and nearkv::settle."""

import contextlib
import itertools
import weakref
from collections.abc import Iterator
from typing import Protocol

import torch


class CompiledLayer(Protocol):
    """A layer that does what the operators stand for; NearKVStaticLayer."""

    def attend_pool(
        self, query: torch.Tensor, mask: torch.Tensor | None, scale: float, soft_cap: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What nearkv::attend_far does."""

    def move_old(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        ends: torch.Tensor,
        mask: torch.Tensor | None,
        new_tokens: int,
    ) -> None:
        """What nearkv::settle does."""

    def fail(self) -> None:
        """One of them has failed."""


# Layers by the numbers that graphs know them by. A tensor holds the number, so that a graph that
# was compiled with one cache serves the next.
_layers: weakref.WeakValueDictionary[int, CompiledLayer] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def name_layer(layer: CompiledLayer) -> torch.Tensor:
    """A number by which the operators find a layer for as long as it lives."""
    number = next(_numbers)
    _layers[number] = layer
    return torch.tensor(number)


@contextlib.contextmanager
def _at_work(number: torch.Tensor) -> Iterator[CompiledLayer]:
    layer = _layers[int(number)]
    try:
        yield layer
    except BaseException:
        layer.fail()  # A graph that breaks off leaves no other trace.
        raise


@torch.library.custom_op("nearkv::attend_far", mutates_args=())
def attend_far(
    query: torch.Tensor,
    mask: torch.Tensor | None,
    layer: torch.Tensor,
    scale: float,
    soft_cap: float,
    value_dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, LSE) in fp32 over what a layer has in its pool, as NearKVLayer.attend_far has it."""
    with _at_work(layer) as worker:
        return worker.attend_pool(query, mask, scale, soft_cap)


@attend_far.register_fake
def _(
    query: torch.Tensor,
    mask: torch.Tensor | None,
    layer: torch.Tensor,
    scale: float,
    soft_cap: float,
    value_dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = query.shape[:-1]
    return (
        query.new_empty(*rows, value_dim, dtype=torch.float32),
        query.new_empty(rows, dtype=torch.float32),
    )


@torch.library.custom_op("nearkv::settle", mutates_args=("keys", "values", "ends"))
def settle(
    keys: torch.Tensor,
    values: torch.Tensor,
    ends: torch.Tensor,
    mask: torch.Tensor | None,
    layer: torch.Tensor,
    new_tokens: int,
    output: torch.Tensor | None,
) -> None:
    """Moves whole pages older than a layer's window to its pool, and what stays to the front.

    These are the layer's tensors, or a graph's copies of them. `output` is of the attention that
    has to come first: attend_far reads the pool, which no tensor stands for, so that without it a
    compiler may well turn the two around.
    """
    with _at_work(layer) as worker:
        worker.move_old(keys, values, ends, mask, new_tokens)


@settle.register_fake
def _(
    keys: torch.Tensor,
    values: torch.Tensor,
    ends: torch.Tensor,
    mask: torch.Tensor | None,
    layer: torch.Tensor,
    new_tokens: int,
    output: torch.Tensor | None,
) -> None:
    return None
