"""What is trained on, in which order: phases counted in steps, never in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """Equal training steps.

    Each step takes `batch` sequences of `length` tokens, drawn as text, copy or needle sequences
    with the weights of `mix`. `dilution` bounds the dilution bias: up to that many times the
    number of sequences of this length that fill the context (0 turns the bias off).
    """

    steps: int
    batch: int
    length: int
    mix: tuple[float, float, float]
    dilution: float = 0.0
    offset_weight: float = 0.2
    offset_margin: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens that the whole phase trains on."""
        return self.steps * self.batch * self.length

    @property
    def cost(self) -> float:
        """Work of one step in arbitrary units: linear layers plus attention."""
        return self.batch * self.length * (1 + self.length / 3000)


@dataclass(frozen=True)
class Schedule:
    """Phases one after the other under one learning-rate curve."""

    phases: tuple[Phase, ...]
    warmup_steps: int = 40
    decay_from: float = 0.4
    final_rate: float = 0.03

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)

    @property
    def tokens(self) -> int:
        """Tokens of all phases."""
        return sum(phase.tokens for phase in self.phases)

    def phase_at(self, step: int) -> Phase:
        """The phase that a step (from 0) belongs to."""
        for phase in self.phases:
            if step < phase.steps:
                return phase
            step -= phase.steps
        raise IndexError("step past the end of the schedule")

    def rate_at(self, step: int) -> float:
        """Learning-rate factor: warm-up, plateau, then linear in work to `final_rate`."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        done = self.work_before(step) / self.work_before(self.steps)
        decay = (1 - done) / (1 - self.decay_from)
        return warm * max(self.final_rate, min(1.0, decay))

    def work_before(self, step: int) -> float:
        """Cost of all steps before `step`."""
        work = 0.0
        for phase in self.phases:
            here = min(step, phase.steps)
            work += here * phase.cost
            step -= here
        return work


RECALL_3M = Schedule(
    phases=(
        Phase(1400, batch=16, length=256, mix=(1, 2, 4)),
        Phase(1000, batch=8, length=512, mix=(1, 1, 3)),
        Phase(1000, batch=4, length=1024, mix=(2, 1, 3)),
        Phase(
            1200, batch=4, length=1024, mix=(2, 1, 3),
            dilution=1, offset_weight=0.4, offset_margin=1,
        ),
        Phase(
            1000, batch=2, length=2048, mix=(2, 1, 3),
            dilution=2, offset_weight=0.5, offset_margin=2,
        ),
        Phase(
            500, batch=1, length=4096, mix=(2, 1, 3),
            dilution=3, offset_weight=0.5, offset_margin=2,
        ),
    )
)  # fmt: skip
