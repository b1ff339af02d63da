"""One layer of a cache for sparse attention: tokens in a store, and here what was picked."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from nearkv.near import attend_here
from nearkv.sparse import ResidentRows, SparseLatents
from nearkv.transformers.far import Sequences
from nearkv.transformers.handover import UNATTENDED, expect_attention
from nearkv.transformers.indexer import IndexerQuery, KeysElsewhere
from nearkv.transformers.layout import LatentLayout, pool_dtype
from nearkv.transformers.pooled_cache import PooledLayer
from nearkv.transformers.visible import all_pads, seen_counts


class NearKVSparseLayer(PooledLayer):
    """One layer: row b's tokens after pads[b] of padding are in the store.

    A step is update(), update_indexer() unless the layer takes another one's picks, attend().
    """

    is_croppable = True
    is_compileable = False
    supports_early_init = False

    def __init__(
        self,
        index: int,
        store: SparseLatents,
        sequences: Sequences,
        resident_tokens: int,
        rounded: bool,
    ) -> None:
        super().__init__()
        self.index, self.rounded, self.resident_tokens = index, rounded, resident_tokens
        self._store, self._sequences = store, sequences
        self.layout = LatentLayout(store.latents)
        self.reset()

    @property
    def stored(self) -> list[int]:
        """Tokens of each row in the store."""
        return [self.length - count for count in self.pads]

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Takes dtype and batch from the first tokens."""
        given = (self.layout, key_states, value_states)
        self.dtype = pool_dtype(self.index, self._store.latents, *given, rounded=self.rounded)
        self.device, self.pads = key_states.device, [0] * len(key_states)
        if not self._sequences.ids:
            self._sequences.create(len(key_states))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Notes latents and rotated channels [batch, 1, tokens, channels]; gives these back."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self._awaits_attention:
            raise RuntimeError(UNATTENDED)
        if len(key_states) != len(self.pads):
            raise ValueError(
                f"the cache holds {len(self.pads)} sequences, the input {len(key_states)}"
            )
        rows = [states.detach().to(self.dtype) for states in (key_states, value_states)]
        self._new = torch.cat(rows, -1)[:, 0]
        self.length += key_states.shape[2]
        seen = tuple(states.to(key_states.dtype) for states in rows)
        self._awaits_attention = True
        expect_attention(self, *seen)
        return seen

    def update_indexer(self, key_states: torch.Tensor) -> KeysElsewhere:
        """Notes the indexer's keys [batch, tokens, key_dim]; gives what stands for all so far."""
        self._new_keys = key_states.detach().to(self.dtype)
        return KeysElsewhere(self.length, lambda asked: self._pick(asked, key_states.dtype))

    def _pick(self, asked: IndexerQuery, dtype: torch.dtype) -> torch.Tensor:
        """Columns int64 [batch, queries, k] of the best tokens, -1 where there are not so many."""
        if self._is_prompt():
            return asked.answer_here(self._new_keys.to(dtype))
        mask = ~asked.hidden[:, None]
        self._take_up(mask)
        picked = torch.full((*asked.queries.shape[:2], asked.k), -1)
        # The indexer gives them in fp32, without more bits than its model has.
        queries, weights = asked.queries.to(dtype), asked.weights[:, :, 0] * asked.scale
        for row, counts in enumerate(seen_counts(mask, self.pads)):
            place = (self._sequences.ids[row], self.index)
            for query, count in enumerate(counts):
                best = torch.arange(count)
                if count > asked.k:
                    given = (queries[row, query], weights[row, query])
                    best = self._store.select(*place, *given, k=asked.k, tokens=count)
                picked[row, query, : len(best)] = best + self.pads[row]
        return picked.to(asked.queries.device)

    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor,
        *,
        indices: torch.Tensor,
        scaling: float,
        softcap: float | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """Output [batch, queries, heads, value_dim] over what was picked: columns [.., queries, k].

        key and value are of the new tokens, expanded; of others only what was picked is.
        """
        is_prompt = self._is_prompt()
        self._take_up(mask)
        if is_prompt:
            options |= {"scaling": scaling, "softcap": softcap}
            seen = only_picked(mask, indices)
            output, _ = sdpa_attention_forward(module, query, key, value, seen, **options)
        else:
            rows = [
                self._attend_row(module, row, query[row, None], picked, scaling, softcap or 0.0)
                for row, picked in enumerate(indices.cpu().long())
            ]
            output = torch.cat(rows).to(query.dtype).transpose(1, 2).contiguous()
        self._awaits_attention = False
        return output

    def _attend_row(
        self,
        module: torch.nn.Module,
        row: int,
        query: torch.Tensor,
        picked: torch.Tensor,
        scale: float,
        soft_cap: float,
    ) -> torch.Tensor:
        """Output [1, heads, queries, value_dim] in fp32 of a row's query of that shape."""
        ids = picked - self.pads[row]
        tokens = ids[picked >= 0].unique()
        latents = self._rows(self._sequences.ids[row], tokens).to(query.device)[None, None]
        mask = None
        if len(picked) > 1:
            places = torch.searchsorted(tokens, ids).masked_fill(picked < 0, len(tokens))
            mask = torch.zeros(len(picked), len(tokens) + 1, dtype=torch.bool)
            mask = mask.scatter(1, places, True)[None, None, :, :-1].to(query.device)
        far_query = self.layout.far_query(module, query)
        values = latents[..., : self.layout.value_dim]
        output, _ = attend_here(far_query, latents, values, mask, scale, soft_cap)
        return self.layout.far_output(module, output)

    def _rows(self, sequence: int, tokens: torch.Tensor) -> torch.Tensor:
        if len(tokens) > self.resident_tokens:
            return self._store.rows(sequence, self.index, tokens)
        if sequence not in self._resident:
            options = {"capacity": self.resident_tokens, "device": self.device}
            self._resident[sequence] = ResidentRows(self._store, sequence, self.index, **options)
        resident = self._resident[sequence]
        return resident.rows[resident.load(tokens)]

    def _is_prompt(self) -> bool:
        """Whether there is nothing but the new tokens."""
        return self._new is not None and self.length == self._new.shape[1]

    def _take_up(self, mask: torch.Tensor) -> None:
        """Adds the new tokens to the store, unless that was done in this step."""
        if self._new is None:
            return
        before, self.pads = self.pads, all_pads(mask, self.pads, self.length, self._new.shape[1])
        for row, sequence in enumerate(self._sequences.ids):
            first = self.pads[row] - before[row]
            keys = None if self._new_keys is None else self._new_keys[row, first:]
            self._store.append(sequence, self.index, self._new[row, first:], keys)
        self._new = self._new_keys = None

    def reset(self) -> None:
        """Forgets all tokens; the cache drops the sequences."""
        self.is_initialized = self._awaits_attention = False
        self.length = 0
        self.pads: list[int] = []
        self._new: torch.Tensor | None = None
        self._new_keys: torch.Tensor | None = None
        self._resident: dict[int, ResidentRows] = {}

    def fork(self, sequences: Sequences) -> "NearKVSparseLayer":
        """This layer over other sequences, which share its pages."""
        other = copy.copy(self)
        other.pads, other._sequences = list(self.pads), sequences
        other._resident = self._resident_of(self._sequences.ids, sequences.ids)
        return other

    def select_rows(self, rows: Sequence[int], before: list[int]) -> None:
        """Makes row i what row rows[i] was, of the sequences that were there before."""
        self.pads = [self.pads[row] for row in rows]
        sources = [before[row] for row in rows]
        self._resident = self._resident_of(sources, self._sequences.ids)

    def stored_without(self, removed: int) -> list[int]:
        """Tokens of each row that shorten() leaves in the store."""
        return [max(count - removed, 0) for count in self.stored]

    def shorten(self, removed: int) -> None:
        """Forgets the newest tokens; the cache cuts the sequences."""
        self.length -= removed
        self.pads = [min(count, self.length) for count in self.pads]
        self._resident = {}

    def _resident_of(self, sources: list[int], targets: list[int]) -> dict[int, ResidentRows]:
        """What is resident of sequences, for those that they become."""
        return {
            target: resident if target == source else resident.fork(target)
            for source, target in zip(sources, targets, strict=True)
            if (resident := self._resident.get(source))
        }


def only_picked(mask: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """A mask bool [batch, 1, queries, tokens] that shows but the columns [batch, queries, k]."""
    picked = torch.zeros_like(mask[:, 0]).scatter(-1, indices.long(), True)
    return mask & picked[:, None]
