"""vLLM's servers on this machine, what their steps take alone, and how a simulator is told of them.

What is measured is of one size at a time, on servers that do nothing else; means over several.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from bench.engines.environment import ROOT
from bench.engines.timed_requests import DOCUMENT_TOKENS, new_request, send_in_time
from nearkv.cluster.client import Answer
from nearkv.cluster.clusters import Cluster
from nearkv.cluster.workers import BLOCK_TOKENS, Worker

MODEL = ROOT / "engine_integration" / "models" / "recall_3m"
VOCABULARY = range(16, 2048)
POOL = "512MiB"
OWN_TOKENS = 400
OUTPUT_TOKENS = 32
_POOL_BYTES = 512 << 20
_KV_BYTES_PER_TOKEN = 3 * 2 * 2 * 128 * 4
_MEAN_TOKENS = 16 + OWN_TOKENS + DOCUMENT_TOKENS // 2
"""Of a prompt: decodes are measured behind as many."""
_PREFILLS = (64, 256, 512, 1024, 2048)
_BATCHES = (1, 2, 4, 8, 16)
_TAIL_TOKENS = 8
"""Behind a prompt's whole blocks, which alone change hands; all in one step."""
_HANDED_BLOCKS = (8, 30)


@dataclass(frozen=True)
class Steps:
    """What steps take, in seconds: prompts by tokens, decodes by sequences."""

    prefill: Mapping[int, float]
    decode: Mapping[int, float]
    handed: Mapping[int, float]
    """What a hand-over adds, by its blocks; empty: nothing changes hands."""

    def mean(self, other: "Steps") -> "Steps":
        """Of both."""
        pairs = zip(
            (self.prefill, self.decode, self.handed),
            (other.prefill, other.decode, other.handed),
            strict=True,
        )
        return Steps(*({at: (one[at] + two[at]) / 2 for at in one} for one, two in pairs))


class Servers(Protocol):
    """Who serves, and what the simulator's file says of them."""

    ports: Sequence[int]
    """To which requests go in turn."""

    def measure(self, repeats: int) -> Steps:
        """Each alone."""

    def rate_per_s(self, steps: Steps, load: float) -> float:
        """Of requests like ours, that keeps them so busy at batches of four."""

    def cluster(self, steps: Steps) -> list[str]:
        """Lines of TOML: [engine], and what lies between engines."""


class Together:
    """Servers that prefill and decode; each has a core, and another for clients and HTTP."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.ports = [worker.port for worker in workers]

    def measure(self, repeats: int) -> Steps:
        """All at once, as each has to work beside the others."""
        _warm(self.ports)
        prefill = _prefills(self.ports, _PREFILLS, repeats)
        return Steps(prefill, _decodes(self.ports, repeats), {})

    def rate_per_s(self, steps: Steps, load: float) -> float:
        """As Servers."""
        return load * len(self.ports) / (_prompt_s(steps) + _output_s(steps))

    def cluster(self, steps: Steps) -> list[str]:
        """As Servers."""
        return _engine_lines(len(self.ports))


class Apart:
    """One that prefills and one that decodes, a pool between them, and a router in front."""

    def __init__(self, cluster: Cluster) -> None:
        self.ports = [cluster.port]
        by_role = {worker.role: [worker.port] for worker in cluster.workers}
        self._prefill, self._decode = by_role["prefill"], by_role["decode"]

    def measure(self, repeats: int) -> Steps:
        """Each server by itself; and what an answer takes through the router beyond both."""
        for ports in (self._prefill, self._decode, self.ports):
            _warm(ports)
        lengths = {count: count * BLOCK_TOKENS + _TAIL_TOKENS for count in _HANDED_BLOCKS}
        wanted = sorted({_TAIL_TOKENS, *_PREFILLS, *lengths.values()})
        prefill = _prefills(self._prefill, wanted, repeats)
        whole = _prefills(self.ports, list(lengths.values()), repeats)
        handed = {
            count: max(0.0, whole[tokens] - prefill[tokens] - prefill[_TAIL_TOKENS])
            for count, tokens in lengths.items()
        }
        return Steps(prefill, _decodes(self._decode, repeats), handed)

    def rate_per_s(self, steps: Steps, load: float) -> float:
        """As Servers."""
        return load / max(_prompt_s(steps), _output_s(steps))

    def cluster(self, steps: Steps) -> list[str]:
        """As Servers; all that a hand-over adds is the pool's."""
        (few, short_s), (many, long_s) = sorted(steps.handed.items())
        block_bytes = BLOCK_TOKENS * _KV_BYTES_PER_TOKEN
        block_s = max(1e-9, (long_s - short_s) / (many - few))
        return [
            *_engine_lines(2),
            "prefill_replicas = 1",
            "hands_over_blocks = true",
            "[[tiers]]",
            'name = "pool"',
            f"capacity_bytes = {_POOL_BYTES}",
            f"bytes_per_s = {block_bytes / block_s}",
            f"latency_s = {max(0.0, short_s - few * block_s)}",
            "is_shared = true",
        ]


def cluster_file(servers: Servers, steps: Steps) -> str:
    """What the simulator reads: float32, 16 sequences, 1 GiB of cache each."""
    lines = [
        'name = "live"',
        "[model]",
        "parameters = 3e6",
        "bytes_per_parameter = 4",
        "layers = 3",
        "query_heads = 4",
        "kv_heads = 2",
        f"kv_bytes_per_token = {_KV_BYTES_PER_TOKEN}",
        *servers.cluster(steps),
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


def _engine_lines(replicas: int) -> list[str]:
    return [
        "[engine]",
        f"replicas = {replicas}",
        "balances_load = false",
        "token_budget = 2048",
        "most_running = 16",
        f"block_tokens = {BLOCK_TOKENS}",
        f"pool_bytes = {1 << 30}",
    ]


def _groups_of(
    ports: Sequence[int], batch: int, prompt_tokens: int, output_tokens: int, repeats: int
) -> Iterator[list[Answer]]:
    for _ in range(repeats):
        # Two of one prompt each: a beginning in the cache costs no step.
        one = new_request(0.0, prompt_tokens, output_tokens)
        yield send_in_time([one] * batch * len(ports), ports, MODEL.name, VOCABULARY)


def _warm(ports: Sequence[int]) -> None:
    list(_groups_of(ports, 1, 2048, 2, repeats=1))


def _prefills(ports: Sequence[int], lengths: Sequence[int], repeats: int) -> dict[int, float]:
    return {
        tokens: statistics.fmean(
            one.first_token_s for group in _groups_of(ports, 1, tokens, 1, repeats) for one in group
        )
        for tokens in lengths
    }


def _decodes(ports: Sequence[int], repeats: int) -> dict[int, float]:
    return {
        batch: statistics.fmean(
            step_s
            for group in _groups_of(ports, batch, _MEAN_TOKENS, OUTPUT_TOKENS, repeats)
            for step_s in _steps_of_all(group)
        )
        for batch in _BATCHES
    }


def _steps_of_all(group: Sequence[Answer]) -> Iterator[float]:
    """Tokens' times, of a batch that began at once, from when all of it has its first."""
    all_there_s = max(answer.arrivals_s[0] for answer in group)
    for answer in group:
        for before_s, after_s in pairwise(answer.arrivals_s):
            if before_s >= all_there_s:
                yield after_s - before_s


def _prompt_s(steps: Steps) -> float:
    return steps.prefill[512] * (OWN_TOKENS + 16) / 512


def _output_s(steps: Steps) -> float:
    return OUTPUT_TOKENS * steps.decode[4] / 4
