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

from dataclasses import dataclass

import numpy as np
import torch

from nearkv.core import MAX_TOP_K, PAGE_TOKENS, Device, Dtype, Pool, RowForm, Select

_TORCH_DTYPES = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16}


@dataclass
class _OpenPage:
    """A layer's newest tokens, too few for a page."""

    latents: torch.Tensor
    keys: torch.Tensor


class SparseLatents:
    """Latents and indexer keys of sequences, in two pools of one KV head. Not thread-safe.

    A layer's last tokens, up to 63, wait here for their page to fill; they are found and gathered
    like all others. Failures of a device or pool are `nearkv.core.Error`.
    """

    def __init__(self, latents: Pool, keys: Pool) -> None:
        """Takes two pools of the same layers; that of the keys has k_form RAW, both no values."""
        for name, pool in (("latents", latents), ("keys", keys)):
            if (pool.kv_heads, pool.v_form) != (1, RowForm.NONE):
                raise ValueError(f"{name}: a pool of one KV head and v_form NONE is wanted")
        if keys.k_form != RowForm.RAW:
            raise ValueError("keys: the indexer reads rows of k_form RAW")
        if latents.layers != keys.layers:
            raise ValueError(f"pools of {latents.layers} and {keys.layers} layers are not a pair")
        self.latents, self.keys = latents, keys
        self._open: dict[tuple[int, int], _OpenPage] = {}

    @classmethod
    def create(
        cls,
        latents: Device | str,
        keys: Device | str,
        *,
        layers: int,
        latent_dim: int = 576,
        value_dim: int = 512,
        key_dim: int = 128,
        max_sequences: int = 64,
    ) -> "SparseLatents":
        """Formats two devices, in bfloat16; what they held is lost.

        A latent's first `value_dim` channels are its value, so its pool can attend to it as well.
        """
        shape = {"layers": layers, "kv_heads": 1, "max_sequences": max_sequences}
        pools = []
        for device, head_dim, value, form in (
            (latents, latent_dim, value_dim, RowForm.DELTA4),
            (keys, key_dim, key_dim, RowForm.RAW),
        ):
            device = Device(device) if isinstance(device, str) else device
            forms = {"k_form": form, "v_form": RowForm.NONE}
            pools.append(Pool.create(device, head_dim=head_dim, value_dim=value, **forms, **shape))
        return cls(*pools)

    def create_sequence(self, sequence: int) -> None:
        """Makes an empty sequence."""
        self.latents.create_sequence(sequence)
        self.keys.create_sequence(sequence)
        for layer in range(self.latents.layers):
            dtypes = (_TORCH_DTYPES[Dtype(pool.dtype)] for pool in (self.latents, self.keys))
            dims = (self.latents.head_dim, self.keys.head_dim)
            empty = (torch.empty(0, dim, dtype=d) for dim, d in zip(dims, dtypes, strict=True))
            self._open[sequence, layer] = _OpenPage(*empty)

    def drop(self, sequence: int) -> None:
        """Forgets a sequence."""
        for layer in range(self.latents.layers):
            self._open.pop((sequence, layer), None)
        self.latents.drop(sequence)
        self.keys.drop(sequence)

    def tokens(self, sequence: int, layer: int) -> int:
        """Tokens of a layer."""
        return self.latents.tokens(sequence, layer) + len(self._tail(sequence, layer).keys)

    def append(self, sequence: int, layer: int, latents: torch.Tensor, keys: torch.Tensor) -> None:
        """Adds tokens of one layer: latents [tokens, latent_dim], indexer keys [tokens, key_dim].

        Both in the pools' dtype. On any error nothing has been added.
        """
        tail = self._tail(sequence, layer)
        if len(latents) != len(keys):
            raise ValueError(f"{len(latents)} latents and {len(keys)} keys are not of one run")
        for name, rows, kept in (("latents", latents, tail.latents), ("keys", keys, tail.keys)):
            if rows.dtype != kept.dtype or rows.shape[1:] != kept.shape[1:]:
                raise ValueError(
                    f"{name} are {rows.dtype} {list(rows.shape)}, "
                    f"not {kept.dtype} [tokens, {kept.shape[1]}]"
                )
        latents = torch.cat([tail.latents, latents.detach().cpu()])
        keys = torch.cat([tail.keys, keys.detach().cpu()])
        whole = len(keys) // PAGE_TOKENS * PAGE_TOKENS
        if whole:
            stored = self.latents.tokens(sequence, layer)
            missing = keys[self.keys.tokens(sequence, layer) - stored : whole]
            if len(missing):
                self.keys.append(sequence, layer, missing[None])
            self.latents.append(sequence, layer, latents[None, :whole])
        self._open[sequence, layer] = _OpenPage(latents[whole:].clone(), keys[whole:].clone())

    def select(
        self,
        sequence: int,
        layer: int,
        queries: torch.Tensor,
        weights: torch.Tensor,
        *,
        k: int,
    ) -> torch.Tensor:
        """The ids, int64, of the `k` best tokens (or all, if fewer) for one new token.

        By the sum over heads of weight * max(query key, 0), best first. queries [heads, key_dim]
        in bf16, fp16 or fp32, weights fp32 [heads]; a scale of the logits belongs to the weights.
        """
        if not 1 <= k <= MAX_TOP_K:
            raise ValueError(f"k is {k}; it must be from 1 to {MAX_TOP_K}")
        tail = self._tail(sequence, layer).keys
        queries, weights = queries.detach().cpu().contiguous(), weights.detach().float().cpu()
        first = self.latents.tokens(sequence, layer)
        ids = torch.arange(first, first + len(tail))
        scores = weights @ (queries.float() @ tail.float().T).relu()
        if first:
            # Keys may be ahead of the latents if these found no room.
            options = {"mode": Select.INDEXER, "weights": weights.contiguous(), "tokens": first}
            best, best_scores, counts = self.keys.top_k(sequence, layer, 0, queries, k, **options)
            found = int(counts[0])
            ids = torch.cat([torch.from_numpy(best[0, :found].astype(np.int64)), ids])
            scores = torch.cat([torch.from_numpy(best_scores[0, :found]), scores])
        return ids[scores.topk(min(k, len(ids))).indices]

    def rows(self, sequence: int, layer: int, ids: torch.Tensor) -> torch.Tensor:
        """The latents [ids, latent_dim] of chosen tokens, in the host's memory."""
        tail = self._tail(sequence, layer).latents
        first = self.latents.tokens(sequence, layer)
        gathered = torch.empty(len(ids), tail.shape[1], dtype=tail.dtype)
        stored = ids < first
        if stored.any():
            chosen = ids[stored].tolist()
            found, _ = self.latents.gather(sequence, layer, 0, chosen, values=False)
            gathered[stored] = torch.from_numpy(found).view(tail.dtype)
        gathered[~stored] = tail[ids[~stored] - first]
        return gathered

    def _tail(self, sequence: int, layer: int) -> _OpenPage:
        try:
            return self._open[sequence, layer]
        except KeyError:
            raise ValueError(f"no sequence {sequence} with a layer {layer} here") from None


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
