"""Gains of a pool's codes from a text, for K and V that come to it without their queries."""

from collections.abc import Sequence
from typing import Any

import torch

from nearkv.core import Pool
from nearkv.transformers.cache import NearKVCache


def learn_gains(model: Any, pool: Pool, tokens: Sequence[int]) -> None:
    """Has a model, whose attention is "nearkv", read some hundred tokens; no page of them stays.

    Before `NearKVCache.take` or `PrefixStates.prefill` fill a pool with codes: what they bring has
    no queries to learn from. All later pages of the pool have these gains; where there are gains
    already they stay. Raises ValueError if the tokens are too few, or the attention another one.
    """
    with NearKVCache(pool, config=model.config, rounded=True) as cache, torch.no_grad():
        text = torch.tensor([list(tokens)], device=model.device)
        model(text, past_key_values=cache, logits_to_keep=1)
    if any(pool.gains(layer, 0) is None for layer in range(pool.layers)):
        raise ValueError(
            f"no gains were learned from {len(tokens)} tokens: take 192 at least, and say "
            'model.set_attn_implementation("nearkv") first'
        )
