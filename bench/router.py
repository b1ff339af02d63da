"""Routing by prefix: lookups, decisions and memory of the router's index, while events come in."""

from collections.abc import Iterator

from bench import Context
from bench.programs import Programs
from nearkv.results import Goal, Result

_BLOCKS = 10_000_000
_WORKERS = 64
_EVENTS_PER_S = 100_000
_GOALS = {
    "router/lookups": Goal(">=", 1e6),
    **{
        f"router/route/{policy}/p99": Goal("<", 100)
        for policy in (
            *("round_robin", "least_load", "longest_prefix"),
            *("dynamo", "mooncake", "least_ttft"),
        )
    },
}


def run(context: Context) -> Iterator[Result]:
    """Yields what one core does for a fleet of 64 workers, beside std::unordered_map.

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
