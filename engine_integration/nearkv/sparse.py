"""Sparse attention whose latents lie in a pool: pick tokens there, move only what is picked.

For models with DeepSeek's sparse attention (DSA), in any engine: all latents and all indexer keys
lie below; for a new token its indexer's queries and weights go down, the ids of the best tokens
come back, and of their latents those that the engine's resident buffer lacks.

    store = SparseLatents.create("cpu:?memory=4GiB", "cpu:?memory=1GiB", layers=61)
    store.create_sequence(7)
    resident = ResidentRows(store, 7, layer, capacity=4096)
    store.append(7, layer, latents, index_keys)             # as tokens come, any number
    ids = store.select(7, layer, index_queries, index_weights, k=2048)
    slots = resident.load(ids)                              # attend to resident.rows[slots]
"""

import copy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch

from nearkv.core import MAX_TOP_K, PAGE_TOKENS, Device, Dtype, Error, Pool, RowForm, Select

_TORCH_DTYPES = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16}


@dataclass
class _OpenPage:
    """A layer's newest tokens, too few for a page."""

    latents: torch.Tensor
    keys: torch.Tensor | None
    """None in a layer without an indexer; from further back if their pool had no room for them."""


class SparseLatents:
    """Latents and indexer keys of sequences, in two pools of one KV head. Not thread-safe.

    A layer's last tokens, up to 63, wait here for their page to fill; they are found and gathered
    like all others. Failures of a device or pool are `nearkv.core.Error`.
    """

    def __init__(
        self, latents: Pool, keys: Pool, *, index_layers: Sequence[int] | None = None
    ) -> None:
        """Takes a pool of all layers, and one of those with an indexer: `index_layers`, None: all.

        That of the keys has k_form RAW, both no values.
        """
        for name, pool in (("latents", latents), ("keys", keys)):
            if (pool.kv_heads, pool.v_form) != (1, RowForm.NONE):
                raise ValueError(f"{name}: a pool of one KV head and v_form NONE is wanted")
        if keys.k_form != RowForm.RAW:
            raise ValueError("keys: the indexer reads rows of k_form RAW")
        indexing = list(range(latents.layers) if index_layers is None else index_layers)
        if len(indexing) != keys.layers or not set(indexing) <= set(range(latents.layers)):
            raise ValueError(
                f"pools of {latents.layers} and {keys.layers} layers are not a pair for indexers "
                f"in layers {indexing}"
            )
        self.latents, self.keys = latents, keys
        self._key_layer = {layer: number for number, layer in enumerate(indexing)}
        self._open: dict[tuple[int, int], _OpenPage] = {}

    @classmethod
    def create(
        cls,
        latents: Device | str,
        keys: Device | str,
        *,
        layers: int,
        index_layers: Sequence[int] | None = None,
        latent_dim: int = 576,
        value_dim: int = 512,
        key_dim: int = 128,
        dtype: torch.dtype = torch.bfloat16,
        max_sequences: int = 64,
    ) -> "SparseLatents":
        """Formats two devices, in bfloat16 or float16; what they held is lost.

        A latent's first `value_dim` channels are its value, so its pool can attend to it as well.
        `index_layers` have an indexer; None: all layers.
        """
        kept = {known: name for name, known in _TORCH_DTYPES.items()}.get(dtype)
        if kept is None:
            raise ValueError(f"pools hold bfloat16 or float16, not {dtype}")
        shape = {"kv_heads": 1, "dtype": kept, "max_sequences": max_sequences}
        indexing = layers if index_layers is None else len(index_layers)
        pools = []
        for device, count, head_dim, value, form in (
            (latents, layers, latent_dim, value_dim, {}),
            (keys, indexing, key_dim, key_dim, {"k_form": RowForm.RAW}),
        ):
            device = Device(device) if isinstance(device, str) else device
            form |= {"v_form": RowForm.NONE, "layers": count}
            pools.append(Pool.create(device, head_dim=head_dim, value_dim=value, **form, **shape))
        return cls(*pools, index_layers=index_layers)

    def create_sequence(self, sequence: int) -> None:
        """Makes an empty sequence."""
        self.latents.create_sequence(sequence)
        self.keys.create_sequence(sequence)
        for layer in range(self.latents.layers):
            latents, keys = (
                torch.empty(0, pool.head_dim, dtype=_TORCH_DTYPES[Dtype(pool.dtype)])
                for pool in (self.latents, self.keys)
            )
            self._open[sequence, layer] = _OpenPage(
                latents, keys if layer in self._key_layer else None
            )

    def fork(self, sequence: int, child: int, tokens: int) -> None:
        """Makes `child` share the first `tokens` tokens of a sequence, which all its layers have.

        Whole pages are shared, what is behind them is copied; both may then go on alone. On any
        error nothing is left of the child; POOL_FULL also if keys still wait for room.
        """
        layers = range(self.latents.layers)
        if tokens > (have := min(self.tokens(sequence, layer) for layer in layers)):
            raise ValueError(f"tokens is {tokens}; all layers have {have}")
        for layer in self._key_layer:
            self._move_keys(sequence, layer)
        whole = tokens // PAGE_TOKENS * PAGE_TOKENS
        behind = torch.arange(whole, tokens)
        rows = {
            layer: _OpenPage(
                self.rows(sequence, layer, behind), self._index_keys(sequence, layer, behind)
            )
            for layer in layers
        }
        self.latents.fork(sequence, child, whole)
        try:
            self.keys.fork(sequence, child, whole)
        except Error:
            self.latents.drop(child)
            raise
        self._open |= {(child, layer): page for layer, page in rows.items()}

    def drop(self, sequence: int) -> None:
        """Forgets a sequence."""
        for layer in range(self.latents.layers):
            self._open.pop((sequence, layer), None)
        self.latents.drop(sequence)
        self.keys.drop(sequence)

    def tokens(self, sequence: int, layer: int) -> int:
        """Tokens of a layer."""
        return self.latents.tokens(sequence, layer) + len(self._tail(sequence, layer).latents)

    def append(
        self,
        sequence: int,
        layer: int,
        latents: torch.Tensor,
        keys: torch.Tensor | None = None,
    ) -> None:
        """Adds tokens of one layer: latents [tokens, latent_dim], indexer keys [tokens, key_dim].

        Both in the pools' dtype, no keys in a layer without an indexer. On any error nothing has
        been added. Keys that find no room wait here and are searched like the open page; until
        they have found some, no more tokens are taken.
        """
        tail = self._tail(sequence, layer)
        given = [("latents", latents, tail.latents)]
        if (keys is None) != (tail.keys is None):
            wanted = "no keys" if tail.keys is None else "keys"
            raise ValueError(f"layer {layer} takes {wanted}: see index_layers")
        if keys is not None:
            given.append(("keys", keys, tail.keys))
            if len(latents) != len(keys):
                raise ValueError(f"{len(latents)} latents and {len(keys)} keys are not of one run")
        for name, rows, kept in given:
            if rows.dtype != kept.dtype or rows.shape[1:] != kept.shape[1:]:
                raise ValueError(
                    f"{name} are {rows.dtype} {list(rows.shape)}, "
                    f"not {kept.dtype} [tokens, {kept.shape[1]}]"
                )
        if keys is not None:
            self._move_keys(sequence, layer)
            keys = torch.cat([tail.keys, keys.detach().cpu()])
        latents = torch.cat([tail.latents, latents.detach().cpu()])
        whole = len(latents) // PAGE_TOKENS * PAGE_TOKENS
        if whole:
            self.latents.append(sequence, layer, latents[None, :whole])
        tail.latents = latents[whole:].clone()
        if keys is not None:
            tail.keys = keys
            with suppress(Error):
                self._move_keys(sequence, layer)

    def select(
        self,
        sequence: int,
        layer: int,
        queries: torch.Tensor,
        weights: torch.Tensor,
        *,
        k: int,
        tokens: int | None = None,
    ) -> torch.Tensor:
        """The ids, int64, of the `k` best tokens (or all, if fewer) for one new token.

        By the sum over heads of weight * max(query key, 0), best first. queries [heads, key_dim]
        in bf16, fp16 or fp32, weights fp32 [heads]; a scale of the logits belongs to the weights.
        `tokens`: of the first so many only, as a token sees them that others came after.
        """
        if not 1 <= k <= MAX_TOP_K:
            raise ValueError(f"k is {k}; it must be from 1 to {MAX_TOP_K}")
        have = self.tokens(sequence, layer)
        tokens = have if tokens is None else tokens
        if not 0 <= tokens <= have:
            raise ValueError(f"tokens is {tokens}; layer {layer} has {have}")
        if (tail := self._tail(sequence, layer).keys) is None:
            raise ValueError(f"layer {layer} has no indexer: see index_layers")
        queries, weights = queries.detach().cpu().contiguous(), weights.detach().float().cpu()
        stored = self.keys.tokens(sequence, self._key_layer[layer])
        first, tail = min(stored, tokens), tail[: max(0, tokens - stored)]
        ids = torch.arange(first, tokens)
        scores = weights @ (queries.float() @ tail.float().T).relu()
        if first:
            place = (sequence, self._key_layer[layer], 0)
            options = {"mode": Select.INDEXER, "weights": weights.contiguous(), "tokens": first}
            best, best_scores, counts = self.keys.top_k(*place, queries, k, **options)
            found = int(counts[0])
            ids = torch.cat([torch.from_numpy(best[0, :found].astype(np.int64)), ids])
            scores = torch.cat([torch.from_numpy(best_scores[0, :found]), scores])
        return ids[scores.topk(min(k, len(ids))).indices]

    def rows(self, sequence: int, layer: int, ids: torch.Tensor) -> torch.Tensor:
        """The latents [ids, latent_dim] of chosen tokens, in the host's memory."""
        tail = self._tail(sequence, layer).latents
        first = self.latents.tokens(sequence, layer)
        return _gathered(self.latents, (sequence, layer, 0), first, tail, ids)

    def _index_keys(self, sequence: int, layer: int, ids: torch.Tensor) -> torch.Tensor | None:
        if (tail := self._tail(sequence, layer).keys) is None:
            return None
        place = (sequence, self._key_layer[layer], 0)
        return _gathered(self.keys, place, self.keys.tokens(*place[:2]), tail, ids)

    def _move_keys(self, sequence: int, layer: int) -> None:
        """Gives the pool the keys of all tokens whose latents are in theirs, or raises Error."""
        tail, number = self._tail(sequence, layer), self._key_layer[layer]
        missing = self.latents.tokens(sequence, layer) - self.keys.tokens(sequence, number)
        if missing:
            self.keys.append(sequence, number, tail.keys[None, :missing])
            tail.keys = tail.keys[missing:].clone()

    def _tail(self, sequence: int, layer: int) -> _OpenPage:
        try:
            return self._open[sequence, layer]
        except KeyError:
            raise ValueError(f"no sequence {sequence} with a layer {layer} here") from None


def _gathered(
    pool: Pool, place: tuple[int, int, int], first: int, tail: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """Rows of chosen tokens, of which those from `first` on are in `tail`."""
    rows = torch.empty(len(ids), tail.shape[1], dtype=tail.dtype)
    stored = ids < first
    if stored.any():
        found, _ = pool.gather(*place, ids[stored].tolist(), values=False)
        rows[stored] = torch.from_numpy(found).view(tail.dtype)
    rows[~stored] = tail[ids[~stored] - first]
    return rows


class ResidentRows:
    """The latents that an engine keeps at hand for one layer of a sequence. Not thread-safe.

    `rows` [capacity, latent_dim] is the buffer that attention reads; when it is full, what was not
    picked for longest makes room. `hits` and `misses` count tokens.
    """

    def __init__(
        self,
        store: SparseLatents,
        sequence: int,
        layer: int,
        *,
        capacity: int,
        device: torch.device | str = "cpu",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; it must be at least 1")
        self._source = (store, sequence, layer)
        dtype = _TORCH_DTYPES[Dtype(store.latents.dtype)]
        self.rows = torch.zeros(capacity, store.latents.head_dim, dtype=dtype, device=device)
        self.hits = self.misses = 0
        self._slot_of: dict[int, int] = {}
        self._token_in = np.full(capacity, -1)
        self._picked = np.zeros(capacity, np.int64)
        self._step = 0

    def fork(self, sequence: int) -> "ResidentRows":
        """The same rows for a sequence that shares all tokens so far; a copy."""
        other = copy.copy(self)
        store, _, layer = self._source
        other._source = (store, sequence, layer)
        other.rows, other._slot_of = self.rows.clone(), dict(self._slot_of)
        other._token_in, other._picked = self._token_in.copy(), self._picked.copy()
        other.hits = other.misses = 0
        return other

    def load(self, ids: torch.Tensor) -> torch.Tensor:
        """Makes these tokens resident; gives their slots, int64, in their order.

        Raises ValueError if there are more than fit.
        """
        if len(ids) > len(self.rows):
            raise ValueError(f"{len(ids)} tokens do not fit a capacity of {len(self.rows)}")
        self._step += 1
        tokens = ids.tolist()
        present = [self._slot_of[token] for token in tokens if token in self._slot_of]
        self._picked[present] = self._step
        missing = [token for token in dict.fromkeys(tokens) if token not in self._slot_of]
        self.hits += len(present)
        self.misses += len(missing)
        if missing:
            store, sequence, layer = self._source
            rows = store.rows(sequence, layer, torch.tensor(missing))
            slots = np.argsort(self._picked, kind="stable")[: len(missing)]
            for token in self._token_in[slots].tolist():
                self._slot_of.pop(token, None)
            self._token_in[slots], self._picked[slots] = missing, self._step
            self._slot_of.update(zip(missing, slots.tolist(), strict=True))
            self.rows[torch.from_numpy(slots).to(self.rows.device)] = rows.to(self.rows.device)
        return torch.tensor([self._slot_of[token] for token in tokens], device=self.rows.device)
