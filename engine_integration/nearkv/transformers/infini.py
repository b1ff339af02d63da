"""Infini-attention: segments that are over live on in a matrix per head (arXiv 2404.07143)."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nearkv.core import PAGE_TOKENS, Pool, RowForm
from nearkv.far import FarAttention
from nearkv.transformers.far import Sequences
from nearkv.transformers.handover import UNATTENDED, expect_attention
from nearkv.transformers.layer import NearKVLayer
from nearkv.transformers.layout import HeadLayout, layout_of
from nearkv.transformers.memory import CompressiveMemory
from nearkv.transformers.over import attend_over
from nearkv.transformers.pooled_cache import PooledCache, PooledLayer, changed_rows
from nearkv.transformers.visible import causal_mask

Angles = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


class NearKVInfiniCache(PooledCache):
    """A cache whose size does not grow: the tokens of a segment, and one matrix per KV head.

    Attention is local, over the segment a token is in; its pages older than `window_tokens` lie in
    `pool`. When a segment is over, its K and V are folded into the layer's CompressiveMemory and
    its pages given back. What the memory says of a query and what local attention says are mixed
    by a gate per query head: sigmoid(gates[layer, head]) of the memory.

    `rotary` is the model's rotary embedding: memories take queries and keys as they were before it,
    as the paper has them; None for models without. `delta`: by the delta rule. `in_place`: segments
    are folded where their pages lie, for a pool of form RAW in this machine's memory; else they are
    read back over the link first.

    For a model that was trained so: gates of -inf are local attention alone. No padding, no crop;
    several rows, forks, beams. Each layer of each row is a sequence of the pool. Not thread-safe.
    """

    def __init__(
        self,
        pool: Pool,
        gates: torch.Tensor,
        *,
        segment_tokens: int = 2048,
        window_tokens: int = 128,
        delta: bool = True,
        in_place: bool = False,
        rotary: Angles | None = None,
        far: FarAttention | None = None,
        rounded: bool = False,
    ) -> None:
        if not isinstance(layout_of(pool), HeadLayout):
            raise ValueError("a compressive memory is of K and V; the pool was made for latents")
        if segment_tokens < PAGE_TOKENS or segment_tokens % PAGE_TOKENS:
            raise ValueError(
                f"segment_tokens is {segment_tokens}; it must be a multiple of {PAGE_TOKENS}"
            )
        if gates.ndim != 2 or len(gates) != pool.layers or gates.shape[1] % pool.kv_heads:
            raise ValueError(
                f"gates are {list(gates.shape)}; wanted is one for each of {pool.layers} layers "
                f"and each query head, a multiple of {pool.kv_heads}"
            )
        if in_place and not (pool.k_form == pool.v_form == RowForm.RAW):
            raise ValueError(
                "in_place is for a pool whose k_form and v_form are RAW, as fp16's are"
            )
        if window_tokens < 1:
            raise ValueError(f"window_tokens is {window_tokens}; it must be at least 1")
        far = FarAttention.of(far, pool)
        layers = []
        for index, of_heads in enumerate(gates.detach().float().sigmoid()):
            options = (window_tokens, far, rounded)
            local = NearKVLayer(index, Sequences(pool), *options)
            memory = CompressiveMemory(delta=delta)
            how = {"rotary": rotary, "in_place": in_place}
            layers.append(NearKVInfiniLayer(local, memory, of_heads, segment_tokens, **how))
        self._own(pool, layers)

    def _own(self, pool: Pool, layers: list["NearKVInfiniLayer"]) -> None:
        self._hold(layers, *(layer.sequences for layer in layers))
        self.pool = pool

    def crop(self, tokens_to_remove: int) -> None:
        """Raises ValueError: what was folded cannot be taken out."""
        if tokens_to_remove:
            raise ValueError("a compressive memory cannot forget tokens: fork() before them")

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Makes row i of the batch what row indices[i] was."""
        for layer in self.layers:
            if rows := changed_rows(indices, layer.rows):
                layer.select_rows(rows)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats each row of the batch."""
        for layer in self.layers:
            layer.select_rows(torch.arange(layer.rows).repeat_interleave(repeats).tolist())

    def fork(self) -> "NearKVInfiniCache":
        """A cache that goes on from here on its own; the pages so far are shared."""
        other = NearKVInfiniCache.__new__(NearKVInfiniCache)
        other._own(self.pool, [layer.fork() for layer in self.layers])
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> "NearKVInfiniCache":
        return self.fork()


class NearKVInfiniLayer(PooledLayer):
    """One layer: `local` holds the segment that is not over, `memory` all before it."""

    is_croppable = False
    is_compileable = False
    supports_early_init = False

    def __init__(
        self,
        local: NearKVLayer,
        memory: CompressiveMemory,
        gates: torch.Tensor,
        segment_tokens: int,
        *,
        rotary: Angles | None,
        in_place: bool,
    ) -> None:
        super().__init__()
        self.local, self.memory, self.gates = local, memory, gates
        self.segment_tokens, self.rotary, self.in_place = segment_tokens, rotary, in_place
        self.layout = local.layout
        self.rows = self.length = 0
        self._awaits_attention = False

    @property
    def sequences(self) -> Sequences:
        """The layer's own, of the segment."""
        return self.local.sequences

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Takes the batch from the first tokens."""
        self.rows = len(key_states)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hands new tokens on to attend(), which takes them up segment by segment."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self._awaits_attention:
            raise RuntimeError(UNATTENDED)
        self._awaits_attention = True
        expect_attention(self, key_states, value_states)
        return key_states, value_states

    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        **options: Any,
    ) -> torch.Tensor:
        """Output [batch, queries, heads, value_dim] of the tokens that update() took."""
        if mask is not None and not bool(mask[:, 0, -1].all()):
            raise ValueError("Infini-attention takes causal masks, without padding or windows")
        outputs, done = [], 0
        while done < query.shape[2]:
            room = self.segment_tokens - self.local.length
            some = slice(done, done + room)
            new = query[:, :, some], key[:, :, some], value[:, :, some]
            outputs.append(self._attend_segment(module, *new, options))
            done += new[0].shape[2]
        self._awaits_attention = False
        return torch.cat(outputs, 1)

    def _attend_segment(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        options: dict[str, Any],
    ) -> torch.Tensor:
        count, begin = query.shape[2], self.length
        end = self.local.length + count
        # Without a mask, plain attention takes the queries to be the first tokens.
        mask = causal_mask(torch.tensor(end), count, end, len(query)).to(query.device)
        held = self.local.update(key, value)
        output = attend_over(self.local, module, query, *held, mask, **options)
        if not self.memory.is_empty:
            plain = self._before_rotary(query.float(), begin).unflatten(1, (key.shape[1], -1))
            recalled = self.memory.recall(plain).flatten(1, 2).transpose(1, 2)
            gates = self.gates.to(output.device)[:, None]
            output = torch.lerp(output.float(), recalled, gates).to(output.dtype)
        self.length += count
        if self.local.length == self.segment_tokens:
            self._fold()
        return output

    def _fold(self) -> None:
        """Takes the segment, which is over, into the memory, and gives its pages back."""
        rows = [
            self.local.rows(0, self.segment_tokens, row, in_place=self.in_place)
            for row in range(self.rows)
        ]
        keys, values = (
            torch.stack(part).to(self.local.device).float() for part in zip(*rows, strict=True)
        )
        keys = self._before_rotary(keys, self.length - self.segment_tokens)
        self.memory.fold(keys, values)
        self.sequences.drop()
        self.local.reset()

    @property
    def settings(self) -> str:
        """What layers have to agree in for one to go on from what the other kept."""
        return str((self.segment_tokens, self.memory.delta, self.gates.tolist()))

    def take_up(
        self, tokens: int, matrix: torch.Tensor | None, normaliser: torch.Tensor | None
    ) -> None:
        """Goes on from so many tokens of one row: `local` has their last segment already.

        Nothing is copied: `matrix` and `normaliser` are the memory's from now on.
        """
        self.memory.matrix, self.memory.normaliser = matrix, normaliser
        self.rows, self.length, self.is_initialized = 1, tokens, True

    def _before_rotary(self, states: torch.Tensor, begin: int) -> torch.Tensor:
        """States [batch, heads, tokens, channels] as they were before their positions came in."""
        if self.rotary is None:
            return states
        end = begin + states.shape[2]
        places = torch.arange(begin, end, device=states.device)[None]
        cos, sin = (part.float()[:, None] for part in self.rotary(states, places))
        first, second = states[..., : cos.shape[-1]].chunk(2, -1)
        turned = states[..., : cos.shape[-1]] * cos - torch.cat([-second, first], -1) * sin
        # Some embeddings scale as well.
        turned = turned / (cos**2 + sin**2)
        return torch.cat([turned, states[..., cos.shape[-1] :]], -1)

    def reset(self) -> None:
        """Forgets all tokens."""
        self.sequences.drop()
        self.local.reset()
        self.memory = CompressiveMemory(delta=self.memory.delta)
        self.is_initialized = self._awaits_attention = False
        self.rows = self.length = 0

    def fork(self) -> "NearKVInfiniLayer":
        """A layer that goes on from here on its own; the pages so far are shared."""
        other = copy.copy(self)
        sequences = self.sequences.fork(self.local.stored)
        other.local = self.local.fork(sequences, self.local.far)
        other.memory = copy.copy(self.memory)
        return other

    def select_rows(self, rows: Sequence[int]) -> None:
        """Makes row i what row rows[i] was."""
        if self.local.is_initialized:
            self.sequences.rearrange(rows, self.local.stored)
            self.local.select_rows(rows)
        self.memory.select_rows(rows)
        self.rows = len(rows)
