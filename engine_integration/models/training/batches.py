"""Batches of training sequences with their position ids, as tensors."""

import random
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.long_context import skipping_positions
from training.schedule import Phase
from training.sequences import SequenceMaker

_KINDS = ("text", "copy", "needle")


@dataclass(frozen=True)
class Batch:
    """Sequences of one length, stacked: see `TrainingSequence` for the fields they share.

    `tokens` is (batch, length + 1), everything else (batch, length).
    """

    tokens: Tensor
    weights: Tensor
    sources: Tensor
    salient: Tensor
    positions: Tensor


def make_batch(
    tokenizer: Tokenizer, text: str, phase: Phase, position_limit: int, rng: random.Random
) -> Batch:
    """Draws the sequences of one step and places them below `position_limit`."""
    maker = SequenceMaker(tokenizer, text, phase.length)
    line_end = tokenizer.encode("\n").ids[0]
    kinds = rng.choices(_KINDS, phase.mix, k=phase.batch)
    sequences = [maker.make(kind, rng) for kind in kinds]
    positions = [
        skipping_positions(sequence.tokens[:-1], line_end, position_limit, rng)
        for sequence in sequences
    ]

    def stack(rows: list) -> Tensor:
        return torch.stack([torch.from_numpy(row) for row in rows])

    return Batch(
        tokens=stack([sequence.tokens for sequence in sequences]),
        weights=stack([sequence.weights for sequence in sequences]),
        sources=stack([sequence.sources for sequence in sequences]),
        salient=stack([sequence.salient for sequence in sequences]),
        positions=stack(positions),
    )
