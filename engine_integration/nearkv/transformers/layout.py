"""How a layer's tokens lie in a pool: K and V of each head, or one latent for all (MLA)."""

from typing import Protocol

import torch

from nearkv.core import Dtype, Pool, RowForm

TORCH_DTYPES = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16}


class Layout(Protocol):
    """What a layer caches, what a pool keeps of it, and which queries reach that."""

    names: str
    """Of the three numbers in `wanted`."""
    wanted: tuple[int, int, int]
    """Heads and channels of both tensors that the model caches."""
    value_dim: int
    """Channels of what the pool gives back."""

    def is_cached(self, key: torch.Tensor, kept: tuple[torch.Tensor, torch.Tensor]) -> bool:
        """Whether the keys that attention got come from what the cache gave the model."""

    def to_pool(
        self, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """What Pool.append takes of cached tokens [heads, tokens, channels]."""

    def from_pool(
        self, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The inverse, for rows [tokens, channels] of one head."""

    def far_query(self, module: torch.nn.Module, query: torch.Tensor) -> torch.Tensor:
        """A query [batch, heads, queries, channels] with heads as [kv_heads, group]."""

    def far_output(self, module: torch.nn.Module, output: torch.Tensor) -> torch.Tensor:
        """The pool's output, grouped so, as [batch, heads, queries, channels of a value]."""


class HeadLayout:
    """K and V per KV head."""

    names = "kv_heads, head_dim, value_dim"

    def __init__(self, pool: Pool) -> None:
        self.wanted = (pool.kv_heads, pool.head_dim, pool.value_dim)
        self.value_dim = pool.value_dim

    def is_cached(self, key: torch.Tensor, kept: tuple[torch.Tensor, torch.Tensor]) -> bool:
        """They are the same tensor."""
        return key is kept[0]

    def to_pool(
        self, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As they are."""
        return keys, values

    def from_pool(
        self, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As they are."""
        return keys, values

    def far_query(self, module: torch.nn.Module, query: torch.Tensor) -> torch.Tensor:
        """Query heads of a KV head lie together."""
        return query.unflatten(1, (self.wanted[0], -1))

    def far_output(self, module: torch.nn.Module, output: torch.Tensor) -> torch.Tensor:
        """One head after the other."""
        return output.flatten(1, 2)


class LatentLayout:
    """DeepSeek's MLA: one row for all heads, the latent and behind it the rotated channels.

    The latent is key and value at once, so a pool keeps no values. Queries are absorbed: a head's
    part of `kv_b_proj` that would expand the latents to keys goes onto the query, the part for
    values onto the output.
    """

    names = "heads, kv_lora_rank, qk_rope_head_dim"

    def __init__(self, pool: Pool) -> None:
        self.wanted = (1, pool.value_dim, pool.head_dim - pool.value_dim)
        self.value_dim = pool.value_dim

    def is_cached(self, key: torch.Tensor, kept: tuple[torch.Tensor, torch.Tensor]) -> bool:
        """The model expands the latents, but leaves the rotated channels as they are."""
        rotated = kept[1]
        return key.shape[2] == rotated.shape[2] and torch.equal(
            key[:, :1, -1, -self.wanted[2] :], rotated[:, :, -1]
        )

    def to_pool(
        self, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Both in one row."""
        return torch.cat([keys, values], -1), None

    def from_pool(
        self, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The two parts of a row."""
        return tuple(keys.split(self.wanted[1:], -1))

    def far_query(self, module: torch.nn.Module, query: torch.Tensor) -> torch.Tensor:
        """All heads are one group, each query through its head's expansion to keys."""
        to_keys, _ = self._expansion(module)
        plain, rotated = query.split([to_keys.shape[1], self.wanted[2]], -1)
        return torch.cat([plain @ to_keys, rotated], -1).unsqueeze(1)

    def far_output(self, module: torch.nn.Module, output: torch.Tensor) -> torch.Tensor:
        """Each head's latent through its expansion to values."""
        _, to_values = self._expansion(module)
        return output.squeeze(1) @ to_values.float().transpose(1, 2)

    def _expansion(self, module: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights [heads, channels, kv_lora_rank] to keys and to values."""
        per_head = (module.qk_nope_head_dim, module.v_head_dim)
        weights = module.kv_b_proj.weight.unflatten(0, (-1, sum(per_head)))
        return tuple(weights.split(per_head, 1))


def layout_of(pool: Pool) -> Layout:
    """The layout that a pool was made for."""
    return (LatentLayout if pool.v_form == RowForm.NONE else HeadLayout)(pool)


def pool_dtype(
    index: int,
    pool: Pool,
    layout: Layout,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    rounded: bool,
) -> torch.dtype:
    """The dtype of a pool for a layer's first tokens [batch, heads, tokens, channels].

    Raises ValueError for tokens that the pool was not made for; `rounded`: of another dtype it is.
    """
    dtype = TORCH_DTYPES[Dtype(pool.dtype)]
    given = (keys.shape[1], keys.shape[3], values.shape[3])
    if given != layout.wanted:
        raise ValueError(
            f"layer {index} has ({layout.names}) = {given}, but the pool was made for "
            f"{layout.wanted}; make it with make_pool(model.config)"
        )
    if keys.dtype != dtype and not rounded:
        raise ValueError(
            f"the model works in {keys.dtype}, the pool holds {dtype}: load it so, or have K and V "
            "rounded, by a cache with rounded=True"
        )
    return dtype
