"""Keys, values and queries that benches run on: made by rule, or taken from the shipped model."""

from dataclasses import dataclass

import torch

from nearkv.core import PAGE_TOKENS, Device, Pool


@dataclass(frozen=True)
class KvSet:
    """One KV head's bf16 keys and values [tokens, dim], and groups of queries that attend to them.

    queries: [groups, rows, dim] bf16; `limits` are the tokens each group may see, whole pages.
    """

    name: str
    keys: torch.Tensor
    values: torch.Tensor
    queries: torch.Tensor
    limits: tuple[int, ...]

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
    pool = Pool.create(
        Device(uri), layers=1, kv_heads=1, head_dim=kv.keys.shape[1], max_sequences=4, **options
    )
    pool.create_sequence(1)
    run = 1024 * PAGE_TOKENS
    for first in range(0, kv.tokens, run):
        pool.append(1, 0, kv.keys[None, first : first + run], kv.values[None, first : first + run])
    return pool
