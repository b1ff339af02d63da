"""Measures real servers of vLLM, beside a simulation of the same requests.

Servers that prefill and decode, one for every two cores; then one that prefills and one that
decodes, with a pool between them and a router in front. What steps and hand-overs take is measured
alone, at one size after another, before and after requests come by Poisson's law; then the
simulator gets the means of those and the requests' trace, and has seen nothing of how they fared.
Servers, client and whatever else this machine does share its cores: runs repeat, and their spread
is shown.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import Context
from bench.engines.found import vllm_environment
from bench.engines.live_servers import (
    MODEL,
    OUTPUT_TOKENS,
    OWN_TOKENS,
    POOL,
    VOCABULARY,
    Apart,
    Servers,
    Together,
    cluster_file,
)
from bench.engines.timed_requests import make_requests, send_in_time, write_trace
from bench.programs import Programs
from nearkv.cluster.client import Answer
from nearkv.cluster.clusters import over_a_pool
from nearkv.cluster.workers import Engine, Worker
from nearkv.results import Result, Samples

_WORKERS = max(1, (os.cpu_count() or 1) // 2)
_LOADS = {"light": 0.25, "half": 0.5}
"""Shares of what the servers can do, by the steps that were measured."""


def run(context: Context) -> Iterator[Result]:
    """Yields, for each load, what the simulator says beside what was seen."""
    environment = vllm_environment()
    engine = Engine(environment.python, MODEL, variables=environment.variables)
    programs = Programs(context)

    def together(stack: ExitStack, folder: Path) -> Servers:
        workers = [Worker(f"worker-{i}", engine, folder, "both", None) for i in range(_WORKERS)]
        for worker in workers:
            stack.enter_context(worker.process)
        for worker in workers:
            worker.wait_until_ready()
        return Together(workers)

    def apart(stack: ExitStack, folder: Path) -> Servers:
        # As in the simulator, every prompt is computed by the one that prefills.
        started = over_a_pool(engine, 1, 1, programs.tool, POOL, 1, folder)
        return Apart(stack.enter_context(started))

    yield from _compare(context, programs, "", f"{_WORKERS} servers", together)
    yield from _compare(context, programs, "apart/", "one that prefills, one that decodes", apart)


def _compare(
    context: Context,
    programs: Programs,
    name: str,
    what: str,
    start: Callable[[ExitStack, Path], Servers],
) -> Iterator[Result]:
    requests, seeds = (8, 1) if context.tiny else (400, 5) if context.long else (100, 3)
    repeats = 1 if context.tiny else 4
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        context.progress(f"starting {what}")
        servers = start(stack, folder)
        for load, share in _LOADS.items():
            seen: list[Sequence[Answer]] = []
            simulated = []
            for seed in range(1, seeds + 1):
                told = f"{what}, {load} load, {seed} of {seeds}"
                context.progress(f"{told}: steps alone")
                before = servers.measure(repeats)
                rate_per_s = servers.rate_per_s(before, share)
                asked = make_requests(seed, requests, rate_per_s, OWN_TOKENS, OUTPUT_TOKENS)
                context.progress(f"{told}: {asked[-1].at_s:.0f} s")
                seen.append(send_in_time(asked, servers.ports, MODEL.name, VOCABULARY))
                context.progress(f"{told}: steps alone, again")
                steps = before.mean(servers.measure(repeats))
                (folder / "cluster.toml").write_text(cluster_file(servers, steps))
                write_trace(asked, folder / "trace.jsonl")
                words = (folder / "cluster.toml", "--trace", folder / "trace.jsonl")
                simulated.append(programs.run("traces", *words)["results"])
            yield from _results(f"{name}{load}", seen, simulated)


def _results(
    load: str, seen: Sequence[Sequence[Answer]], simulated: Sequence[Mapping[str, Any]]
) -> Iterator[Result]:
    for figure in ("ttft", "tpot"):
        for rank, share in (("p50", 0.5), ("p99", 0.99)):
            live = Samples(tuple(_ranked(_times(run, figure), share) for run in seen))
            ours = Samples(tuple(report[f"{figure}_s"][rank] for report in simulated))
            errors = [
                100 * (mine / theirs - 1)
                for mine, theirs in zip(ours.readings, live.readings, strict=True)
            ]
            yield Result(
                name=f"live/{load}/{figure}_{rank}",
                value=ours.median,
                unit="s",
                median=ours.median,
                minimum=ours.minimum,
                maximum=ours.maximum,
                peer="vLLM on this CPU",
                peer_value=live.median,
                device="simulated",
                extra={
                    "peer_min": live.minimum,
                    "peer_max": live.maximum,
                    "error_percent": [round(error, 1) for error in errors],
                    "requests": len(seen[0]),
                },
            )


def _times(answers: Sequence[Answer], figure: str) -> list[float]:
    if figure == "ttft":
        return [one.first_token_s for one in answers]
    return [one.per_token_s for one in answers if one.per_token_s is not None]


def _ranked(values: Sequence[float], share: float) -> float:
    """The nearest rank, as the simulator's."""
    return sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
