"""One method on one task: loss, agreement with dense attention, and recall."""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from transformers import DynamicCache

from bench.kept.attention import ATTENTION, Keeper, kept_by
from bench.kept.keepers import PolicyKeeper, SelectKeeper, Watcher
from bench.kept.methods import Method
from bench.kept.tasks import Question, Task

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


class Dense:
    """A task's prompt, read once with all tokens, and what dense attention makes of the rest."""

    def __init__(self, model: Any, task: Task) -> None:
        self.model, self.task = model, task
        model.set_attn_implementation(ATTENTION)
        self.watcher = Watcher(model.config.num_hidden_layers)
        self.cache = DynamicCache()
        for begin in range(0, len(task.prompt), _CHUNK_TOKENS):
            self._run(self.cache, task.prompt[begin : begin + _CHUNK_TOKENS], self.watcher)
        self.log_shares = self.run(self.watcher.fork(), task.continued)

    def run(self, keeper: Keeper, tokens: list[int]) -> torch.Tensor:
        """Log probabilities behind each of the tokens, which follow the prompt; nothing stays."""
        parts = []
        for begin in range(0, len(tokens), _STEP_TOKENS):
            parts.append(self._run(self.cache, tokens[begin : begin + _STEP_TOKENS], keeper))
            keeper.decide()
        self.cache.crop(-len(tokens))
        return torch.cat(parts)

    def asked(self, question: Question) -> Watcher:
        """What the queries of a question behind the prompt saw."""
        watcher = self.watcher.fork()
        self._run(self.cache, question.asked, watcher)
        self.cache.crop(-len(question.asked))
        return watcher

    def _run(self, cache: DynamicCache, tokens: list[int], keeper: Keeper) -> torch.Tensor:
        with torch.no_grad(), kept_by(keeper):
            logits = self.model(torch.tensor([tokens]), past_key_values=cache).logits[0]
        return logits.float().log_softmax(-1)


def measure(dense: Dense, method: Method | None, budget: float, quality: Quality) -> None:
    """Adds one task's figures; without a method, those of dense attention."""
    learned = _keeper(dense, method, budget)
    keeper = _decided(learned)
    said = dense.run(keeper.fork(), dense.task.continued)
    exact, follows = dense.log_shares, torch.tensor(dense.task.continued)[1:]
    quality.losses.append(float(F.nll_loss(said[:-1], follows)))
    apart = F.kl_div(said, exact, log_target=True, reduction="none").sum(-1).mean()
    quality.divergences.append(float(apart))
    quality.agreements.append(float((said.argmax(-1) == exact.argmax(-1)).float().mean()))
    quality.recalled.append(
        [_answers(dense, keeper.fork(), question) for question in dense.task.questions]
    )
    quality.recalled_asked.append(
        [
            _answers(dense, _decided(learned, dense.asked(question)), question)
            for question in dense.task.questions
        ]
    )


def _keeper(dense: Dense, method: Method | None, budget: float) -> Keeper:
    if method is None:
        return dense.watcher.fork()
    if method.select is not None:
        return SelectKeeper(method.select, budget, dense.watcher)
    return PolicyKeeper(method, budget, dense.watcher)


def _decided(learned: Keeper, asked: Watcher | None = None) -> Keeper:
    """One that has cut its cache, knowing a question or not."""
    keeper = learned.fork()
    if asked is not None:
        # The question itself is read again, but for what its queries told.
        before = keeper.tokens
        keeper.learn(asked)
        keeper = keeper.fork(before)
    keeper.decide()
    return keeper


def _answers(dense: Dense, keeper: Keeper, question: Question) -> bool:
    """Whether greedy decoding gives the value, each token behind the right ones before it."""
    said = dense.run(keeper, question.asked + question.answer[:-1]).argmax(-1)
    return said[len(question.asked) - 1 :].tolist() == question.answer
