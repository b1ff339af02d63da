"""A sequence of a pool within a budget: what has no room is compressed, and comes back when asked.

retainer = Retainer(pool, 1, Retention(budget_tokens=1024))
retainer.append(0, keys)                 # beside pool.append(1, 0, keys, values)
retainer.ask(0, queries, scale=scale)    # what a query finds in all pages, cold ones too
retainer.settle(0)                       # pages worth least are cooled, those asked for warmed
pool.attend(1, 0, queries, scale=scale, cold=ColdPages.SKIP)
"""

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from nearkv.core import PAGE_TOKENS, Codec, ColdPages, Error, Pool, Status
from nearkv.retention import (
    HeadDemand,
    HeadStatistics,
    Kept,
    RetentionPolicy,
    key_sketches,
    masses,
    retain,
    share,
)

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How much of a sequence can be attended to in a pool, and what becomes of the rest.

    Of each (layer, KV head) whole pages of `budget_tokens` tokens on average stay: the first page,
    where there is room for another, then those worth most by `policy` of nearkv.retention, heads
    sharing by `rule`. The others are compressed into the codec `cold`: nothing is lost by
    PLANES_ZSTD and PLANES_LZ4; INT8, FP8 and INT4 keep fewer bits. Attention leaves them out; but
    every `recall_tokens` tokens a query asks them too, decoded near the data for its `top_k`
    tokens, and pages that it finds come back in place of others. `parameters` None: the policy's
    own, and for heavy_hitters a decay of 0.5, by which what was asked for last is worth most.
    """

    budget_tokens: int
    policy: str = "heavy_hitters"
    parameters: Mapping[str, float] | None = None
    rule: str = "uniform"
    cold: Codec = Codec.PLANES_ZSTD
    recall_tokens: int = 16
    top_k: int = 64

    def __post_init__(self) -> None:
        if self.budget_tokens < 0:
            raise ValueError(f"budget_tokens is {self.budget_tokens}; it must be at least 0")
        if self.recall_tokens < 1 or self.top_k < 1:
            raise ValueError("recall_tokens and top_k must be at least 1")
        if self.cold == Codec.NONE:
            raise ValueError("cold is Codec.NONE, which compresses nothing; take PLANES_ZSTD")
        self.make_policy()

    def make_policy(self) -> RetentionPolicy:
        """One that knows nothing yet. Error BAD_ARGUMENT lists names and parameters."""
        given = self.parameters
        if given is None:
            given = {"decay": 0.5} if self.policy == "heavy_hitters" else {}
        return RetentionPolicy(self.policy, dict(given))


class Moved(NamedTuple):
    """Pages that a decision moved."""

    cooled: int = 0
    warmed: int = 0
    refused: int = 0
    """That should have come back, and for which the pool had no room: they stay cold."""


class Retainer:
    """Keeps one sequence of a pool within a Retention. Not thread-safe.

    The pool keeps all pages whatever happens here; one that a fork shares is not cooled.
    """

    def __init__(self, pool: Pool, sequence: int, retention: Retention) -> None:
        self.pool, self.sequence, self.retention = pool, sequence, retention
        self._pinned: set[int] = set()
        self._policies, self._statistics = self._know_nothing()

    def append(self, layer: int, keys: Any) -> None:
        """Tokens came to the pool's sequence: keys [kv_heads, tokens, head_dim], a torch tensor."""
        for head, policy in enumerate(self._policies[layer]):
            sketches = None
            if policy.needs_key_sketches:
                sketches = key_sketches(keys[head].float().contiguous().numpy())
            policy.append(keys.shape[1], sketches)

    def pin(self, tokens: Collection[int]) -> None:
        """Tokens whose pages stay whatever they are worth; replaces those pinned before."""
        self._pinned = set(tokens)

    def ask(self, layer: int, queries: Any, *, scale: float) -> None:
        """A torch query [kv_heads, rows, head_dim] of all pages; what it finds counts from then on.

        Queries of several tokens come together, as more rows.
        """
        tokens = self._policies[layer][0].tokens
        if tokens == 0:
            return
        queries = queries.contiguous()
        options = {"scale": scale, "cold": ColdPages.DECODE}
        _, lse = self.pool.attend(self.sequence, layer, queries, **options)
        for head, policy in enumerate(self._policies[layer]):
            ids, scores, counts = self.pool.top_k(
                self.sequence, layer, head, queries[head], self.retention.top_k, **options
            )
            shares = masses(scores, np.asarray(lse[head]), counts)
            policy.observe(self._statistics[layer][head], tokens - 1, ids, shares, counts)

    def settle(self, layer: int) -> Moved:
        """Moves pages of a layer so that each head is within its share of the budget.

        Error UNSUPPORTED if the device does not offer the codec, POOL_FULL if it has no room to
        compress into; nothing is lost then.
        """
        moved = Moved()
        for head, room in enumerate(self._shares(layer)):
            policy = self._policies[layer][head]
            kept, _ = retain(
                policy.worth(),
                exact_tokens=room,
                demoted_tokens=policy.tokens,
                sinks=1 if room >= 2 * PAGE_TOKENS else 0,
                grain=PAGE_TOKENS,
                pinned=[token for token in self._pinned if token < policy.tokens],
            )
            moved = Moved(*map(sum, zip(moved, self._move(layer, head, kept), strict=True)))
        return moved

    def exact_tokens(self, layer: int, kv_head: int) -> int:
        """Tokens of pages that are not cold."""
        codecs = self.pool.codecs(self.sequence, layer, kv_head)
        return PAGE_TOKENS * codecs.count(Codec.NONE)

    def fork(self, sequence: int, tokens: int) -> "Retainer":
        """One for a fork of the sequence at `tokens`, with all that queries told of these."""
        other = Retainer(self.pool, sequence, self.retention)
        other._pinned = {token for token in self._pinned if token < tokens}
        other._policies = [[one.fork(tokens) for one in layer] for layer in self._policies]
        other._statistics = [[one.fork() for one in layer] for layer in self._statistics]
        return other

    def save(self) -> bytes:
        """All that queries told, for restore() after a restart."""
        heads = chain(*self._policies, *self._statistics)
        parts = [one.save() for one in heads]
        return b"".join(_LENGTH.pack(len(part)) + part for part in parts)

    def restore(self, saved: bytes) -> None:
        """Takes up what a Retainer of the same pool and Retention saved.

        ValueError or Error BAD_ARGUMENT, and no change, for anything else.
        """
        policies, statistics = self._know_nothing()
        for one in chain(*policies, *statistics):
            length = _LENGTH.unpack_from(saved)[0] if len(saved) >= _LENGTH.size else len(saved)
            part, saved = saved[_LENGTH.size :][:length], saved[_LENGTH.size + length :]
            one.restore(part)
        if saved:
            raise ValueError("this is of a retainer with more layers or heads")
        self._policies, self._statistics = policies, statistics

    def _know_nothing(self) -> tuple[list[list[RetentionPolicy]], list[list[HeadStatistics]]]:
        layers, heads = range(self.pool.layers), range(self.pool.kv_heads)
        policies = [[self.retention.make_policy() for _ in heads] for _ in layers]
        return policies, [[HeadStatistics(PAGE_TOKENS) for _ in heads] for _ in layers]

    def _shares(self, layer: int) -> list[int]:
        """Tokens of a layer's heads; layers that have none yet take no part."""
        demands = [
            HeadDemand(policy.tokens, head.stability)
            for number, policies in enumerate(self._policies)
            for policy, head in zip(policies, self._statistics[number], strict=True)
        ]
        there = sum(policy.tokens > 0 for policy in chain(*self._policies))
        shares = share(self.retention.rule, demands, self.retention.budget_tokens * there)
        heads = self.pool.kv_heads
        return shares[layer * heads : (layer + 1) * heads]

    def _move(self, layer: int, head: int, kept: np.ndarray) -> Moved:
        wanted = kept[::PAGE_TOKENS] == Kept.EXACT.value
        is_warm = np.array(self.pool.codecs(self.sequence, layer, head)) == Codec.NONE
        place = (self.sequence, layer, head)
        too_many = np.flatnonzero(~wanted & is_warm).tolist()
        cooled = self.pool.transcode_pages(*place, too_many, self.retention.cold)
        missed = np.flatnonzero(wanted & ~is_warm).tolist()
        try:
            return Moved(cooled, self.pool.transcode_pages(*place, missed, Codec.NONE))
        except Error as error:
            if error.status != Status.POOL_FULL:
                raise
        left = np.array(self.pool.codecs(*place)) != Codec.NONE
        refused = int(np.count_nonzero(left[missed]))
        return Moved(cooled, len(missed) - refused, refused)
