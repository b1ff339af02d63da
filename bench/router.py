"""Measures lookups, decisions and memory of the router's index while events come in."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import Context
from bench.contender import Contender, ContenderError
from bench.peers import DYNAMO_ROUTER
from bench.programs import Programs
from nearkv.results import Goal, Result, Samples

_BLOCKS = 10_000_000
_WORKERS = 64
_EVENTS_PER_S = 100_000
_POLICIES = ("round_robin", "least_load", "longest_prefix", "dynamo", "mooncake", "least_ttft")
_GOALS = {
    "router/lookups": Goal(">=", 1e6),
    **{f"router/route/{policy}/p99": Goal("<", 100) for policy in _POLICIES},
}
_PEER_BLOCKS = 1_000_000
_WORKER = Path(__file__).parent / "peers" / "router_worker.py"


def run(context: Context) -> Iterator[Result]:
    """Yields what one core does for a fleet of 64 workers, beside std::unordered_map and Dynamo.

    Rates are of the core's time, decisions of the wall's clock, so that these also count what else
    the machine does. The goals are for all of 10 M blocks.
    """
    blocks = 50_000 if context.tiny else _BLOCKS
    sizes = ("--requests", "500", "--repeats", "1") if context.tiny else ()
    traces = sorted(context.traces.glob("*.jsonl")) if context.traces else []
    for name, words in [("", ()), *((trace.stem, ("--trace", str(trace))) for trace in traces)]:
        context.progress(f"{blocks:,} blocks of {name or 'made-up chains'}")
        document = Programs(context).run(
            *("router", "--blocks", str(blocks), "--workers", str(_WORKERS)),
            *("--events", str(_EVENTS_PER_S), *sizes, *words),
        )
        for figure in document["results"]:
            yield Result(
                name=figure["name"] + (f"/{name}" if name else ""),
                value=figure["value"],
                unit=figure["unit"],
                peer=figure["peer"],
                peer_value=figure["peer_value"],
                goal=None if context.tiny else _GOALS.get(figure["name"]),
                extra={"workers": _WORKERS, "events_per_s": _EVENTS_PER_S},
            )
    yield from _beside_dynamo(context)


def _beside_dynamo(context: Context) -> Iterator[Result]:
    """Both through Python, with lists of ints, on the same chains, in turns.

    Dynamo's binding hands each call to a thread: where cores are short, all but p50 is waiting.
    """
    peer = DYNAMO_ROUTER
    peer.require(context)
    blocks = 20_000 if context.tiny else _PEER_BLOCKS
    context.progress(f"{blocks:,} blocks in {peer.title} and in ours, through Python")
    sizes = ("--blocks", str(blocks), "--workers", str(_WORKERS))
    path = os.pathsep.join(filter(None, sys.path))
    with (
        Contender(
            "NearKV",
            [sys.executable, str(_WORKER), "nearkv", *sizes],
            {"PYTHONPATH": path},
        ) as ours,
        Contender(peer.title, [str(peer.python), str(_WORKER), "dynamo", *sizes]) as theirs,
    ):
        rounds = 1 if context.tiny else 7
        orders = [f"match {seed} {200 if context.tiny else 3000}" for seed in range(rounds)]
        replies = [(ours.order(order), theirs.order(order)) for order in orders]
        if any(own["digest"] != their["digest"] for own, their in replies):
            raise ContenderError(f"{peer.title} and ours found different prefixes")
        for name, unit in (("p50_us", "us"), ("p99_us", "us")):
            yield Result.of_samples(
                f"router/python/match_{name}",
                Samples(tuple(own[name] for own, _ in replies)),
                unit,
                peer=peer.title,
                beside=Samples(tuple(their[name] for _, their in replies)),
                extra={"blocks": blocks, "workers": _WORKERS},
            )
        for name, unit in (("events_per_s", "blocks/s"), ("bytes_per_block", "B/block")):
            yield Result(
                name=f"router/python/{name}",
                value=ours.ready[name],
                unit=unit,
                peer=peer.title,
                peer_value=theirs.ready[name],
                extra={"blocks": blocks, "workers": _WORKERS},
            )
