"""One method on one task: loss, agreement with dense attention, and recall."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from transformers import DynamicCache

from bench.kept.attention import ATTENTION, TokenKeeper, kept_by
from bench.kept.budgeted import budgeted
from bench.kept.keepers import PolicyKeeper, SelectKeeper, Watcher
from bench.kept.methods import Method
from bench.kept.tasks import NeedleQuestion, Task

GENERATED_TOKENS = 128
_CHUNK_TOKENS = 512
_STEP_TOKENS = 16


@dataclass
class Quality:
    """What came out, task by task."""

    losses: list[float] = field(default_factory=list)
    divergences: list[float] = field(default_factory=list)
    agreements: list[float] = field(default_factory=list)
    recalled: list[list[bool]] = field(default_factory=list)
    """The question comes when the cache was cut already; by needle."""
    recalled_asked: list[list[bool]] = field(default_factory=list)
    """The prompt ends with the question."""
    hops: list[list[bool]] = field(default_factory=list)
    """Answers of a chain of questions in one text; by hop, no further than to the first miss."""
    same_tokens: list[int] = field(default_factory=list)
    """Of a long greedy output, before the first that dense attention would not have written."""
    drifts: list[float] = field(default_factory=list)
    """Divergence along dense attention's long output: its last quarter's less its first one's."""


class Dense:
    """A task's prompt, read once with all tokens, and what dense attention makes of the rest."""

    def __init__(self, model: Any, task: Task, generated_tokens: int = GENERATED_TOKENS) -> None:
        self.model, self.task = model, task
        model.set_attn_implementation(ATTENTION)
        self.budgeted = budgeted(model.config)
        self.watcher = Watcher(len(self.budgeted.layers))
        self.cache = DynamicCache(config=model.config)
        for begin in range(0, len(task.prompt), _CHUNK_TOKENS):
            self._run(self.cache, task.prompt[begin : begin + _CHUNK_TOKENS], self.watcher)
        self.log_shares = self.run(self.watcher.fork(), task.continued)
        self.generated = self._generate(task.continued[0], generated_tokens)
        self.generated_log_shares = self.run(self.watcher.fork(), self.generated)

    def run(self, keeper: TokenKeeper, tokens: list[int]) -> torch.Tensor:
        """Log probabilities behind each of the tokens, which follow the prompt; nothing stays."""
        parts, cache = [], self._fork()
        for begin in range(0, len(tokens), _STEP_TOKENS):
            parts.append(self._run(cache, tokens[begin : begin + _STEP_TOKENS], keeper))
            keeper.decide()
        return torch.cat(parts)

    @cached_property
    def asked(self) -> list[Watcher]:
        """What the queries of each question behind the prompt saw."""
        watchers = [self.watcher.fork() for _ in self.task.questions]
        for question, watcher in zip(self.task.questions, watchers, strict=True):
            self._run(self._fork(), question.asked, watcher)
        return watchers

    def _generate(self, first: int, count: int) -> list[int]:
        """The text's next token, and the likeliest ones behind it."""
        tokens, watcher, cache = [first], self.watcher.fork(), self._fork()
        for _ in range(count - 1):
            log_shares = self._run(cache, tokens[-1:], watcher)
            tokens.append(int(log_shares[-1].argmax()))
        self.generated_seen = watcher.seen
        return tokens

    def _fork(self) -> DynamicCache:
        """The prompt's cache, to go on from: windows and states cannot be cut back to it."""
        return copy.deepcopy(self.cache)

    def _run(self, cache: DynamicCache, tokens: list[int], keeper: TokenKeeper) -> torch.Tensor:
        with torch.no_grad(), kept_by(keeper, cache, self.budgeted):
            logits = self.model(torch.tensor([tokens]), past_key_values=cache).logits[0]
        return logits.float().log_softmax(-1)


def measure(dense: Dense, method: Method | None, budget: float, quality: Quality) -> None:
    """Adds one task's figures; without a method, those of dense attention."""
    keeper = measure_briefly(dense, method, budget, quality)
    _measure_drift(dense, keeper, quality)
    answered = _answers(dense, keeper.fork(), dense.task.chain)
    quality.hops.append([all(answered[: hop + 1]) for hop in range(len(answered))])


def measure_briefly(
    dense: Dense, method: Method | None, budget: float, quality: Quality
) -> TokenKeeper:
    """Adds one task's figures, but for hops and a long output; gives the keeper that decided."""
    learned = _keeper(dense, method, budget)
    keeper = _decided(learned)
    measure_said(
        dense.run(keeper.fork(), dense.task.continued), dense.log_shares, dense.task, quality
    )
    measure_recall(dense, keeper, quality)
    quality.recalled_asked.append(
        [
            _answers(dense, _decided(learned, asked), [question])[0]
            for question, asked in zip(dense.task.questions, dense.asked, strict=True)
        ]
    )
    return keeper


def measure_said(said: torch.Tensor, exact: torch.Tensor, task: Task, quality: Quality) -> None:
    """Adds what log probabilities of a task's continuation are worth, beside exact ones."""
    follows = torch.tensor(task.continued)[1:]
    quality.losses.append(float(F.nll_loss(said[:-1], follows)))
    quality.divergences.append(float(_apart(said, exact).mean()))
    quality.agreements.append(float((said.argmax(-1) == exact.argmax(-1)).float().mean()))


def measure_recall(dense: Dense, keeper: TokenKeeper, quality: Quality) -> None:
    """Adds what a keeper that has decided recalls of a task's needles."""
    quality.recalled.append(
        [_answers(dense, keeper.fork(), [question])[0] for question in dense.task.questions]
    )


def decided_keeper(dense: Dense, method: Method | None, budget: float) -> TokenKeeper:
    """One that knows the prompt and has cut its cache; without a method, keeps all."""
    return _decided(_keeper(dense, method, budget))


def _measure_drift(dense: Dense, keeper: TokenKeeper, quality: Quality) -> None:
    # Up to the first difference a run along dense attention's tokens is a run by itself.
    said = dense.run(keeper.fork(), dense.generated)
    same = (said.argmax(-1) == dense.generated_log_shares.argmax(-1)).int()
    quality.same_tokens.append(int(same.cumprod(0).sum()))
    apart = _apart(said, dense.generated_log_shares)
    quarter = len(apart) // 4
    quality.drifts.append(float(apart[-quarter:].mean() - apart[:quarter].mean()))


def _apart(said: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    return F.kl_div(said, exact, log_target=True, reduction="none").sum(-1)


def _keeper(dense: Dense, method: Method | None, budget: float) -> TokenKeeper:
    if method is None:
        return dense.watcher.fork()
    if method.select is not None:
        return SelectKeeper(method, budget, dense.watcher)
    return PolicyKeeper(method, budget, dense.watcher)


def _decided(learned: TokenKeeper, asked: Watcher | None = None) -> TokenKeeper:
    """One that has cut its cache, knowing a question or not."""
    keeper = learned.fork()
    if asked is not None:
        # The question itself is read again, but for what its queries told.
        before = keeper.tokens
        keeper.learn(asked)
        keeper = keeper.fork(before)
    keeper.decide()
    return keeper


def _answers(dense: Dense, keeper: TokenKeeper, questions: list[NeedleQuestion]) -> list[bool]:
    return answers(lambda tokens: dense.run(keeper, tokens), questions)


def answers(
    run: Callable[[list[int]], torch.Tensor], questions: Sequence[NeedleQuestion]
) -> list[bool]:
    """Whether greedy decoding gives each value, each token behind the right ones before it.

    `run` gives log probabilities behind each of the tokens that it is handed.
    """
    tokens: list[int] = []
    spans: list[range] = []
    for question in questions:
        tokens += question.asked + question.answer
        spans.append(range(len(tokens) - len(question.answer) - 1, len(tokens) - 1))
    said = run(tokens[:-1]).argmax(-1)
    return [
        said[span.start : span.stop].tolist() == question.answer
        for span, question in zip(spans, questions, strict=True)
    ]
