"""What lies far: the pool that fits a model, its sequences, and how they are attended to."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nearkv.core import MAX_HEAD_DIM, MAX_TOP_K, AttendMode, Device, Dtype, Error, Pool

_DTYPES = {torch.bfloat16: Dtype.BF16, torch.float16: Dtype.FP16}
_LAYER_TYPES = {"full_attention", "sliding_attention", "chunked_attention"}


@dataclass(frozen=True, kw_only=True)
class FarAttention:
    """How much of the pool an attention reads.

    DENSE reads every visible token and is exact. TAIL reads the best `top_k` tokens of each query
    exactly and the others at low precision. BOUNDED reads as much as keeps the relative error of
    the pool's part at `error` or below, by the device's own measure.
    """

    mode: AttendMode = AttendMode.DENSE
    top_k: int = 64
    error: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= MAX_TOP_K:
            raise ValueError(f"top_k is {self.top_k}; it must be from 1 to {MAX_TOP_K}")
        if not 0 < self.error <= 1:
            raise ValueError(f"error is {self.error}; it must be above 0 and at most 1")

    def options(self) -> dict[str, Any]:
        """Keyword arguments of Pool.attend."""
        return {"mode": self.mode, "top_k": self.top_k, "error": self.error, "seed": self.seed}


def make_pool(
    config: Any,
    device: Device | str = "cpu:",
    *,
    dtype: torch.dtype = torch.bfloat16,
    max_sequences: int = 64,
) -> Pool:
    """Formats a device for a model's K and V; what the device held is lost.

    `dtype` is what K and V are kept in, as a rule the model's. A row of a batch, or a beam, is one
    sequence of the pool. Raises ValueError for a model that does not fit, with what to do.
    """
    text = config.get_text_config(decoder=True)
    if dtype not in _DTYPES:
        raise ValueError(
            f"a pool holds bfloat16 or float16, not {dtype}: load the model so, or have K and V "
            "rounded: make_pool(config, dtype=torch.bfloat16), NearKVCache(pool, rounded=True)"
        )
    if others := set(getattr(text, "layer_types", None) or ()) - _LAYER_TYPES:
        raise ValueError(
            f"{text.model_type} has layers of {', '.join(sorted(others))}, which keep no K and V "
            "per token; use a model whose layers all attend"
        )
    if getattr(text, "num_kv_shared_layers", 0):
        raise ValueError(f"{text.model_type}'s layers share K and V; use a model where none does")
    heads = text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    if head_dim % 16 or head_dim > MAX_HEAD_DIM:
        raise ValueError(
            f"head_dim is {head_dim}; a pool holds multiples of 16 up to {MAX_HEAD_DIM}. "
            "Use a model with such heads"
        )
    return Pool.create(
        Device(device) if isinstance(device, str) else device,
        layers=text.num_hidden_layers,
        kv_heads=getattr(text, "num_key_value_heads", None) or heads,
        head_dim=head_dim,
        dtype=_DTYPES[dtype],
        max_sequences=max_sequences,
    )


class Sequences:
    """The sequences of a pool that one cache owns, one for each row of its batch."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.ids: list[int] = []

    def create(self, count: int) -> None:
        """Makes `count` empty sequences."""
        for _ in range(count):
            self.ids.append(self._fresh())
            self.pool.create_sequence(self.ids[-1])

    def rearrange(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        """Makes row i what row rows[i] was, `tokens[row]` long; rows that repeat share pages."""
        kept: list[int] = []
        for row in rows:
            source = self.ids[row]
            kept.append(self._fork(source, tokens[row]) if source in kept else source)
        self._keep(kept)

    def truncate(self, tokens: Sequence[int]) -> None:
        """Cuts row i to its first tokens[i] tokens, whole pages."""
        self._keep([self._fork(*pair) for pair in zip(self.ids, tokens, strict=True)])

    def fork(self, tokens: Sequence[int]) -> "Sequences":
        """Sequences that share these rows' first tokens."""
        copy = Sequences(self.pool)
        for source, shared in zip(self.ids, tokens, strict=True):
            copy.ids.append(copy._fork(source, shared))
        return copy

    def drop(self) -> None:
        """Gives all pages back."""
        self._keep([])

    def _fresh(self) -> int:
        # At random, because other caches, and processes before this one, use the same pool.
        return secrets.randbits(63)

    def _fork(self, source: int, tokens: int) -> int:
        child = self._fresh()
        self.pool.fork(source, child, tokens)
        return child

    def _keep(self, kept: list[int]) -> None:
        dropped = [source for source in self.ids if source not in kept]
        self.ids = kept
        for source in dropped:
            self.pool.drop(source)


def drop_quietly(sequences: Sequences) -> None:
    """Drops when nobody is left to tell of a failure."""
    try:
        sequences.drop()
    except Error:
        return
