"""Agents that run in turn, and whose caches share one budget by the steps until each runs again."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from bench.kept.measure import Dense, Quality, decided_keeper, measure_recall
from bench.kept.methods import METHODS
from nearkv.retention import HeadDemand, share

_METHOD = METHODS["r_kv"]


@dataclass(frozen=True)
class InTurn:
    """Needles recalled, as shares: of the agent that runs next, and of one that runs too early."""

    next: float
    early: float


def measure_agents(agents: Sequence[Dense], rule: str, budget: float) -> InTurn:
    """Each agent's text is cut by one method to its part of `budget`, a share of all tokens.

    The agents run one after the other; each is once the next.
    """
    of_next, of_early = [], []
    for first in range(len(agents)):
        steps = [(number - first) % len(agents) for number in range(len(agents))]
        for dense, step, part in zip(
            agents, steps, _parts(agents, steps, rule, budget), strict=True
        ):
            quality = Quality()
            measure_recall(dense, decided_keeper(dense, _METHOD, part), quality)
            (of_next if step == 0 else of_early).append(mean(quality.recalled[0]))
    return InTurn(mean(of_next), mean(of_early))


def _parts(agents: Sequence[Dense], steps: Sequence[int], rule: str, budget: float) -> list[float]:
    """Of each agent's own tokens, the share that it keeps."""
    demands, totals = [], []
    for dense, step in zip(agents, steps, strict=True):
        heads = [
            HeadDemand(len(dense.task.prompt), steps_to_next_use=step)
            for seen in dense.watcher.seen
            for _ in seen[0][0]
        ]
        demands += heads
        totals.append(len(heads) * len(dense.task.prompt))
    tokens = share(rule, demands, round(budget * sum(totals)))
    each = len(demands) // len(agents)
    return [
        sum(tokens[begin : begin + each]) / total
        for begin, total in zip(range(0, len(tokens), each), totals, strict=True)
    ]
