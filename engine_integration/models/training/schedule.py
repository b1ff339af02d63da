"""What is trained on, in which order: counted in steps, never in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """Steps that each take `batch` sequences of `length` tokens.

    `mix` weighs plain text, text with repeated spans, and text with needles.
    """

    steps: int
    batch: int
    length: int
    mix: tuple[float, float, float]

    @property
    def tokens(self) -> int:
        """Tokens that the whole phase trains on."""
        return self.steps * self.batch * self.length


@dataclass(frozen=True)
class Stage:
    """Phases under one learning-rate curve, with fresh optimizers.

    The bias of long_context.py makes a text count for up to `dilution` contexts (0: no bias).
    """

    phases: tuple[Phase, ...]
    rate: float = 1.0
    dilution: float = 0.0
    offset_weight: float = 0.2
    offset_margin: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens of all phases."""
        return sum(phase.tokens for phase in self.phases)

    def rate_at(self, step: int, tokens_done: int) -> float:
        """Learning-rate factor: warm-up over steps, plateau, then linear decay over tokens."""
        left = 1 - tokens_done / self.tokens
        return self.rate * min(1.0, (step + 1) / 20) * max(0.04, min(1.0, left / 0.5))


RECALL_3M = (
    Stage(
        (
            Phase(714, batch=8, length=256, mix=(1, 1, 4)),
            Phase(520, batch=4, length=512, mix=(1, 1, 3)),
            Phase(560, batch=2, length=1024, mix=(3, 1, 4)),
            Phase(235, batch=1, length=2048, mix=(4, 1, 4)),
            Phase(61, batch=1, length=4096, mix=(2, 0.5, 4)),
        )
    ),
    Stage(
        (Phase(673, batch=2, length=1024, mix=(1, 1, 4)),),
        rate=0.5, dilution=1, offset_weight=0.4, offset_margin=1,
    ),
    Stage(
        (Phase(211, batch=2, length=1024, mix=(2, 1, 4)),),
        rate=0.25, dilution=3, offset_weight=1.0, offset_margin=2,
    ),
)  # fmt: skip
