"""Some methods on small models of other shapes, each beside its own dense attention."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import Context
from bench.kept.figures import Measured
from bench.kept.measure import Dense, Quality, measure_briefly
from bench.kept.methods import METHODS
from bench.kept.picked import measure_picked
from bench.kept.tasks import Tasks
from nearkv.demo.runs import load_model
from nearkv.results import Result

_MODELS = Path(__file__).parents[2] / "engine_integration" / "models"
SHAPES = {
    "gqa": _MODELS / "recall_3m",
    "mha": _MODELS / "shapes" / "mha",
    "mqa": _MODELS / "shapes" / "mqa",
    "local_global": _MODELS / "shapes" / "local_global",
    "mla": _MODELS / "shapes" / "mla",
    "hybrid": _MODELS / "shapes" / "hybrid",
}
PICKING = _MODELS / "shapes" / "dsa"
"""Whose own indexer decides, so that no method does."""
SOME_METHODS = ("streaming_llm", "h2o", "r_kv", "top_k", "tail")


@dataclass(frozen=True)
class ShapesPlan:
    """How much is measured of each shape."""

    tokens: int = 1024
    texts: int = 3
    budgets: tuple[float, ...] = (0.05, 0.10, 0.20)
    methods: tuple[str, ...] = SOME_METHODS


def measure_shapes(context: Context, plan: ShapesPlan) -> Iterator[Result]:
    """Yields a shape's figures when it is measured."""
    for shape, folder in SHAPES.items():
        model, tokenizer = load_model(folder, "float32")
        tasks = Tasks(tokenizer)
        measured = Measured(plan.budgets, context.device, group=f"shapes/{shape}/")
        measured.extra = {"texts": plan.texts, "tokens": plan.tokens, "model": folder.name}
        for seed in range(plan.texts):
            context.progress(f"{shape}, text {seed + 1} of {plan.texts}: {plan.tokens} tokens")
            dense = Dense(model, tasks.draw(seed, plan.tokens), 1)
            measure_briefly(dense, None, 1.0, measured.dense)
            for name in plan.methods:
                for budget in plan.budgets:
                    context.progress(f"{shape}, text {seed + 1}, {name} at {budget:.3g}")
                    quality = measured.kept.setdefault((name, budget), Quality())
                    measure_briefly(dense, METHODS[name], budget, quality)
        yield from measured.brief_results()
    yield from measure_picked(context, PICKING, plan.tokens, plan.texts, plan.budgets)
