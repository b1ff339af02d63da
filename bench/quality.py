"""Measures what an answer loses when only part of the cache is kept, by method and budget.

The shipped model in float32, or a checkpoint of the user's, reads a text with needles; each method
of the field cuts its cache to a share of the tokens; then the text goes on, and questions come that
the cut did not know of, or that the prompt had ended with, or that lead from one to the next. A few
methods cut the caches of small models of other shapes too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from bench import Context
from bench.kept.agents import measure_agents
from bench.kept.budgeted import budgeted
from bench.kept.claims import CLAIMS, SPECULATED
from bench.kept.costs import CostMeter
from bench.kept.figures import FEW, Measured
from bench.kept.measure import (
    GENERATED_TOKENS,
    Dense,
    Quality,
    decided_keeper,
    measure,
    measure_recall,
)
from bench.kept.methods import METHODS
from bench.kept.pooled import CODECS, Pooled, measure_pooled
from bench.kept.prefetch import prefetch
from bench.kept.shapes import ShapesPlan, measure_shapes
from bench.kept.tasks import Tasks
from nearkv.core import Codec
from nearkv.demo.runs import load_model
from nearkv.results import Result

_MODEL = Path(__file__).parents[1] / "engine_integration" / "models" / "recall_3m"


@dataclass(frozen=True)
class _Plan:
    """How much is measured. `lengths`: how many texts of so many tokens, for recall alone."""

    tokens: int = 4096
    texts: int = 3
    lengths: dict[int, int] = field(default_factory=lambda: {1024: 3, 2048: 3, 8192: 1})
    budgets: tuple[float, ...] = (0.03, 0.05, 0.10, 0.16, 0.20, 0.50)
    generated_tokens: int = GENERATED_TOKENS
    agents: int = 3
    agent_tokens: int = 1024
    shapes: ShapesPlan = field(default_factory=ShapesPlan)


_TINY = _Plan(384, 1, {256: 1}, (0.20,), 32, 2, 256, ShapesPlan(256, 1, (0.20,), ("h2o", "tail")))
_LONG = _Plan(
    16384,
    10,
    {2048: 10, 4096: 10, 8192: 10, 24576: 3},
    agents=6,
    agent_tokens=4096,
    shapes=ShapesPlan(4096, 10),
)


def run(context: Context) -> Iterator[Result]:
    """Yields the agents' and the prefetch's figures first, and all others at the end."""
    plan = _TINY if context.tiny else _LONG if context.long else _Plan()
    folder = context.model or _MODEL
    model, tokenizer = load_model(folder, "float32")
    if not (whole := budgeted(model.config).all):
        context.progress(f"{folder.name} keeps more than a budget cuts: none of a pool's retention")
    tasks = Tasks(tokenizer)
    measured = Measured(plan.budgets, context.device)
    measured.extra = {"texts": plan.texts, "tokens": plan.tokens, "model": folder.name}
    cases = [(name, budget) for name in METHODS for budget in plan.budgets]
    if not context.tiny:
        cases += [
            (claim.method, claim.budget)
            for claim in CLAIMS
            if (claim.method, claim.budget) not in cases
        ]
    try:
        codecs = CODECS if whole else ()
        yield from _measure(context, plan, model, tasks, cases, codecs, measured)
    except KeyboardInterrupt:
        if all(case in measured.kept for case in cases) and len(measured.dense.losses) > 1:
            yield from measured.results()
        raise
    yield from measured.results()
    if context.model is None:
        yield from measure_shapes(context, plan.shapes)


def _measure(
    context: Context,
    plan: _Plan,
    model: Any,
    tasks: Tasks,
    cases: list[tuple[str, float]],
    codecs: Sequence[Codec],
    measured: Measured,
) -> Iterator[Result]:
    yield from _agents(context, plan, model, tasks, measured.extra)
    for seed in range(plan.texts):
        context.progress(f"text {seed + 1} of {plan.texts}: reading {plan.tokens} tokens")
        dense = Dense(model, tasks.draw(seed, plan.tokens), plan.generated_tokens)
        measure(dense, None, 1.0, measured.dense)
        if seed == 0:
            yield from _prefetch(context, dense, measured.extra)
            _measure_costs(context, dense, cases, measured)
        for name, budget in cases:
            context.progress(f"text {seed + 1} of {plan.texts}, {name} at {budget:.3g}")
            quality = measured.kept.setdefault((name, budget), Quality())
            measure(dense, METHODS[name], budget, quality)
        for case in product(codecs, plan.budgets):
            codec, budget = case
            context.progress(f"text {seed + 1} of {plan.texts}, a pool's {codec.name} at {budget}")
            pooled = measured.pooled.setdefault(case, Pooled())
            measure_pooled(model, dense.task, context.device, codec, budget, pooled)
    for tokens, texts in plan.lengths.items():
        for seed in range(texts):
            dense = Dense(model, tasks.draw(100 + seed, tokens), 1)
            for name, method in METHODS.items():
                context.progress(f"{tokens} tokens, text {seed + 1} of {texts}, {name}")
                quality = measured.by_length.setdefault((name, tokens), Quality())
                measure_recall(dense, decided_keeper(dense, method, FEW), quality)


def _measure_costs(
    context: Context, dense: Dense, cases: list[tuple[str, float]], measured: Measured
) -> None:
    costs = CostMeter(dense, context.device)
    measured.dense_cost = costs.of(None, 1.0)
    for name, budget in cases:
        if METHODS[name].has_commands:
            context.progress(f"bytes and time of {name} at {budget:.3g}")
            measured.costs[name, budget] = costs.of(METHODS[name], budget)


def _agents(
    context: Context, plan: _Plan, model: Any, tasks: Tasks, extra: dict[str, Any]
) -> Iterator[Result]:
    context.progress(f"{plan.agents} agents: reading {plan.agent_tokens} tokens each")
    agents = [
        Dense(model, tasks.draw(200 + seed, plan.agent_tokens), 1) for seed in range(plan.agents)
    ]
    shared, alike = (measure_agents(agents, rule, FEW) for rule in ("workflow", "uniform"))
    extra = {**extra, "agents": plan.agents, "tokens": plan.agent_tokens, "budget": FEW}
    for name, value, equal in (
        ("next", shared.next, alike.next),
        ("early", shared.early, alike.early),
    ):
        yield Result(
            name=f"quality/workflow/recall_of_{name}",
            value=value,
            unit="of needles",
            device=context.device,
            extra={**extra, "equal_shares": equal},
            **({"peer": "equal shares", "peer_value": equal} if equal else {}),
        )


def _prefetch(context: Context, dense: Dense, extra: dict[str, Any]) -> Iterator[Result]:
    context.progress("prefetches along the output")
    top = prefetch(dense, 4, 4)
    yield Result(
        name="quality/prefetch/top_4_accuracy",
        value=top.accuracy,
        unit="of pages",
        peer="CXL-SpecKV's claim",
        peer_value=SPECULATED,
        extra=extra,
    )
    yield Result(
        name="quality/prefetch/8_for_the_top_4",
        value=prefetch(dense, 8, 4).coverage,
        unit="of pages",
        extra=extra,
    )
