"""Gains of a pool's codes: learned from what an engine computes anyway, or kept in a file.

Every (layer, KV head) of a pool with codes has gains, which its first pages fix for all sequences.
They cost or save bytes and never change what an attention promises.

    learner = GainLearner(pool)
    learner.note(layer, queries)      # as the engine attends
    learner.settle(layer, keys)       # before pool.append(sequence, layer, keys, values)
    save_gains(pool, "gains.npz")     # for another pool of the same model: load_gains
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nearkv.calibration import gains_from
from nearkv.core import PAGE_TOKENS, Error, Pool, Status

ENOUGH_QUERIES = 256
"""So many tokens' queries tell a head's gains; fewer do too, but less well."""
_ARRAY = "gains"


@dataclass
class AskedQueries:
    """What the queries of a layer were, by KV head."""

    squares: torch.Tensor | float = 0.0
    """Sums [kv_heads, head_dim]."""
    rows: int = 0
    """Summed up for each KV head."""
    tokens: int = 0

    def note(self, queries: torch.Tensor, tokens: int) -> None:
        """Queries [kv_heads, rows, head_dim] of so many tokens."""
        self.squares += queries.detach().float().square().sum(1).cpu()
        self.rows += queries.shape[1]
        self.tokens += tokens

    @property
    def are_enough(self) -> bool:
        """Whether more queries would hardly tell more."""
        return self.tokens >= ENOUGH_QUERIES

    def gains(self, keys: torch.Tensor) -> torch.Tensor:
        """Gains int8 [kv_heads, head_dim] for keys [kv_heads, tokens, head_dim], a page or more.

        Some queries must have been noted.
        """
        asked = (self.squares / self.rows).sqrt()
        heads = zip(asked, keys, strict=True)
        return torch.stack([gains_from(of[None], own.cpu()) for of, own in heads])


class GainLearner:
    """Gives a pool's layers the gains that the queries before their first pages ask for.

    Of a pool without codes, and of layers that have gains, it wants nothing. One for each pool is
    enough; several may work on one, and the first page decides. Not thread-safe.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._unknown = set(range(pool.layers)) if pool.codes else set()
        self._seen: dict[int, AskedQueries] = {}

    def wants(self, layer: int) -> bool:
        """Whether a layer has no gains yet, so that its queries matter."""
        if layer in self._unknown and self._pool.gains(layer, 0) is not None:
            self._unknown.discard(layer)
            self._seen.pop(layer, None)
        return layer in self._unknown

    def note(self, layer: int, queries: torch.Tensor, tokens: int) -> None:
        """Queries [kv_heads, rows, head_dim] of so many tokens, as the pool is asked with them."""
        if self.wants(layer):
            self._seen.setdefault(layer, AskedQueries()).note(queries, tokens)

    def is_ready(self, layer: int) -> bool:
        """Whether more queries would hardly tell more, and a first page need not wait."""
        seen = self._seen.get(layer)
        return not self.wants(layer) or (seen is not None and seen.are_enough)

    def settle(self, layer: int, keys: torch.Tensor) -> None:
        """Before keys [kv_heads, tokens, head_dim] are appended: sets what was learned.

        Where no query was noted none are set, and the pool takes zeros.
        """
        if not self.wants(layer) or layer not in self._seen or keys.shape[1] < PAGE_TOKENS:
            return
        for head, gains in enumerate(self._seen[layer].gains(keys)):
            try:
                self._pool.set_gains(layer, head, gains.numpy())
            except Error as error:  # Another has appended a page meanwhile.
                if error.status != Status.EXISTS:
                    raise


def save_gains(pool: Pool, path: str | Path) -> None:
    """Writes a pool's gains, int8 [layers, kv_heads, head_dim], as `gains` of an .npz file.

    Raises ValueError while a layer has none.
    """
    heads = [
        pool.gains(layer, head) for layer in range(pool.layers) for head in range(pool.kv_heads)
    ]
    if any(gains is None for gains in heads):
        raise ValueError("a layer of the pool has no gains yet: have it attend to some text first")
    shape = (pool.layers, pool.kv_heads, pool.head_dim)
    np.savez(path, **{_ARRAY: np.stack(heads).reshape(shape)})


def load_gains(pool: Pool, path: str | Path) -> None:
    """Sets the gains of all heads from such a file.

    Raises ValueError for a file of another shape, Error EXISTS where pages have other gains.
    """
    gains = read_gains(path, (pool.layers, pool.kv_heads, pool.head_dim))
    for layer, heads in enumerate(gains):
        for head, of_head in enumerate(heads):
            pool.set_gains(layer, head, of_head)


def read_gains(path: str | Path, shape: tuple[int, int, int]) -> np.ndarray:
    """The gains int8 [layers, kv_heads, head_dim] of such a file.

    Raises ValueError for a file of another shape.
    """
    with np.load(path) as file:
        gains = file[_ARRAY] if _ARRAY in file else np.zeros(0)
    if gains.shape != shape or gains.dtype != np.int8:
        raise ValueError(
            f"{path} holds {gains.dtype} {list(gains.shape)} as `{_ARRAY}`; a pool of this model "
            f"needs int8 {list(shape)}, as save_gains() writes them"
        )
    return gains
