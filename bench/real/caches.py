"""Other ways to keep K and V in fewer bits.

Each is written anew here as its makers describe it, in float arithmetic; none is their code.

- `q8_0`, `q4_0`: all rows, in ggml's blocks of 32 elements with an fp16 scale.
- `kivi_2`: 2 bits an element between the least and the greatest of its group, of 32 tokens of a
  channel for K and of 32 channels of a token for V; the last 128 tokens as they are (Liu et al.
  2024).
- `turboquant_3`: rows rotated at random, each element of a row of length one as the nearest of 8
  levels that suit a normal distribution best, and the row's length (Zandieh et al. 2025).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import NormalDist

import torch

_Q_BLOCK = 32
_KIVI_GROUP = 32
_KIVI_LAST_TOKENS = 128
_KIVI_BITS = 2
_TURBO_BITS = 3
_SCALE_BITS = 16
_BF16_BITS = 16
_ROTATION_SEED = 0
_LEVEL_STEPS = 200

Rows = torch.Tensor
"""[heads, tokens, dim]; of K and V apart."""


@dataclass(frozen=True)
class Cache:
    """A way to keep K and V: what is read back of them, float, and their bits an element."""

    keep: Callable[[Rows, Rows], tuple[Rows, Rows]]
    bits: Callable[[int], float]
    """By the row's dim; tokens that are kept as they are do not count."""

    def share(self, dim: int) -> float:
        """Of the bytes of rows in bf16."""
        return self.bits(dim) / _BF16_BITS


def q8_0(rows: Rows) -> Rows:
    """Rows as ggml's q8_0 keeps them."""
    blocks = rows.float().unflatten(-1, (-1, _Q_BLOCK))
    step = (blocks.abs().amax(-1, keepdim=True) / 127).half().float()
    return (torch.where(step > 0, (blocks / step).round(), 0) * step).flatten(-2)


def q4_0(rows: Rows) -> Rows:
    """Rows as ggml's q4_0 keeps them."""
    blocks = rows.float().unflatten(-1, (-1, _Q_BLOCK))
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    step = (largest / -8).half().float()
    cells = torch.where(step != 0, (blocks / step + 8.5).floor().clamp(0, 15) - 8, 0)
    return (cells * step).flatten(-2)


def _between(groups: torch.Tensor) -> torch.Tensor:
    """Numbers as the nearest of four between the least and the greatest of the last axis."""
    least = groups.amin(-1, keepdim=True).half().float()
    step = ((groups.amax(-1, keepdim=True) - least) / (2**_KIVI_BITS - 1)).half().float()
    cells = torch.where(step > 0, ((groups - least) / step).round(), 0)
    return cells.clamp(0, 2**_KIVI_BITS - 1) * step + least


def kivi_2(keys: Rows, values: Rows) -> tuple[Rows, Rows]:
    """K and V as KIVI keeps them; a group of tokens that is not whole stays as it is, too."""
    keys, values = keys.float().clone(), values.float().clone()
    old = max(0, keys.shape[-2] - _KIVI_LAST_TOKENS) // _KIVI_GROUP * _KIVI_GROUP
    by_channel = keys[..., :old, :].transpose(-1, -2).unflatten(-1, (-1, _KIVI_GROUP))
    keys[..., :old, :] = _between(by_channel).flatten(-2).transpose(-1, -2)
    by_token = values[..., :old, :].unflatten(-1, (-1, _KIVI_GROUP))
    values[..., :old, :] = _between(by_token).flatten(-2)
    return keys, values


@cache
def _levels() -> torch.Tensor:
    """The levels that lie nearest to a normal distribution on the whole, ascending (Lloyd, Max)."""
    normal = NormalDist()
    count = 2**_TURBO_BITS
    levels = [normal.inv_cdf((i + 0.5) / count) for i in range(count)]
    for _ in range(_LEVEL_STEPS):
        edges = [-9.0, *((a + b) / 2 for a, b in pairwise(levels)), 9.0]
        levels = [
            (normal.pdf(a) - normal.pdf(b)) / (normal.cdf(b) - normal.cdf(a))
            for a, b in pairwise(edges)
        ]
    return torch.tensor(levels)


@cache
def _rotation(dim: int) -> torch.Tensor:
    """A random rotation of rows."""
    numbers = torch.randn(dim, dim, generator=torch.Generator().manual_seed(_ROTATION_SEED))
    return torch.linalg.qr(numbers)[0]


def turboquant_3(rows: Rows) -> Rows:
    """Rows as TurboQuant keeps them."""
    dim = rows.shape[-1]
    lengths = rows.float().norm(dim=-1, keepdim=True).half().float()
    turned = rows.float() @ _rotation(dim) * dim**0.5 / lengths.clamp(min=1e-30)
    levels = _levels()
    edges = (levels[1:] + levels[:-1]) / 2
    kept = levels[torch.bucketize(turned.contiguous(), edges)]
    return kept * lengths / dim**0.5 @ _rotation(dim).T


def _each(keep: Callable[[Rows], Rows]) -> Callable[[Rows, Rows], tuple[Rows, Rows]]:
    return lambda keys, values: (keep(keys), keep(values))


CACHES = {
    "q8_0": Cache(_each(q8_0), lambda _: 8 + _SCALE_BITS / _Q_BLOCK),
    "q4_0": Cache(_each(q4_0), lambda _: 4 + _SCALE_BITS / _Q_BLOCK),
    "kivi_2": Cache(kivi_2, lambda _: _KIVI_BITS + 2 * _SCALE_BITS / _KIVI_GROUP),
    "turboquant_3": Cache(_each(turboquant_3), lambda dim: _TURBO_BITS + _SCALE_BITS / dim),
}
