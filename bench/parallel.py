"""Measures attention over a sequence that several processes share, beside formulas.

Real processes over gloo, all on this machine: their communication takes processor time from their
computing. What 64 ranks would take on other links is a model, and its names say so.
"""

from collections.abc import Iterator
from typing import Any

from bench import Context
from bench.ranks import measure
from bench.ranks.measure import ALGORITHMS, Workload, formula
from bench.ranks.projection import Link, Rank, llama_layer, project
from bench.ranks.world import World
from nearkv.parallel import Scores, Sharding
from nearkv.results import Goal, Result, Samples

_EQUAL = Goal("==", 1, of="ratio")
# What an H100 reaches in attention, about: the model's only word on computing.
_RANK = Rank(flops=400e12, memory_bytes_per_s=3e12)
_LINKS = (
    Link("nvlink", 450e9, 3e-6, "NVLink 4: 450 GB/s each way; 3 us are an assumption"),
    Link("400g", 50e9, 6e-6, "400 Gb/s each way; 6 us are an assumption"),
    # A stream of half writes is half each way; a message is a write and a read.
    Link(
        "cxl",
        0.825 * 38.4e9 / 2,
        2 * 2.18 * 130e-9,
        "CXL, an ASIC's card: 15.8 GB/s each way, by the ratios that CXL-DMSim (arXiv 2411.02282)"
        " measured beside local memory, taken of one DIMM of DDR5-4800 and 130 ns",
    ),
)
_PROJECTED = ("ring", "token_ring", "hybrid_8_ring", "hybrid_8_token_ring")


def run(context: Context) -> Iterator[Result]:
    """Yields what was sent, what was hidden and how fast it was; then the projection."""
    tokens = 256 if context.tiny else 4096
    repeats = 2 if context.tiny else 5
    with World(1) as world:
        alone = {
            is_decode: _seconds(world.run(measure.run, "ring", _work(tokens, repeats, is_decode)))
            for is_decode in (False, True)
        }
    for ranks in (2, 4) if context.tiny else (2, 4, 8):
        with World(ranks, bound_s=120) as world:
            # Two ranks in a block of two are Ulysses.
            for name in ALGORITHMS if ranks > 2 else ALGORITHMS[:3]:
                for is_decode in (False, True):
                    context.progress(f"{ranks} ranks, {name}{', decoding' if is_decode else ''}")
                    work = _work(tokens, repeats, is_decode)
                    told = world.run(measure.run, name, work)
                    yield from _results(name, work, told, alone[is_decode])
    yield from _projection(context)


def _work(tokens: int, repeats: int, is_decode: bool) -> Workload:
    return Workload(tokens=tokens, repeats=repeats, is_decode=is_decode)


def _seconds(told: list[list[dict[str, Any]]]) -> list[float]:
    """Of each repetition, the slowest rank's."""
    return [max(rank["seconds"] for rank in ranks) for ranks in zip(*told, strict=True)]


def _results(
    name: str, work: Workload, told: list[list[dict[str, Any]]], alone: list[float]
) -> Iterator[Result]:
    ranks = len(told)
    group = f"parallel/{ranks}_ranks/{name}/{'decode' if work.is_decode else 'prefill'}"
    wanted = [formula(work.volume(ranks), name, rank) for rank in range(ranks)]
    for rank, repetitions in enumerate(told):
        for repetition in repetitions:
            if repetition["sent"] != wanted[rank]:
                raise RuntimeError(
                    f"{group}: rank {rank} sent {repetition['sent']}, by formula {wanted[rank]}"
                )
    sizes = {"tokens": work.tokens, "heads": work.heads, "kv_heads": work.kv_heads}
    sizes |= {"head_dim": work.head_dim, "dtype": "float32"}
    yield Result(
        name=f"{group}/sent",
        value=max(sum(repetition["sent"]) for rank in told for repetition in rank),
        unit="B a rank",
        peer="its formula, exchange by exchange",
        peer_value=max(map(sum, wanted)),
        goal=_EQUAL,
        extra=sizes | {"exchanges": len(wanted[0])},
    )
    if any(map(sum, wanted)):
        shares = tuple(_hidden(repetition) for repetition in zip(*told, strict=True))
        yield Result.of_samples(f"{group}/hidden", Samples(shares), "of communication", extra=sizes)
    rates = Samples(tuple(1 / seconds for seconds in _seconds(told)))
    peer = Samples(tuple(1 / seconds for seconds in alone))
    beside = {"beside": peer, "peer": "one rank alone"}
    yield Result.of_samples(f"{group}/rate", rates, "1/s", extra=sizes, **beside)


def _hidden(ranks: tuple[dict[str, Any], ...]) -> float:
    """The share of the time that messages were under way in which their rank did not wait."""
    under_way_s = sum(rank["under_way_s"] for rank in ranks)
    return max(0.0, 1 - sum(rank["waited_s"] for rank in ranks) / under_way_s)


def _projection(context: Context) -> Iterator[Result]:
    context.progress("1M tokens on 64 ranks")
    tokens, ranks = (1 << 14, 16) if context.tiny else (1 << 20, 64)
    spread = Sharding.zigzag(tokens, ranks)
    one = Sharding.at(0, ranks, tokens)
    layers = {"prefill": llama_layer(spread, spread), "decode": llama_layer(one, spread + one)}
    scores = Scores(scale=1.0)
    for link in _LINKS:
        for name in _PROJECTED:
            for kind, volume in layers.items():
                seen = project(volume, name, link, _RANK, scores)
                yield Result(
                    name=f"parallel/projection/{tokens}_tokens_{ranks}_ranks/{link.name}/{name}/{kind}",
                    value=1e3 * seen.seconds,
                    unit="ms a layer",
                    peer="its computing",
                    peer_value=1e3 * seen.computed_s,
                    device=link.source,
                    extra={
                        "sent_bytes": seen.sent_bytes,
                        "model": "Llama 3 8B, bf16; ranks of 400 TFLOP/s and 3 TB/s",
                    },
                )
