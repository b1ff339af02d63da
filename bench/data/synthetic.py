"""Long synthetic caches that resemble those of large models."""

import torch

from bench.data import KvSet

_TOPICS = 64
_TOPIC_TOKENS = 200  # mean length of a run about one topic
_OUTLIER_CHANNELS = 6
_TARGETS = 6  # keys that a query looks for
_ROPE_THETA = 5e5


def synthetic(tokens: int, rows: int, *, dim: int = 128, groups: int = 4, seed: int = 0) -> KvSet:
    """Lognormal channel scales, a few channels 6 to 10 times as large, runs about one topic, RoPE.

    Each query looks for six keys and a direction that all share; its logits have a standard
    deviation between 2.9 and 4.7.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    scales = torch.exp(0.7 * normal(dim))
    outliers = torch.randperm(dim, generator=generator)[:_OUTLIER_CHANNELS]
    scales[outliers] *= 6 + 4 * torch.rand(_OUTLIER_CHANNELS, generator=generator)
    topic_of = _topic_walk(tokens, generator)
    keys = (0.6 * normal(_TOPICS, dim)[topic_of] + 0.8 * normal(tokens, dim)) * scales
    keys = _rotate(keys).bfloat16()
    values = (0.6 * normal(_TOPICS, dim)[topic_of] + 0.8 * normal(tokens, dim)).bfloat16()

    shared = normal(dim)
    queries = torch.empty(groups, rows, dim)
    for group in range(groups):
        targets = torch.randint(tokens, (_TARGETS,), generator=generator)
        wanted = (keys[targets].float() / scales).sum(0)
        for row in range(rows):
            raw = (shared + 0.5 * wanted + 2 * normal(dim)) / scales
            spread = 2.9 + 1.8 * torch.rand((), generator=generator)
            logits = keys[:: max(1, tokens // 4096)].float() @ raw * dim**-0.5
            queries[group, row] = raw * spread / logits.std()
    return KvSet(f"synthetic_{tokens}", keys, values, queries.bfloat16())


def _topic_walk(tokens: int, generator: torch.Generator) -> torch.Tensor:
    changes = torch.rand(tokens, generator=generator) < 1 / _TOPIC_TOKENS
    topics = torch.randint(_TOPICS, (tokens,), generator=generator)
    return topics[torch.cummax(torch.where(changes, torch.arange(tokens), 0), 0).values]


def _rotate(rows: torch.Tensor) -> torch.Tensor:
    tokens, dim = rows.shape
    frequencies = _ROPE_THETA ** (-torch.arange(0, dim, 2) / dim)
    angles = torch.arange(tokens)[:, None] * frequencies
    first, second = rows.chunk(2, dim=1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=1)
