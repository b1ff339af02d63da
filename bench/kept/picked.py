"""A model whose own indexer picks what a query attends to (DSA), beside all that it could see."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from bench import Context
from bench.kept.figures import Measured
from bench.kept.measure import Quality, answers, measure_said
from bench.kept.tasks import Task, Tasks
from nearkv.demo.runs import load_model
from nearkv.results import Result
from nearkv.transformers import ATTENTION, NearKVSparseCache, make_sparse_latents

FIGURES = ("loss", "divergence", "agreement", "recall")
_METHOD = "indexer"
_PAPER = "DeepSeek-V3.2 (DSA), 2025"


class PickedReading:
    """A prompt in a store, read with so many picks for each query, of all layers' indexers."""

    def __init__(self, model: Any, task: Task, picks: int) -> None:
        """`picks` counts for all that comes after, too."""
        for layer in model.model.layers:
            layer.self_attn.indexer.index_topk = picks
        self._model = model
        size = f"cpu:?memory={16 + len(task.prompt) // 64}MiB"
        self._cache = NearKVSparseCache(make_sparse_latents(model.config, size, size), rounded=True)
        self._run(self._cache, task.prompt)

    def run(self, tokens: list[int]) -> torch.Tensor:
        """Log probabilities behind each of the tokens, which follow the prompt; nothing stays."""
        with closing(self._cache.fork()) as cache:
            return self._run(cache, tokens)

    def close(self) -> None:
        """Gives the store back."""
        self._cache.close()

    def _run(self, cache: NearKVSparseCache, tokens: list[int]) -> torch.Tensor:
        with torch.no_grad():
            logits = self._model(torch.tensor([tokens]), past_key_values=cache).logits[0]
        return logits.float().log_softmax(-1)


def measure_picked(
    context: Context, folder: Path, tokens: int, texts: int, budgets: tuple[float, ...]
) -> Iterator[Result]:
    """Yields the figures of a model in such a folder, at picks of these shares of the tokens."""
    model, tokenizer = load_model(folder, "float32")
    model.set_attn_implementation(ATTENTION)
    tasks = Tasks(tokenizer)
    measured = Measured(budgets, context.device, group=f"shapes/{folder.name}/")
    measured.extra = {"texts": texts, "tokens": tokens, "model": folder.name}
    measured.papers = {_METHOD: _PAPER}
    for seed in range(texts):
        task = tasks.draw(seed, tokens)
        everything = model.config.max_position_embeddings
        exact = _measure(model, task, everything, None, measured.dense)
        for budget in budgets:
            context.progress(f"{folder.name}, text {seed + 1} of {texts}, picks of {budget:.3g}")
            quality = measured.kept.setdefault((_METHOD, budget), Quality())
            _measure(model, task, round(budget * len(task.prompt)), exact, quality)
    yield from measured.brief_results(FIGURES)


def _measure(
    model: Any, task: Task, picks: int, exact: torch.Tensor | None, quality: Quality
) -> torch.Tensor:
    """Adds one task's figures; gives what was said of the text that goes on."""
    with closing(PickedReading(model, task, picks)) as reading:
        said = reading.run(task.continued)
        measure_said(said, said if exact is None else exact, task, quality)
        quality.recalled.append(
            [answers(reading.run, [question])[0] for question in task.questions]
        )
    return said
