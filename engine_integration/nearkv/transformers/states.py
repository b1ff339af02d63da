"""Layers whose recurrent states stay here: forks share them until one of them goes on."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import LinearAttentionLayer

from nearkv.far import FarAttention
from nearkv.transformers.far import Sequences
from nearkv.transformers.layer import NearKVLayer

_KINDS = ("conv", "recurrent")


class NearKVStateLayer(LinearAttentionLayer):
    """The states of a layer of Mamba, linear attention or a short convolution.

    Models write into the states that they are given, so NearKVCache calls own() before it gives
    them one: what a fork shares is copied then, and not before.
    """

    def __init__(self, number_of_states: int = 1) -> None:
        super().__init__(number_of_states=number_of_states)
        self._shared = False

    def own(self) -> None:
        """Makes the states this layer's alone."""
        if self._shared:
            self._replace(torch.clone)
            self._shared = False

    def update_conv_state(self, conv_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Takes up new columns."""
        self.own()
        return super().update_conv_state(conv_states, *args, **kwargs)

    def update_recurrent_state(
        self, recurrent_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        """Takes up what a scan has left."""
        self.own()
        return super().update_recurrent_state(recurrent_states, *args, **kwargs)

    def fork_states(self) -> "NearKVStateLayer":
        """This layer, for a cache that goes on alone; no state is copied."""
        other = copy.copy(self)
        for name in (
            "conv_states",
            "recurrent_states",
            "is_conv_states_initialized",
            "is_recurrent_states_initialized",
            "has_previous_state",
            "conv_kernel_size",
        ):
            setattr(other, name, dict(getattr(self, name)))
        self._shared = other._shared = True
        return other

    def select_states(self, rows: Sequence[int]) -> None:
        """Makes row i what row rows[i] was."""
        index = torch.tensor(rows, device=self.device)
        self._replace(lambda state: state.index_select(0, index))
        self._shared = False

    def reset(self) -> None:
        """Forgets all; the tensors may be others' too."""
        NearKVStateLayer.__init__(self, self.number_of_states)

    def _replace(self, change: Any) -> None:
        for states in (self.conv_states, self.recurrent_states):
            for number, state in states.items():
                if state is not None:
                    states[number] = change(state)


class NearKVHybridLayer(NearKVStateLayer, NearKVLayer):
    """A layer that attends, to pages of a pool, and has states beside it."""

    is_compileable = False
    is_croppable = False

    def __init__(self, *arguments: Any, number_of_states: int) -> None:
        NearKVStateLayer.__init__(self, number_of_states)
        NearKVLayer.__init__(self, *arguments)

    def lazy_initialization(self, *arguments: Any, **states: Any) -> None:
        """Of K and V, which come as two arguments, or of states, which come by name."""
        if arguments:
            NearKVLayer.lazy_initialization(self, *arguments)
        else:
            NearKVStateLayer.lazy_initialization(self, **states)

    def reset(self) -> None:
        """Forgets all tokens; the cache drops the sequences."""
        NearKVStateLayer.reset(self)
        NearKVLayer.reset(self)

    def fork(self, sequences: Sequences, far: FarAttention) -> "NearKVHybridLayer":
        """This layer over other sequences, which share its pages, and its states."""
        states = self.fork_states()
        return NearKVLayer.fork(states, sequences, far)

    def select_rows(self, rows: Sequence[int]) -> None:
        """Makes row i what row rows[i] was."""
        NearKVLayer.select_rows(self, rows)
        self.select_states(rows)


def states_in(layer: LinearAttentionLayer) -> dict[str, torch.Tensor]:
    """The states of a layer by their names, each [batch, ...]; shared with it."""
    return {
        f"{kind}.{number}": state
        for kind in _KINDS
        for number, state in getattr(layer, f"{kind}_states").items()
        if state is not None and layer.has_previous_state[number]
    }


def put_states(layer: LinearAttentionLayer, states: dict[str, torch.Tensor]) -> None:
    """Gives an empty layer what states_in() gave of another; copies it.

    Raises ValueError for names that are none of the layer's.
    """
    for name, state in states.items():
        kind, _, number = name.partition(".")
        if kind not in _KINDS or not number.isdigit() or int(number) >= layer.number_of_states:
            raise ValueError(f"{name!r} is no state of this layer")
        layer.lazy_initialization(**{f"{kind}_states": state, "state_idx": int(number)})
        getattr(layer, f"{kind}_states")[int(number)].copy_(state)
        layer.has_previous_state[int(number)] = True
        if layer.device is None:
            layer.dtype, layer.device = state.dtype, state.device
