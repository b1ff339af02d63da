"""Who decides what is kept: one that only watches, and one for each method."""

import numpy as np
import torch

from bench.kept.attention import Seen, TokenKeeper
from bench.kept.methods import Method
from bench.kept.selections import chosen
from nearkv.core import PAGE_TOKENS
from nearkv.retention import (
    HeadDemand,
    HeadStatistics,
    Kept,
    RetentionPolicy,
    key_sketches,
    retain,
    share,
)

WINDOW = 32
"""Last queries of a step that policies learn of; of a prompt's others, every so many-th."""


class Watcher:
    """Keeps all, and notes what the prompt's queries attended to, once for all methods."""

    demoted_planes = 2

    def __init__(self, layers: int) -> None:
        self.seen: list[list[tuple[torch.Tensor, Seen]]] = [[] for _ in range(layers)]
        self.queries: list[torch.Tensor] = [torch.empty(0)] * layers
        """The last one of each layer: [kv_heads, group, head_dim]."""

    @property
    def tokens(self) -> int:
        """That came while it watched."""
        return sum(keys.shape[1] for keys, _ in self.seen[0])

    def learn(self, prompt: TokenKeeper) -> None:
        """It keeps all anyway."""

    def decide(self) -> None:
        """To keep all."""

    def fork(self, tokens: int | None = None) -> "Watcher":
        """One that has seen nothing yet."""
        return Watcher(len(self.seen))

    def watched(self, queries: int, total: int) -> np.ndarray:
        """A sample, and the last window."""
        first = max(0, queries - WINDOW)
        # Whole windows before the last one, for policies that begin anew with each.
        return np.concatenate([np.arange(first % WINDOW, first, WINDOW), np.arange(first, queries)])

    def visible(self, layer: int, query: torch.Tensor, total: int) -> tuple[None, None]:
        """All."""
        self.queries[layer] = query[:, :, -1]
        return None, None

    def saw(self, layer: int, keys: torch.Tensor, seen: Seen) -> None:
        """Notes it."""
        self.seen[layer].append((keys, seen))


class PolicyKeeper:
    """One method on one prompt: policies of all heads, and what they keep."""

    demoted_planes = 2

    def __init__(self, method: Method, budget: float, prompt: Watcher) -> None:
        """`budget`: a share of the tokens that there are, over all heads together.

        Policies know the prompt then, and nothing is decided yet.
        """
        self._method, self._budget = method, budget
        heads = len(prompt.seen[0][0][0])
        self._policies = [
            [RetentionPolicy(method.policy, dict(method.parameters)) for _ in range(heads)]
            for _ in prompt.seen
        ]
        self._statistics = [
            [HeadStatistics(PAGE_TOKENS) for _ in range(heads)] for _ in prompt.seen
        ]
        self._gone = [[np.zeros(0, bool) for _ in range(heads)] for _ in prompt.seen]
        self.kept: list[list[np.ndarray]] = []
        self.learn(prompt)

    def learn(self, prompt: Watcher) -> None:
        """What more of the prompt was seen."""
        for layer, steps in enumerate(prompt.seen):
            for keys, seen in steps:
                self._learn(layer, keys, seen)

    def watched(self, queries: int, total: int) -> np.ndarray:
        """All of a step's."""
        return np.arange(queries)

    def visible(
        self, layer: int, query: torch.Tensor, total: int
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """What was decided; new tokens are seen exactly."""
        kept = np.stack([np.pad(one, (0, total - len(one))) for one in self.kept[layer]])
        exact = torch.from_numpy(kept == Kept.EXACT.value)[:, None]
        demoted = torch.from_numpy(kept == Kept.DEMOTED.value)[:, None]
        return exact, demoted if self._method.undo else None

    def saw(self, layer: int, keys: torch.Tensor, seen: Seen) -> None:
        """Policies learn of it."""
        self._learn(layer, keys, seen)

    def decide(self) -> None:
        """What is kept from now on. What is absent after it is gone for good."""
        method = self._method
        demands = [
            HeadDemand(policy.tokens, head.stability)
            for layer, policies in enumerate(self._policies)
            for policy, head in zip(policies, self._statistics[layer], strict=True)
        ]
        total = sum(policy.tokens for policies in self._policies for policy in policies)
        shares = iter(share(method.rule, demands, round(self._budget * total)))
        self.kept = []
        for policies, gone in zip(self._policies, self._gone, strict=True):
            self.kept.append([])
            for head, policy in enumerate(policies):
                room = next(shares)
                worth = policy.worth()
                worth[: len(gone[head])][gone[head]] = -np.inf
                kept, _ = retain(
                    worth,
                    exact_tokens=room,
                    demoted_tokens=len(worth) if method.undo else 0,
                    sinks=min(method.sinks, room // 2),
                    recent=round(method.recent_share * room),
                    grain=method.grain,
                )
                kept[: len(gone[head])][gone[head]] = Kept.ABSENT.value
                gone[head] = kept == Kept.ABSENT.value
                self.kept[-1].append(kept)

    def kept_share(self) -> float:
        """Of all tokens, those that are exact."""
        all_heads = [kept for layer in self.kept for kept in layer]
        return float(np.mean([np.mean(kept == Kept.EXACT.value) for kept in all_heads]))

    @property
    def tokens(self) -> int:
        """Of the sequence."""
        return self._policies[0][0].tokens

    def fork(self, tokens: int | None = None) -> "PolicyKeeper":
        """One that goes on from here by itself, with all that queries told of its tokens."""
        count = self.tokens if tokens is None else tokens
        other = PolicyKeeper.__new__(PolicyKeeper)
        other._method, other._budget = self._method, self._budget
        other._policies = [[one.fork(count) for one in layer] for layer in self._policies]
        other._statistics = [[one.fork() for one in layer] for layer in self._statistics]
        other._gone = [[one.copy() for one in layer] for layer in self._gone]
        other.kept = [[one.copy() for one in layer] for layer in self.kept]
        return other

    def _learn(self, layer: int, keys: torch.Tensor, seen: Seen) -> None:
        for head, policy in enumerate(self._policies[layer]):
            rows = keys[head].float().contiguous().numpy()
            policy.append(len(rows), key_sketches(rows) if policy.needs_key_sketches else None)
            for number, position in enumerate(seen.positions.tolist()):
                policy.observe(
                    self._statistics[layer][head],
                    position,
                    seen.ids[head, number],
                    seen.mass[head, number],
                    seen.counts[head, number],
                )


class SelectKeeper:
    """Nothing is evicted: each query row reads the tokens that are chosen for it."""

    demoted_planes = 2

    def __init__(self, method: Method, budget: float, prompt: Watcher) -> None:
        """It chooses among the prompt's whole pages; what follows them is always seen."""
        assert method.select is not None
        self._select, self._undo, self._budget = method.select, method.undo, budget
        self.tokens = prompt.tokens
        self._stored = self.tokens // PAGE_TOKENS * PAGE_TOKENS
        self._keys = [
            torch.cat([keys for keys, _ in steps], 1)[:, : self._stored].float()
            for steps in prompt.seen
        ]

    def watched(self, queries: int, total: int) -> np.ndarray:
        """None."""
        return np.zeros(0, int)

    def visible(
        self, layer: int, query: torch.Tensor, total: int
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Of each KV head the union of what its query rows select; and all behind the pool."""
        heads, group, queries, dim = query.shape
        exact = torch.ones(heads, queries, total, dtype=torch.bool)
        most = max(1, round(self._budget * self._stored / group))
        rows = query.reshape(heads, -1, dim).float()
        of_rows = chosen(self._select, rows, self._keys[layer], most)
        exact[..., : self._stored] = of_rows.view(heads, group, queries, -1).any(1)
        return exact, ~exact if self._undo else None

    def saw(self, layer: int, keys: torch.Tensor, seen: Seen) -> None:
        """Nothing to learn."""

    def decide(self) -> None:
        """Each query does."""

    def learn(self, prompt: Watcher) -> None:
        """Nothing to learn."""

    def fork(self, tokens: int | None = None) -> "SelectKeeper":
        """Itself: queries change nothing."""
        return self
