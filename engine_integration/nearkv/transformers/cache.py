"""A transformers cache that keeps recent tokens here and moves whole old pages to a pool."""

import copy
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from nearkv.core import PAGE_TOKENS, Dtype, Pool
from nearkv.transformers.far import FarAttention, Sequences, drop_quietly
from nearkv.transformers.visible import leading_pads

_TORCH_DTYPES = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16}


class NearKVLayer(CacheLayerMixin):
    """One layer: `keys` and `values` hold the tokens from `length - keys.shape[2]` on.

    Row b of the batch starts with pads[b] tokens of padding; the stored[b] tokens after them, whole
    pages, are in the pool. Rows differ, so a few of the tokens here may be in the pool as well.
    """

    is_croppable = True
    supports_early_init = False

    def __init__(
        self,
        index: int,
        sequences: Sequences,
        window_tokens: int,
        far: FarAttention,
        rounded: bool,
    ) -> None:
        super().__init__()
        self.index = index
        self.window_tokens = window_tokens
        self.far = far
        self.rounded = rounded
        self._sequences = sequences
        self.reset()

    @property
    def pool(self) -> Pool:
        """Where the old pages are."""
        return self._sequences.pool

    @property
    def value_dim(self) -> int:
        """Channels of a value."""
        return self.pool.value_dim

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Takes dtype and batch from the first tokens."""
        batch, kv_heads, _, head_dim = key_states.shape
        pool = self.pool
        dtype = _TORCH_DTYPES[Dtype(pool.dtype)]
        given = (kv_heads, head_dim, value_states.shape[-1])
        wanted = (pool.kv_heads, pool.head_dim, pool.value_dim)
        if given != wanted:
            raise ValueError(
                f"layer {self.index} has (kv_heads, head_dim, value_dim) = {given}, but the pool "
                f"was made for {wanted}; make it with make_pool(model.config)"
            )
        if key_states.dtype != dtype and not self.rounded:
            raise ValueError(
                f"the model works in {key_states.dtype}, the pool holds {dtype}: load it so, "
                "or have K and V rounded: NearKVCache(pool, rounded=True)"
            )
        self.dtype, self.device = dtype, key_states.device
        self.keys = key_states[:, :, :0].to(dtype)
        self.values = value_states[:, :, :0].to(dtype)
        self.pads, self.stored = [0] * batch, [0] * batch
        if not self._sequences.ids:
            self._sequences.create(batch)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Adds tokens [batch, kv_heads, tokens, dim]; gives what attention needs from here."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self._awaits_attention:
            raise RuntimeError(
                "the last tokens were not attended to by NearKV; before using a NearKVCache: "
                'model.set_attn_implementation("nearkv")'
            )
        if len(key_states) != len(self.stored):
            raise ValueError(
                f"the cache holds {len(self.stored)} sequences, the input {len(key_states)}"
            )
        self.keys = torch.cat([self.keys, key_states.detach().to(self.dtype)], 2)
        self.values = torch.cat([self.values, value_states.detach().to(self.dtype)], 2)
        self.length += key_states.shape[2]
        self._awaits_attention = True
        seen = self.keys.view_as(self.keys)
        seen.nearkv_layer = self  # How the attention function finds the pool.
        return seen, self.values

    def settle(self, mask: torch.Tensor | None, new_tokens: int) -> None:
        """After attention: moves whole pages older than the window to the pool."""
        self._awaits_attention = False
        before = self.length - new_tokens
        for row, count in enumerate(leading_pads(mask, len(self.pads), new_tokens)):
            if count and self.pads[row] < before:
                raise ValueError("padding after tokens; NearKV knows it only on the left")
            self.pads[row] += count
        start = self.length - self.keys.shape[2]
        for row, sequence in enumerate(self._sequences.ids):
            first = self.pads[row] + self.stored[row]
            pages = (self.length - self.window_tokens - first) // PAGE_TOKENS
            if pages > 0:
                old = slice(first - start, first - start + pages * PAGE_TOKENS)
                keys, values = self.keys[row, :, old], self.values[row, :, old]
                self.pool.append(sequence, self.index, keys.cpu(), values.cpu())
                self.stored[row] += pages * PAGE_TOKENS
        if moved := self._first_here() - start:
            self.keys = self.keys[:, :, moved:].clone()
            self.values = self.values[:, :, moved:].clone()

    def hide_stored(self, mask: torch.Tensor | None) -> torch.Tensor | None:
        """The part of a mask for the tokens here, without those that are in the pool as well."""
        first = self.length - self.keys.shape[2]
        here = None if mask is None else mask[..., first:]
        ends = [pads + stored for pads, stored in zip(self.pads, self.stored, strict=True)]
        if max(ends) <= first:
            return here
        columns = torch.arange(first, self.length, device=self.device)
        only_here = columns >= torch.tensor(ends, device=self.device)[:, None]
        only_here = only_here[:, None, None]
        return only_here if here is None else here & only_here

    def attend_stored(
        self,
        query: torch.Tensor,
        window: int,
        scale: float,
        soft_cap: float,
        row: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) in fp32 over the pool, one call for all rows and KV heads.

        query: [batch, kv_heads, group, queries, head_dim], or without batch for one row.
        """
        rows = query.flatten(-3, -2).contiguous().cpu()
        which = self._sequences.ids if row is None else self._sequences.ids[row]
        options = {"scale": scale, "window": window, "soft_cap": soft_cap, **self.far.options()}
        output, lse = self.pool.attend(which, self.index, rows, **options)
        return (
            torch.from_numpy(output).to(query.device).reshape(*query.shape[:-1], -1),
            torch.from_numpy(lse).to(query.device).reshape(query.shape[:-1]),
        )

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Masks cover the pool's tokens too."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Tokens here and in the pool."""
        return self.length

    def get_max_length(self) -> int:
        """No maximum."""
        return -1

    def reset(self) -> None:
        """Forgets all tokens; the cache drops the sequences."""
        self.keys = self.values = None
        self.is_initialized = False
        self._awaits_attention = False
        self.length = 0
        self.pads: list[int] = []
        self.stored: list[int] = []

    def fork(self, sequences: Sequences, far: FarAttention) -> "NearKVLayer":
        """This layer over other sequences, which share its pages."""
        other = copy.copy(self)
        other._sequences, other.far = sequences, far
        other.pads, other.stored = list(self.pads), list(self.stored)
        return other

    def select_rows(self, rows: Sequence[int]) -> None:
        """Makes row i what row rows[i] was."""
        index = torch.tensor(rows, device=self.device)
        self.keys, self.values = self.keys[index], self.values[index]
        self.pads = [self.pads[row] for row in rows]
        self.stored = [self.stored[row] for row in rows]

    def shorten(self, removed: int) -> None:
        """Forgets the newest tokens, and takes back from the pool what no whole page holds."""
        length = self.length - removed
        pads = [min(count, length) for count in self.pads]
        ends = [length - count for count in pads]  # What is left of each row.
        stored = [
            count if count <= end else end // PAGE_TOKENS * PAGE_TOKENS
            for count, end in zip(self.stored, ends, strict=True)
        ]
        old_first = self.length - self.keys.shape[2]
        first = min(old_first, *(p + s for p, s in zip(pads, stored, strict=True)))
        for name in ("keys", "values"):
            here = getattr(self, name)
            longer = here.new_zeros(*here.shape[:2], self.length - first, here.shape[3])
            longer[:, :, old_first - first :] = here
            setattr(self, name, longer)
        for row, (kept, count) in enumerate(zip(stored, self.stored, strict=True)):
            if kept < count:
                self._take_back(row, kept, ends[row], pads[row] + kept - first)
        self.keys = self.keys[:, :, : length - first].clone()
        self.values = self.values[:, :, : length - first].clone()
        self.length, self.pads, self.stored = length, pads, stored

    def _take_back(self, row: int, begin: int, end: int, column: int) -> None:
        for head in range(self.pool.kv_heads):
            sequence = self._sequences.ids[row]
            rows = self.pool.read(sequence, self.index, head, begin, end - begin)
            for here, stored in zip((self.keys, self.values), rows, strict=True):
                tokens = torch.from_numpy(stored).view(self.dtype)
                here[row, head, column : column + len(tokens)] = tokens

    def _first_here(self) -> int:
        return min(pads + stored for pads, stored in zip(self.pads, self.stored, strict=True))


class NearKVCache(Cache):
    """A cache for one batch. Pass it as `past_key_values` to a model whose attention is "nearkv".

    The newest `window_tokens` tokens (up to a page more) stay here; whole pages of 64 tokens
    before them go to `pool`, and every later query goes to them. The pages are given back by
    close(), at the end of a `with`, or with the object; several caches may share a pool. A prompt
    is attended to plainly, before its pages move. Batches, padding on the left, crop(), reset(),
    beams and copy.deepcopy work; sequences that come from one share pages. `rounded` lets a model
    of another dtype, such as float32, keep K and V in the pool's. Not thread-safe.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        window_tokens: int = 128,
        far: FarAttention | None = None,
        rounded: bool = False,
    ) -> None:
        if window_tokens < 1:
            raise ValueError(f"window_tokens is {window_tokens}; it must be at least 1")
        sequences, far = Sequences(pool), far or FarAttention()
        layers = range(pool.layers)
        self._own(
            sequences, [NearKVLayer(i, sequences, window_tokens, far, rounded) for i in layers]
        )

    def _own(self, sequences: Sequences, layers: list[NearKVLayer]) -> None:
        super().__init__(layers)
        self._sequences = sequences
        self._finalizer = weakref.finalize(self, drop_quietly, sequences)

    @property
    def pool(self) -> Pool:
        """Where the old pages are; its stats() tell what they cost."""
        return self._sequences.pool

    def close(self) -> None:
        """Gives all pages back to the pool."""
        self.reset()

    def __enter__(self) -> "NearKVCache":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def reset(self) -> None:
        """Forgets all tokens."""
        self._sequences.drop()
        super().reset()

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the newest tokens; the count is negative, as everywhere in transformers."""
        if tokens_to_remove > 0:
            raise ValueError(f"crop removes -n tokens; {tokens_to_remove} is positive")
        length = self.get_seq_length()
        if tokens_to_remove == 0 or length == 0:
            return
        if -tokens_to_remove >= length:
            self.reset()
            return
        before = self.layers[0].stored
        for layer in self.layers:
            layer.shorten(-tokens_to_remove)
        if self.layers[0].stored != before:
            self._sequences.truncate(self.layers[0].stored)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Makes row i of the batch what row beam_idx[i] was."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Makes row i of the batch what row indices[i] was."""
        rows = torch.arange(len(self._sequences.ids))[indices.cpu()].tolist()
        if not rows or rows == list(range(len(self._sequences.ids))):
            return
        self._sequences.rearrange(rows, self.layers[0].stored)
        for layer in self.layers:
            layer.select_rows(rows)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats each row of the batch."""
        self.batch_select_indices(torch.arange(len(self._sequences.ids)).repeat_interleave(repeats))

    def take(self, prompt: Cache) -> None:
        """Takes up the tokens, none of them padding, that another cache holds after a prompt.

        Raises ValueError if that cache kept but a sliding window of a layer.
        """
        for layer, source in zip(self.layers, prompt.layers, strict=True):
            if source.keys.shape[2] != source.get_seq_length():
                raise ValueError("the prompt's cache has forgotten tokens; use DynamicCache()")
            layer.update(source.keys, source.values)
            layer.settle(None, source.keys.shape[2])

    def fork(self, far: FarAttention | None = None) -> "NearKVCache":
        """A cache that goes on from here on its own; the pages so far are shared."""
        other = NearKVCache.__new__(NearKVCache)
        sequences = self._sequences.fork(self.layers[0].stored)
        other._own(sequences, [layer.fork(sequences, far or layer.far) for layer in self.layers])
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> "NearKVCache":
        return self.fork()
