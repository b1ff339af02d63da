"""Measures one layer's attention in place over batches of many sizes, beside vLLM's and torch's.

All read the same K and V in bfloat16. NearKV and vLLM read them in vLLM's blocks; torch's
scaled_dot_product_attention reads them as rows that lie together: once with the query heads of a KV
head as one sequence, which is its best case, and once as one calls it, with enable_gqa. Each turn
is of a few calls, each call in another layer than the one before, so that K and V come from memory
as they do in an engine. Calls are made from Python, as vLLM makes them.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from bench import Context
from bench.contender import Contender
from bench.engines.found import start_worker, vllm_environment
from bench.turns import Way, take_turns
from nearkv.doctor import cpu_count
from nearkv.results import Goal, Result

_BLOCK_TOKENS = 32
_TURN_CALLS = 4
_PEERS = {
    "vllm": "vLLM's kernel",
    "torch": "torch, rows that lie together",
    "torch_gqa": "torch, enable_gqa",
}
# Of the largest output. Both round outputs to bfloat16, and vLLM its weights, too.
_APART = 0.02


@dataclass(frozen=True)
class _Heads:
    """The heads of a layer."""

    name: str
    kv_heads: int
    group: int
    head_dim: int


@dataclass(frozen=True)
class _Batch:
    """Requests of one length; a request has several queries where tokens are guessed ahead."""

    requests: int
    tokens: int
    queries: int = 1

    def goal(self, peer: str) -> Goal | None:
        """The project wants to be ahead from 4 requests of 512 tokens on, and far of enable_gqa."""
        if self.requests < 4 or self.tokens < 512:
            return None
        return Goal(">=", 20 if peer == "torch_gqa" else 1, of="ratio")

    @property
    def peers(self) -> list[str]:
        """Who can answer; enable_gqa has no mask for several queries."""
        return [name for name in _PEERS if name != "torch_gqa" or self.queries == 1]


_HEADS = [
    _Heads("d64_group3", 3, 3, 64),
    _Heads("d128_group4", 2, 4, 128),
    _Heads("d128_group8", 2, 8, 128),
]
_BATCHES = [
    *(_Batch(1, tokens) for tokens in (512, 8192)),
    *(_Batch(4, tokens) for tokens in (128, 512, 2048, 8192)),
    *(_Batch(16, tokens) for tokens in (128, 512, 2048, 8192)),
    *(_Batch(64, tokens) for tokens in (128, 512, 2048, 8192)),
    *(_Batch(4, 2048, queries) for queries in (2, 4, 8)),
]
_TINY = [_Batch(2, 100), _Batch(2, 100, 3)]


def run(context: Context) -> Iterator[Result]:
    """Yields the rate at which K and V are read, by heads and batch, beside each peer."""
    threads = cpu_count()
    context.progress(f"starting vLLM with {threads} threads")
    question = {"threads": threads, "block_tokens": _BLOCK_TOKENS}
    with start_worker("vLLM", "layer", vllm_environment(), question) as worker:
        for heads in _HEADS:
            for batch in _TINY if context.tiny else _BATCHES:
                yield from _measured(context, worker, heads, batch)


def _measured(
    context: Context, worker: Contender, heads: _Heads, batch: _Batch
) -> Iterator[Result]:
    name = f"batches/{heads.name}_{batch.requests}x{batch.tokens}"
    if batch.queries > 1:
        name += f"_queries{batch.queries}"
    context.progress(name)
    shape = asdict(heads)
    shape.pop("name")
    filled = worker.order(f"fill {json.dumps(shape | asdict(batch))}")
    ways = {name: Way(worker, name) for name in ("near", *batch.peers)}
    turns = 2 if context.tiny else 16 if context.long else 8
    seconds = take_turns([*ways.values()], turns, _TURN_CALLS)
    gb = filled["kv_bytes"] / 1e9
    near = seconds[ways["near"]]
    for way in batch.peers:
        yield Result.of_samples(
            f"{name}_beside_{way}",
            near.per_second(gb),
            "GB/s",
            peer=_PEERS[way],
            beside=seconds[ways[way]].per_second(gb),
            goal=batch.goal(way),
            extra={"ms": near.median * 1e3, "peer_ms": seconds[ways[way]].median * 1e3},
        )
    yield Result(
        name=f"{name}_difference", value=filled["difference"], unit="1", goal=Goal("<=", _APART)
    )
