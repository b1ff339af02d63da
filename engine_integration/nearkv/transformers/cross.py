"""Cross-attention of encoder-decoder models: K and V of the input, written to a pool once."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import CacheLayerMixin

from nearkv.core import PAGE_TOKENS, Pool
from nearkv.far import FarAttention
from nearkv.transformers.far import Sequences
from nearkv.transformers.handover import expect_attention
from nearkv.transformers.layout import HeadLayout, layout_of, pool_dtype
from nearkv.transformers.pooled_cache import PooledCache, changed_rows
from nearkv.transformers.visible import ALL, NONE, seen_range, seen_whatever_asks


class NearKVCrossCache(PooledCache):
    """The second part of an EncoderDecoderCache: K and V of what the encoder gave.

    cache = EncoderDecoderCache(DynamicCache(), NearKVCrossCache(make_pool(model.config)))

    Whole pages of 64 tokens go to the pool with the first decoding step, and each later query goes
    to them; what is left over stays here. Rows of a batch that are alike, such as beams, are one
    sequence of the pool. The pages are given back by close(), at the end of a `with`, or with the
    object; caches may share a pool, that of the first part too. Padding may be on either side.
    Not thread-safe.
    """

    def __init__(
        self, pool: Pool, *, far: FarAttention | None = None, rounded: bool = False
    ) -> None:
        """`rounded`: a model of another dtype has K and V rounded to the pool's."""
        if not isinstance(layout_of(pool), HeadLayout):
            raise ValueError("cross-attention has K and V; the pool was made for latents")
        far = FarAttention.of(far, pool)
        sequences = Sequences(pool)
        options = (far, rounded)
        self._own(
            sequences,
            [NearKVCrossLayer(index, sequences, *options) for index in range(pool.layers)],
        )

    def _own(self, sequences: Sequences, layers: list["NearKVCrossLayer"]) -> None:
        self._hold(layers, sequences)
        self._sequences = sequences

    @property
    def pool(self) -> Pool:
        """Where the pages are."""
        return self._sequences.pool

    def reset(self) -> None:
        """Forgets the input. The EncoderDecoderCache around it has to be reset as well."""
        self._sequences.drop()
        super().reset()

    def crop(self, tokens_to_remove: int) -> None:
        """Does nothing: what is decoded is not here."""

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Makes row i of the batch what row indices[i] was."""
        if not (rows := changed_rows(indices, len(self._sequences.ids))):
            return
        self._sequences.select(rows)
        for layer in self.layers:
            layer.select_rows(rows)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats each row of the batch."""
        self.batch_select_indices(torch.arange(len(self._sequences.ids)).repeat_interleave(repeats))

    def __deepcopy__(self, memo: dict[int, Any]) -> "NearKVCrossCache":
        """A cache of its own, which shares the pages."""
        other = NearKVCrossCache.__new__(NearKVCrossCache)
        counts = self.layers[0].stored if self.layers else []
        sequences = self._sequences.fork(counts)
        other._own(sequences, [layer.fork(sequences) for layer in self.layers])
        return other


class NearKVCrossLayer(CacheLayerMixin):
    """One layer: row b's input has stored[b] tokens in the pool, and counts[b] here.

    The tokens here are those after the last whole page, from the first column on. Until the first
    attention, which brings the mask, all are here.
    """

    is_croppable = True
    is_compileable = False
    supports_early_init = False

    def __init__(self, index: int, sequences: Sequences, far: FarAttention, rounded: bool) -> None:
        self._sequences = sequences
        self.index, self.far, self.rounded = index, far, rounded
        self.layout = layout_of(sequences.pool)
        super().__init__()
        self.reset()

    @property
    def keys(self) -> torch.Tensor | None:
        """The keys here, which a model takes to attend to them."""
        if self._keys is not None:
            self._expect(self._keys, self._values)
        return self._keys

    @keys.setter
    def keys(self, keys: torch.Tensor | None) -> None:
        self._keys = keys

    @property
    def values(self) -> torch.Tensor | None:
        """The values here."""
        return self._values

    @values.setter
    def values(self, values: torch.Tensor | None) -> None:
        self._values = values

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Takes the dtype from the first tokens."""
        pool, given = self._sequences.pool, (key_states, value_states)
        dtype = pool_dtype(self.index, pool, self.layout, *given, rounded=self.rounded)
        self.dtype, self.device = dtype, key_states.device
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes the input's K and V [batch, heads, tokens, channels], once; gives them back."""
        if self.is_initialized:
            raise RuntimeError("the input's K and V are here already: reset() for another input")
        self.lazy_initialization(key_states, value_states)
        rows = (states.detach().to(self.dtype) for states in (key_states, value_states))
        self._keys, self._values = (states.to(key_states.dtype) for states in rows)
        self._expect(self._keys, self._values)
        return self._keys, self._values

    def _expect(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        if self._awaits_attention:
            raise RuntimeError(
                "the input was not attended to by NearKV: if that failed, reset() the cache, else "
                'first say model.set_attn_implementation("nearkv")'
            )
        self._awaits_attention = True
        expect_attention(self, keys, values)

    def holds_all(self) -> bool:
        """Whether all tokens are here, as they came."""
        return self._seen is None

    def cut_mask(self, mask: torch.Tensor | None) -> torch.Tensor | None:
        """The mask as it is."""
        return mask

    def mask_here(self, mask: torch.Tensor | None, queries: int) -> torch.Tensor | None:
        """Which of the columns here are tokens of a row; ValueError if the mask has changed."""
        if not torch.equal(seen_whatever_asks(mask, self._seen.shape), self._seen):
            raise ValueError("the mask of the encoder's input has changed")
        columns = torch.arange(self._keys.shape[2], device=self.device)
        if all(count == len(columns) for count in self.counts):
            return None
        here = columns < torch.tensor(self.counts, device=self.device)[:, None]
        return here[:, None, None].expand(-1, 1, queries, -1)

    def attend_far(
        self, query: torch.Tensor, mask: torch.Tensor | None, scale: float, soft_cap: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) in fp32 over the pool's part; query [batch, kv_heads, group, queries, dim]."""
        windows = torch.tensor([ALL if count else NONE for count in self.stored])
        windows = windows[:, None].expand(-1, query.shape[3])
        options = {"scale": scale, "soft_cap": soft_cap, **self.far.options()}
        return self._sequences.attend(self.index, query, windows, **options)

    def settle(
        self, mask: torch.Tensor | None, new_tokens: int, output: torch.Tensor | None = None
    ) -> None:
        """After attention; the first time, moves whole pages of what the mask shows to the pool."""
        if self._seen is None:
            self._store(seen_whatever_asks(mask, (len(self._keys), self._keys.shape[2])))
        self._awaits_attention = False

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Of no use: the mask is that of the encoder's input."""
        return self.get_seq_length(), 0

    def get_seq_length(self) -> int:
        """Columns of the input."""
        return 0 if self._seen is None else self._seen.shape[1]

    def get_max_length(self) -> int:
        """No maximum."""
        return -1

    def reset(self) -> None:
        """Forgets the input; the cache drops the sequences."""
        self._keys = self._values = self._seen = None
        self.is_initialized = self._awaits_attention = False
        self.stored: list[int] = []
        self.counts: list[int] = []

    def fork(self, sequences: Sequences) -> "NearKVCrossLayer":
        """This layer over other sequences, which share its pages; nothing here changes anymore."""
        other = copy.copy(self)
        other._sequences = sequences
        return other

    def select_rows(self, rows: Sequence[int]) -> None:
        """Makes row i what row rows[i] was."""
        index = torch.tensor(rows, device=self.device)
        self._keys, self._values = self._keys[index], self._values[index]
        self._seen = self._seen[index]
        self.stored = [self.stored[row] for row in rows]
        self.counts = [self.counts[row] for row in rows]

    def _store(self, seen: torch.Tensor) -> None:
        sequences = self._sequences
        if not sequences.ids:
            sequences.create_for(self._alike(seen))
        ranges = [seen_range(row) for row in seen]
        self.stored = [(end - begin) // PAGE_TOKENS * PAGE_TOKENS for begin, end in ranges]
        ends = [begin + count for (begin, _), count in zip(ranges, self.stored, strict=True)]
        self.counts = [end - stored for (_, end), stored in zip(ranges, ends, strict=True)]
        for row, sequence in enumerate(sequences.ids):
            if self.stored[row] and sequence not in sequences.ids[:row]:
                old = slice(ranges[row][0], ends[row])
                here = (states[row, :, old].to(self.dtype) for states in self._both())
                rows = self.layout.to_pool(*(states.cpu() for states in here))
                sequences.pool.append(sequence, self.index, *rows)
        self._keys, self._values = (self._left_over(states, ends) for states in self._both())
        self._seen = seen

    def _alike(self, seen: torch.Tensor) -> list[bool]:
        """Whether each row is what the one before it is."""
        parts = (*self._both(), seen)
        return [
            row > 0 and all(torch.equal(part[row], part[row - 1]) for part in parts)
            for row in range(len(seen))
        ]

    def _left_over(self, states: torch.Tensor, starts: list[int]) -> torch.Tensor:
        batch, heads, _, channels = states.shape
        here = states.new_zeros(batch, heads, max(self.counts), channels)
        for row, (start, count) in enumerate(zip(starts, self.counts, strict=True)):
            here[row, :, :count] = states[row, :, start : start + count]
        return here

    def _both(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._keys, self._values
