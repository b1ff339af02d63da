"""A layer of fixed shapes: decoding with it compiles to one graph."""

from collections.abc import Sequence
from typing import Any

import torch

from nearkv.core import PAGE_TOKENS
from nearkv.far import FarAttention
from nearkv.transformers import ops
from nearkv.transformers.far import Sequences
from nearkv.transformers.layer import NearKVLayer
from nearkv.transformers.visible import causal_mask

STEP_TOKENS = PAGE_TOKENS
"""Up to so many new tokens keep the shapes fixed; more, as in a prompt, are taken up eagerly."""


class NearKVStaticLayer(NearKVLayer):
    """A NearKVLayer whose tensors never change their shape, and masks have `max_tokens` columns.

    `keys` and `values` are buffers; the tokens here fill their first columns. `cumulative_length`,
    and `ends`, where each row's part of the pool ends, are tensors for the graph; what the base
    class counts is what the operators know, and lags behind while a graph runs.
    """

    is_compileable = True

    def __init__(self, *arguments: Any, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        super().__init__(*arguments)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocates the buffers."""
        super().lazy_initialization(key_states, value_states)
        self.keys = self._buffer(self.keys)
        self.values = self._buffer(self.values)
        self.cumulative_length = torch.tensor(0, device=self.device)
        self.ends = torch.zeros(len(key_states), dtype=torch.long, device=self.device)
        self.number = ops.name_layer(self)
        self._mark_static()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Adds tokens; gives the whole buffers, or, for many tokens, all that there are here."""
        tokens = key_states.shape[2]
        if tokens > STEP_TOKENS:
            return self._update_eagerly(key_states, value_states)
        self.check_update(key_states, value_states)
        at = torch.arange(tokens, device=self.device) + self.cumulative_length - self.ends.min()
        self.keys.index_copy_(2, at, key_states.detach().to(self.dtype))
        self.values.index_copy_(2, at, value_states.detach().to(self.dtype))
        self.cumulative_length.add_(tokens)
        seen = (self.keys.to(key_states.dtype), self.values.to(key_states.dtype))
        self.expect_attention(*seen)
        return seen

    @torch.compiler.disable
    def _update_eagerly(
        self, key_states: torch.Tensor, value_states: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.check_update(key_states, value_states)
        self._check_room(key_states.shape[2])
        self._loosen()
        return super().update(key_states, value_states)

    def settle(
        self, mask: torch.Tensor | None, new_tokens: int, output: torch.Tensor | None = None
    ) -> None:
        """As the base class's; a graph has `output` computed before it."""
        if self._buffers is not None:
            super().settle(mask, new_tokens, output)
            self._pack()
        else:
            place = (self.keys, self.values, self.ends)
            ops.settle(*place, mask, self.number, new_tokens, output)
            self._awaits_attention = False

    def move_old(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        ends: torch.Tensor,
        mask: torch.Tensor | None,
        new_tokens: int,
    ) -> None:
        """What nearkv::settle does."""
        self.length += new_tokens
        held = self.length - self.first_here()
        seen = None if mask is None else mask[..., : self.length]
        moved = self.store_old(keys[:, :, :held], values[:, :, :held], seen, new_tokens)
        if moved:
            for buffer in (keys, values):
                buffer[:, :, : held - moved] = buffer[:, :, moved:held].clone()
        ends.copy_(self._row_ends())

    def holds_all(self) -> bool:
        """Whether no token is in the pool; in a graph, nobody knows."""
        return self._buffers is not None and super().holds_all()

    def cut_mask(self, mask: torch.Tensor | None) -> torch.Tensor | None:
        """Attention over the buffers takes it as it is."""
        return mask[..., : self.length] if mask is not None and self._buffers is not None else mask

    def mask_here(self, mask: torch.Tensor | None, queries: int) -> torch.Tensor | None:
        """The part of a mask for the buffers' columns."""
        if self._buffers is not None:
            return super().mask_here(mask, queries)
        end = self.cumulative_length
        if mask is None:
            mask = causal_mask(end, queries, self.max_tokens, len(self.keys))
        columns = torch.arange(self.keys.shape[2], device=self.device) + self.ends.min()
        only_here = (columns >= self.ends[:, None]) & (columns < end)
        here = mask.index_select(3, columns.clamp(max=self.max_tokens - 1))
        return here & only_here[:, None, None]

    def attend_far(
        self, query: torch.Tensor, mask: torch.Tensor | None, scale: float, soft_cap: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As an operator, whatever there is."""
        if self._buffers is not None:
            return super().attend_far(query, mask, scale, soft_cap)
        value_dim = self.layout.value_dim
        return ops.attend_far(query, mask, self.number, scale, soft_cap, value_dim)

    def attend_pool(
        self, query: torch.Tensor, mask: torch.Tensor | None, scale: float, soft_cap: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What nearkv::attend_far does."""
        self._check_room(query.shape[3])
        return super().attend_far(query, mask, scale, soft_cap)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Masks cover all tokens that there may be."""
        return self.max_tokens, 0

    def get_seq_length(self) -> int | torch.Tensor:
        """Tokens here and in the pool, as a tensor for a graph."""
        return self.cumulative_length if self.is_initialized else 0

    def get_max_length(self) -> int:
        """What was asked for."""
        return self.max_tokens

    def reset(self) -> None:
        """Forgets all tokens, and the buffers."""
        super().reset()
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def fork(self, sequences: Sequences, far: FarAttention) -> "NearKVStaticLayer":
        """This layer over other sequences, which share its pages, with buffers of its own."""
        other = super().fork(sequences, far)
        if self.is_initialized:
            for name in ("keys", "values", "ends", "cumulative_length"):
                setattr(other, name, getattr(self, name).clone())
            other.number = ops.name_layer(other)
            other._mark_static()
        return other

    def select_rows(self, rows: Sequence[int]) -> None:
        """Makes row i what row rows[i] was, in place if there are as many."""
        self._loosen()
        super().select_rows(rows)
        self._pack()

    def shorten(self, removed: int) -> None:
        """Forgets the newest tokens, and takes back from the pool what no whole page holds."""
        self._loosen()
        super().shorten(removed)
        self._pack()

    def _loosen(self) -> None:
        """Makes `keys` and `values` the tokens here, as the base class has them."""
        held = self.length - self.first_here()
        self._buffers = (self.keys, self.values)
        self.keys, self.values = self.keys[:, :, :held], self.values[:, :, :held]

    def _pack(self) -> None:
        """Puts the tokens here back into buffers."""
        keys, values = self._buffers
        self.keys, self.values = self._buffer(self.keys, keys), self._buffer(self.values, values)
        self._buffers = None
        self.cumulative_length.fill_(self.length)
        ends = self._row_ends()
        if len(ends) == len(self.ends):
            self.ends.copy_(ends)
        else:
            self.ends = ends.to(self.device)
            self._mark_static()

    def _buffer(self, tokens: torch.Tensor, old: torch.Tensor | None = None) -> torch.Tensor:
        """A buffer that starts with these tokens: the old one if they fit."""
        batch, heads, count, channels = tokens.shape
        if old is None or len(old) != batch:
            old = tokens.new_zeros(
                batch, heads, self.window_tokens + PAGE_TOKENS + STEP_TOKENS, channels
            )
        old[:, :, :count] = tokens.clone()
        return old

    def _row_ends(self) -> torch.Tensor:
        return torch.tensor(
            [pads + stored for pads, stored in zip(self.pads, self.stored, strict=True)]
        )

    def _check_room(self, new_tokens: int) -> None:
        if self.length + new_tokens > self.max_tokens:
            raise ValueError(
                f"{self.length} tokens and {new_tokens} more are beyond the {self.max_tokens} that "
                "this cache was made for: NearKVCache(pool, max_tokens=...)"
            )

    def _mark_static(self) -> None:
        """Tells torch that graphs may rely on where these lie."""
        for tensor in (self.keys, self.values, self.ends, self.cumulative_length):
            torch._dynamo.mark_static_address(tensor)
