"""Keys, values and queries that benches run on: made by rule, or taken from the shipped model."""

from dataclasses import dataclass

import torch

from nearkv.calibration import gains_from
from nearkv.core import PAGE_TOKENS, Device, Pool

_CALIBRATION_TOKENS = 4096


@dataclass(frozen=True)
class KvSet:
    """One KV head's bf16 keys and values [tokens, dim], and groups of queries that attend to them.

    queries: [groups, rows, dim] bf16.
    """

    name: str
    keys: torch.Tensor
    values: torch.Tensor
    queries: torch.Tensor

    @property
    def tokens(self) -> int:
        """Tokens of the set, whole pages."""
        return self.keys.shape[0]

    @property
    def scale(self) -> float:
        """What q k is multiplied by."""
        return self.keys.shape[1] ** -0.5


def device_uri(uri: str, memory: str, **options: object) -> str:
    """The URI with device memory and other options, each unless it states its own."""
    for option, value in ({"memory": memory} | options).items():
        if f"{option}=" not in uri:
            uri += f"{'&' if '?' in uri else '?'}{option}={value}"
    return uri


def pool_of(kv: KvSet, uri: str, **options: int) -> Pool:
    """A pool with the set as layer 0 of sequence 1. `options` are those of `Pool.create`."""
    pool = _empty_pool(kv, uri, **options)
    _append(pool, kv)
    return pool


def coded_pool_of(kv: KvSet, uri: str, **options: int) -> Pool:
    """The same, its pages with codes.

    Their gains come of the set's first tokens and of all groups of queries but the first, which is
    left to attend. Error UNSUPPORTED where the device has no codes.
    """
    pool = _empty_pool(kv, uri, codes=True, **options)
    pool.set_gains(0, 0, gains_from(kv.queries[1:], kv.keys[:_CALIBRATION_TOKENS]).numpy())
    _append(pool, kv)
    return pool


def _empty_pool(kv: KvSet, uri: str, **options: int) -> Pool:
    return Pool.create(
        Device(uri), layers=1, kv_heads=1, head_dim=kv.keys.shape[1], max_sequences=4, **options
    )


def _append(pool: Pool, kv: KvSet) -> None:
    pool.create_sequence(1)
    run = 1024 * PAGE_TOKENS
    for first in range(0, kv.tokens, run):
        pool.append(1, 0, kv.keys[None, first : first + run], kv.values[None, first : first + run])
