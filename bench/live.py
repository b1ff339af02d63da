"""Live servers of vLLM beside their simulation: the same requests, at the same times.

What steps take is measured alone, at batches of one size, before and after requests come by
Poisson's law to the servers, one for every two cores; then the simulator gets the means of those
steps and the requests' trace, and has seen nothing of how they fared. Servers, client and whatever
else this machine does share its cores: runs repeat, and their spread is shown.
"""

import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import Context
from bench.engines.found import vllm_environment
from bench.engines.timed_requests import (
    DOCUMENT_TOKENS,
    TimedRequest,
    make_requests,
    new_request,
    send_in_time,
    write_trace,
)
from bench.programs import Programs
from nearkv.cluster.client import Answer
from nearkv.cluster.workers import BLOCK_TOKENS, Engine, Worker
from nearkv.results import Result, Samples
from tests.engines.environment import ROOT

_MODEL = ROOT / "engine_integration" / "models" / "recall_3m"
_VOCABULARY = range(16, 2048)
_WORKERS = max(1, (os.cpu_count() or 1) // 2)
"""Each has a core to compute on, and another for its API server and the clients."""
_OWN_TOKENS = 400
_OUTPUT_TOKENS = 32
_MEAN_TOKENS = 16 + _OWN_TOKENS + DOCUMENT_TOKENS // 2
"""Of a prompt: decodes are measured behind as many."""
_PREFILLS = (64, 256, 512, 1024, 2048)
_BATCHES = (1, 2, 4, 8, 16)
_LOADS = {"light": 0.25, "half": 0.5}
"""Shares of what the servers can do, by the steps that were measured."""


@dataclass(frozen=True)
class _Steps:
    """What steps take, in seconds: prompts by tokens, decodes by sequences."""

    prefill: Mapping[int, float]
    decode: Mapping[int, float]

    def mean(self, other: "_Steps") -> "_Steps":
        """Of both."""
        return _Steps(
            {at: (self.prefill[at] + other.prefill[at]) / 2 for at in self.prefill},
            {at: (self.decode[at] + other.decode[at]) / 2 for at in self.decode},
        )

    def rate_per_s(self, load: float) -> float:
        """Of requests like ours, that keeps the servers so busy at batches of four."""
        prompt_s = self.prefill[512] * (_OWN_TOKENS + 16) / 512
        return load * _WORKERS / (prompt_s + _OUTPUT_TOKENS * self.decode[4] / 4)


def run(context: Context) -> Iterator[Result]:
    """Yields, for each load, what the simulator says beside what was seen."""
    if (environment := vllm_environment(context)) is None:
        return
    requests, seeds = (8, 1) if context.tiny else (400, 5) if context.long else (100, 3)
    repeats = 1 if context.tiny else 4
    programs = Programs(context)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engine = Engine(environment.python, _MODEL, variables=environment.variables)
        context.progress(f"starting {_WORKERS} servers")
        workers = [Worker(f"worker-{i}", engine, folder, "both", None) for i in range(_WORKERS)]
        for worker in workers:
            stack.enter_context(worker.process)
        for worker in workers:
            worker.wait_until_ready()
        ports = [worker.port for worker in workers]
        for load, share in _LOADS.items():
            seen: list[Sequence[Answer]] = []
            simulated = []
            for seed in range(1, seeds + 1):
                context.progress(f"{load} load, {seed} of {seeds}: steps alone")
                before = _measure_steps(ports, repeats)
                asked = make_requests(
                    seed, requests, before.rate_per_s(share), _OWN_TOKENS, _OUTPUT_TOKENS
                )
                context.progress(f"{load} load, {seed} of {seeds}: {asked[-1].at_s:.0f} s")
                seen.append(send_in_time(asked, ports, _MODEL.name, _VOCABULARY))
                context.progress(f"{load} load, {seed} of {seeds}: steps alone, again")
                steps = before.mean(_measure_steps(ports, repeats))
                simulated.append(_simulate(programs, folder, steps, asked))
            yield from _results(load, seen, simulated)


def _measure_steps(ports: Sequence[int], repeats: int) -> _Steps:
    """Means over all servers at once, as each has to work beside the others."""

    def groups_of(batch: int, prompt_tokens: int, output_tokens: int) -> Iterator[list[Answer]]:
        for _ in range(repeats):
            # Two of one prompt each: a beginning in the cache costs no step.
            one = new_request(0.0, prompt_tokens, output_tokens)
            yield send_in_time([one] * batch * len(ports), ports, _MODEL.name, _VOCABULARY)

    list(groups_of(1, 2048, 2))  # Warm.
    prefill = {
        tokens: statistics.fmean(
            one.first_token_s for group in groups_of(1, tokens, 1) for one in group
        )
        for tokens in _PREFILLS
    }
    decode = {
        batch: statistics.fmean(
            step_s
            for group in groups_of(batch, _MEAN_TOKENS, _OUTPUT_TOKENS)
            for step_s in _steps_of_all(group)
        )
        for batch in _BATCHES
    }
    return _Steps(prefill, decode)


def _steps_of_all(group: Sequence[Answer]) -> Iterator[float]:
    """Tokens' times, of a batch that began at once, from when all of it has its first."""
    all_there_s = max(answer.arrivals_s[0] for answer in group)
    for answer in group:
        for before_s, after_s in pairwise(answer.arrivals_s):
            if before_s >= all_there_s:
                yield after_s - before_s


def _simulate(
    programs: Programs, folder: Path, steps: _Steps, asked: Sequence[TimedRequest]
) -> dict[str, Any]:
    cluster, trace = folder / "cluster.toml", folder / "trace.jsonl"
    cluster.write_text(_cluster_file(steps), encoding="utf-8")
    write_trace(asked, trace)
    return programs.run("traces", cluster, "--trace", trace)["results"]


def _cluster_file(steps: _Steps) -> str:
    """The servers as nearkv.cluster starts them: float32, 16 sequences, 1 GiB of cache each."""
    lines = [
        'name = "live"',
        "[model]",
        "parameters = 3e6",
        "bytes_per_parameter = 4",
        "layers = 3",
        "query_heads = 4",
        "kv_heads = 2",
        f"kv_bytes_per_token = {3 * 2 * 2 * 128 * 4}",
        "[engine]",
        f"replicas = {_WORKERS}",
        "balances_load = false",
        "token_budget = 2048",
        "most_running = 16",
        f"block_tokens = {BLOCK_TOKENS}",
        f"pool_bytes = {1 << 30}",
        "[workload]",
        'kind = "trace"',
        "requests = 1000000",
        "[gpu]",
        "step_overhead_s = 0",
    ]
    for table, of, points in (
        ("prefill", "tokens", steps.prefill),
        ("decode", "sequences", steps.decode),
    ):
        for at, seconds in points.items():
            lines += [f"[[gpu.measured_{table}]]", f"{of} = {at}", f"seconds = {seconds}"]
    return "\n".join(lines) + "\n"


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
