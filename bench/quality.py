"""What methods that keep part of a cache cost in quality: loss, agreement, recall, by budget.

The shipped model in float32 reads a text with needles; each method of the field cuts its cache to a
share of the tokens; then the text goes on, and questions come that the cut did not know of, or that
the prompt had ended with.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from bench import Context
from bench.kept.measure import Dense, Quality, measure
from bench.kept.methods import METHODS
from bench.kept.tasks import Tasks
from nearkv.demo.runs import load_model
from nearkv.results import Result

_MODEL = Path(__file__).parents[1] / "engine_integration" / "models" / "recall_3m"


def run(context: Context) -> Iterator[Result]:
    """Yields dense attention's figures, then each method's at each budget, beside those."""
    model, tokenizer = load_model(_MODEL, "float32")
    tasks = Tasks(tokenizer)
    tokens, seeds = (512, 1) if context.tiny else (4096, 3)
    if context.long:
        tokens, seeds = 16384, 10
    budgets = (0.2,) if context.tiny else (0.03, 0.05, 0.10, 0.16, 0.20, 0.50)
    dense = Quality()
    qualities = {(name, budget): Quality() for name in METHODS for budget in budgets}
    for seed in range(seeds):
        task = tasks.draw(seed, tokens)
        read = Dense(model, task)
        measure(read, None, 1.0, dense)
        for (name, budget), quality in qualities.items():
            context.progress(f"text {seed + 1} of {seeds}, {name} at {budget:.0%}")
            measure(read, METHODS[name], budget, quality)
    extra = {"texts": seeds, "tokens": tokens}
    yield from _results("dense", dense, None, extra)
    for (name, budget), quality in qualities.items():
        told = extra | {"budget": budget, "paper": METHODS[name].paper}
        yield from _results(f"{name}/{round(100 * budget)}", quality, dense, told)


def _results(name: str, quality: Quality, dense: Quality | None, extra: dict) -> Iterator[Result]:
    figures = _figures(quality)
    beside = _figures(dense) if dense else {}
    for what, (readings, unit) in figures.items():
        dense_value = mean(beside[what][0]) if beside else 0.0
        peer = {"peer": "dense", "peer_value": dense_value} if dense_value else {}
        yield Result(
            name=f"quality/{name}/{what}",
            value=mean(readings),
            unit=unit,
            median=sorted(readings)[len(readings) // 2],
            minimum=min(readings),
            maximum=max(readings),
            extra=extra,
            **peer,
        )


def _figures(quality: Quality) -> dict[str, tuple[Sequence[float], str]]:
    return {
        "loss": (quality.losses, "nats a token"),
        "divergence": (quality.divergences, "nats a token"),
        "agreement": (quality.agreements, "of tokens"),
        "recall": ([mean(one) for one in quality.recalled], "of needles"),
        "recall_asked": ([mean(one) for one in quality.recalled_asked], "of needles"),
    }
