"""Two ways to make a short training sequence stand for a long one.

Position skips (PoSE): position ids jump forward at line ends, so that every distance up to the
context limit occurs. Dilution: a long text has many more tokens that compete for attention; adding
ln(S) to the attention logits of ordinary tokens makes them weigh as if there were S times as many.
Both act in training only; the trained model is a plain Llama.
"""

import math
import random

import numpy as np
import torch
from torch import Tensor

_MOST_JUMPS = 6
# Keys this close are never diluted: a long text does not crowd its nearest tokens.
_UNDILUTED_TOKENS = 8


def skipping_positions(
    tokens: np.ndarray, line_end: int, limit: int, rng: random.Random
) -> np.ndarray:
    """Position ids below `limit` for one sequence, with up to six jumps right after line ends."""
    length = len(tokens)
    positions = np.arange(length)
    spare = limit - length
    if spare <= 0 or rng.random() < 0.1:
        return positions
    total = spare if rng.random() < 0.2 else int(spare * rng.random() ** 0.7)
    line_starts = np.flatnonzero(tokens[:-1] == line_end) + 1
    if len(line_starts) > 0:
        jumps = rng.randint(1, _MOST_JUMPS)
        where = sorted(int(rng.choice(line_starts)) for _ in range(jumps))
        reached = sorted(rng.randrange(total + 1) for _ in range(jumps))
        for start, skipped in zip(where, reached, strict=True):
            positions[start:] = np.arange(start, length) + skipped
    if rng.random() < 0.3:
        positions += rng.randrange(limit - int(positions[-1]))
    return positions


def draw_dilution(batch: int, most: float, generator: torch.Generator) -> Tensor:
    """Draws ln S (batch,): 15 % of them 0, 35 % ln `most`, the rest in between."""
    choice = torch.rand(batch, generator=generator)
    between = torch.rand(batch, generator=generator)
    share = torch.where(choice < 0.15, 0.0, torch.where(choice < 0.5, 1.0, between))
    return share * math.log(max(1.0, most))


def diluted_causal_mask(salient: Tensor, log_dilution: Tensor) -> Tensor:
    """Additive attention mask (batch, 1, tokens, tokens) with the dilution bias.

    `salient` (batch, tokens) marks the keys that are not diluted; `log_dilution` is (batch,).
    """
    tokens = torch.arange(salient.shape[1])
    distance = tokens[:, None] - tokens[None, :]
    diluted = (distance >= _UNDILUTED_TOKENS) & ~salient[:, None, :]
    bias = log_dilution[:, None, None] * diluted
    return bias.masked_fill(distance < 0, float("-inf"))[:, None]
