"""One layer of a cache: recent tokens here, whole old pages in a pool."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nearkv.core import PAGE_TOKENS, Pool
from nearkv.far import FarAttention
from nearkv.transformers.far import Sequences
from nearkv.transformers.handover import UNATTENDED, expect_attention
from nearkv.transformers.layout import layout_of, pool_dtype
from nearkv.transformers.pooled_cache import PooledLayer
from nearkv.transformers.visible import all_pads, causal_mask, far_windows

_LEARNED_QUERIES = 1024  # Newest tokens of a step, whose queries gains are learned from.


class NearKVLayer(PooledLayer):
    """One layer: `keys` and `values` hold the tokens from first_here() on.

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
        self.layout = layout_of(sequences.pool)
        self.reset()

    @property
    def sequences(self) -> Sequences:
        """Of the pool, one for each row."""
        return self._sequences

    @property
    def pool(self) -> Pool:
        """Where the old pages are."""
        return self._sequences.pool

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Takes dtype and batch from the first tokens."""
        given = (key_states, value_states)
        dtype = pool_dtype(self.index, self.pool, self.layout, *given, rounded=self.rounded)
        batch = len(key_states)
        self.dtype, self.device = dtype, key_states.device
        self.keys = key_states[:, :, :0].to(dtype)
        self.values = value_states[:, :, :0].to(dtype)
        self.pads, self.stored = [0] * batch, [0] * batch
        if not self._sequences.ids:
            self._sequences.create(batch)
        self.is_initialized = True

    def check_update(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Before each update; raises what is wrong with the tokens or with their order."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self._awaits_attention:
            raise RuntimeError(UNATTENDED)
        if len(key_states) != len(self.stored):
            raise ValueError(
                f"the cache holds {len(self.stored)} sequences, the input {len(key_states)}"
            )

    def expect_attention(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """What the model gets of an update goes to an attention function next."""
        self._awaits_attention = True
        expect_attention(self, keys, values)

    def fail(self) -> None:
        """Attention failed: nothing but reset() helps."""
        self._awaits_attention = True

    @torch.compiler.disable
    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Adds tokens [batch, heads, tokens, channels]; gives what attention needs from here."""
        self.check_update(key_states, value_states)
        self.keys = torch.cat([self.keys, key_states.detach().to(self.dtype)], 2)
        self.values = torch.cat([self.values, value_states.detach().to(self.dtype)], 2)
        self.length += key_states.shape[2]
        seen = (self.keys, self.values)
        if self.dtype != key_states.dtype:
            seen = (self.keys.to(key_states.dtype), self.values.to(key_states.dtype))
        self.expect_attention(*seen)
        return seen

    @torch.compiler.disable
    def settle(
        self, mask: torch.Tensor | None, new_tokens: int, output: torch.Tensor | None = None
    ) -> None:
        """After attention, which gave `output`: moves pages older than the window to the pool."""
        before = list(self.stored)
        if moved := self.store_old(self.keys, self.values, mask, new_tokens):
            self.keys = self.keys[:, :, moved:].clone()
            self.values = self.values[:, :, moved:].clone()
        if self.stored != before and self._asked:
            self._sequences.recall(self.index, *self._asked)
        self._asked = None
        self._awaits_attention = False

    def store_old(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
        new_tokens: int,
    ) -> int:
        """Stores pages of the tokens held here; says how many of them no row needs here anymore."""
        self.pads = all_pads(mask, self.pads, self.length, new_tokens)
        start = self.length - keys.shape[2]
        for row in range(len(self.stored)):
            first = self.pads[row] + self.stored[row]
            pages = (self.length - self.window_tokens - first) // PAGE_TOKENS
            if pages > 0:
                old = slice(first - start, first - start + pages * PAGE_TOKENS)
                rows = self.layout.to_pool(keys[row, :, old].cpu(), values[row, :, old].cpu())
                self._sequences.append(row, self.index, *rows)
                self.stored[row] += pages * PAGE_TOKENS
        return self.first_here() - start

    def holds_all(self) -> bool:
        """Whether no token is in the pool."""
        return not any(self.stored)

    def cut_mask(self, mask: torch.Tensor | None) -> torch.Tensor | None:
        """A mask without columns for tokens still to come."""
        return mask

    @torch.compiler.disable
    def mask_here(self, mask: torch.Tensor | None, queries: int) -> torch.Tensor | None:
        """The part of a mask for the tokens here, without those that are in the pool as well."""
        if mask is None and queries > 1:
            end = torch.tensor(self.length, device=self.device)
            mask = causal_mask(end, queries, self.length, len(self.pads))
        first = self.first_here()
        here = None if mask is None else mask[..., first:]
        ends = [pads + stored for pads, stored in zip(self.pads, self.stored, strict=True)]
        if max(ends) <= first:
            return here
        columns = torch.arange(first, self.length, device=self.device)
        only_here = columns >= torch.tensor(ends, device=self.device)[:, None]
        only_here = only_here[:, None, None]
        return only_here if here is None else here & only_here

    @torch.compiler.disable
    def attend_far(
        self, query: torch.Tensor, mask: torch.Tensor | None, scale: float, soft_cap: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) in fp32 over the pool's part; query [batch, kv_heads, group, queries, head_dim].

        `mask` is the whole one, its columns from the first token on.
        """
        windows = far_windows(mask, self.pads, self.stored, query.shape[3])
        self._recall(query, scale)
        options = {"scale": scale, "soft_cap": soft_cap, **self.far.options()}
        return self._sequences.attend(self.index, query, windows, **options)

    def note_query(
        self, module: torch.nn.Module, query: torch.Tensor, scaling: float | None
    ) -> None:
        """A step's [batch, heads, queries, head_dim], for a retention, and for gains to learn."""
        if torch.compiler.is_compiling():
            return  # Neither is for graphs: prompts come without one.
        if self._sequences.retention:
            scale = query.shape[-1] ** -0.5 if scaling is None else scaling
            self._asked = (self.layout.far_query(module, query), scale)
        learner = self._sequences.learner
        if learner and learner.wants(self.index):
            newest = query[:, :, -_LEARNED_QUERIES:]
            rows = self.layout.far_query(module, newest).transpose(0, 1).flatten(1, 3)
            learner.note(self.index, rows, newest.shape[2])

    def _recall(self, query: torch.Tensor, scale: float) -> None:
        retention = self._sequences.retention
        if retention and (query.shape[3] > 1 or self.length >= self._recall_at):
            self._recall_at = self.length + retention.recall_tokens
            self._sequences.recall(self.index, query, scale)

    def reset(self) -> None:
        """Forgets all tokens; the cache drops the sequences."""
        self.keys = self.values = None
        self.is_initialized = False
        self._awaits_attention = False
        self._asked: tuple[torch.Tensor, float] | None = None
        self._recall_at = 0  # The length from which a query asks cold pages, too.
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
        start = self.first_here()
        self.pads = [self.pads[row] for row in rows]
        self.stored = [self.stored[row] for row in rows]
        index, needed = torch.tensor(rows, device=self.device), self.first_here() - start
        self.keys, self.values = self.keys[index, :, needed:], self.values[index, :, needed:]

    def stored_without(self, removed: int) -> list[int]:
        """Tokens of each row that shorten() leaves in the pool."""
        ends = [max(self.length - removed - count, 0) for count in self.pads]
        return [
            count if count <= end else end // PAGE_TOKENS * PAGE_TOKENS
            for count, end in zip(self.stored, ends, strict=True)
        ]

    def shorten(self, removed: int) -> None:
        """Forgets the newest tokens, and takes back from the pool what no whole page holds."""
        length, stored = self.length - removed, self.stored_without(removed)
        pads = [min(count, length) for count in self.pads]
        ends = [length - count for count in pads]  # What is left of each row.
        old_first = self.first_here()
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
        self._recall_at = 0

    def rows(
        self, begin: int, end: int, row: int = 0, *, in_place: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens [begin, end) of a row as they were cached: two [heads, tokens, channels].

        Wherever they lie; in the pool's dtype, on the CPU. For batches without padding. `in_place`:
        a RAW pool's are read where they lie in this machine's memory.
        """
        stored, start = self.stored[row], self.first_here()
        parts = []
        if begin < stored:
            read = self._sequences.read_in_place if in_place else self._sequences.read
            parts.append(self._read_back(row, begin, min(end, stored), read))
        if end > stored or begin == end:
            here = slice(max(begin, stored) - start, end - start)
            parts.append((self.keys[row, :, here].cpu(), self.values[row, :, here].cpu()))
        keys, values = zip(*parts, strict=True)
        return torch.cat(keys, 1), torch.cat(values, 1)

    def _take_back(self, row: int, begin: int, end: int, column: int) -> None:
        back = self._read_back(row, begin, end, self._sequences.read)
        for here, tokens in zip((self.keys, self.values), back, strict=True):
            here[row, :, column : column + end - begin] = tokens

    def _read_back(
        self, row: int, begin: int, end: int, read: Callable[..., Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        heads = []
        for head in range(self.pool.kv_heads):
            rows = read(row, self.index, head, begin, end)
            rows = (torch.from_numpy(part).view(self.dtype) for part in rows)
            heads.append(self.layout.from_pool(*rows))
        keys, values = zip(*heads, strict=True)
        return torch.stack(keys), torch.stack(values)

    def first_here(self) -> int:
        """Where the tokens here start: at the first one that some row needs from here."""
        return min(pads + stored for pads, stored in zip(self.pads, self.stored, strict=True))
