"""What Prometheus is told of a front end: decisions, hits, waiting, failures, events."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from nearkv.router.decision import Decision
from nearkv.router.pool_room import Room
from nearkv.router.ranks import WorkerLoad
from nearkv.router.router import RouterStats
from nearkv.router.source import FeedCounters

_PREFIX = "nearkv_router_"
_LONG_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)
_SHORT_S = (5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2)

_FEED_COUNTERS = {
    "batches": ("event_batches", "Batches of KV events taken up."),
    "gaps": ("event_gaps", "Times that batches had been missed, and were asked for again."),
    "dropped": ("event_drops", "Times that all of a worker's blocks were dropped."),
    "malformed": ("event_malformed_batches", "Batches that were none of KV events."),
    "unknown_media": ("event_unknown_media", "Batches that named a place which is no tier."),
    "other_sizes": ("event_other_sizes", "Batches with blocks of a size that cannot be used."),
    "refused": ("event_refused_batches", "Batches with blocks for which the index had no room."),
}


@dataclasses.dataclass(frozen=True)
class RouterState:
    """What is read when Prometheus asks."""

    stats: RouterStats
    loads: Mapping[str, WorkerLoad]
    suspended: Mapping[str, bool]
    waiting: Mapping[str, int]  # by what the engines do: prefill, decode
    pools: Mapping[str, Room]
    feeds: Mapping[str, FeedCounters]


class RouterMetrics:
    """Counts what happens. Each front end has one, with a registry of its own."""

    def __init__(self, policy: str, state: Callable[[], RouterState]) -> None:
        """`state` is asked at each scrape."""
        self._registry = CollectorRegistry()
        self._policy = policy
        self._decisions = self._counter(
            "decisions", "Requests sent to a worker, by policy and its reason.", "policy", "reason"
        )
        self._prompt_blocks = self._counter("prompt_blocks", "Whole blocks of routed prompts.")
        self._hit_blocks = self._counter(
            "hit_blocks", "Of them, those that the chosen worker had, by tier.", "tier"
        )
        self.unmatched = self._counter(
            "unmatched_prompts", "Prompts routed by load alone: no block's hash is known of them."
        )
        self.retries = self._counter(
            "retries", "Requests that went on to another engine, by the one that failed.", "worker"
        )
        self.refusals = self._counter("refusals", "Requests sent nowhere, by status.", "status")
        self.short_pools = self._counter(
            "short_pools",
            "Prompts for which the chosen engine's pool had no room, by where it was found.",
            "room",
        )
        self.decision = self._histogram("decision", "Time to choose a worker.", _SHORT_S)
        self.queue_wait = self._histogram("queue_wait", "Time in the queue, of those that waited.")
        self.first_token = self._histogram(
            "first_token", "From the decision to the first byte of a stream."
        )
        self.request = self._histogram("request", "From the decision to the end of the answer.")
        self._registry.register(_StateCollector(state))

    def count(self, decision: Decision) -> None:
        """A request has been sent somewhere."""
        self._decisions.labels(self._policy, decision.reason).inc()
        self._prompt_blocks.inc(decision.blocks)
        for tier, blocks in decision.prefix.items():
            self._hit_blocks.labels(tier.name.lower()).inc(blocks)

    def page(self) -> bytes:
        """The text that Prometheus reads, of CONTENT_TYPE_LATEST."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float] = _LONG_S) -> Histogram:
        name = f"{_PREFIX}{name}_seconds"
        return Histogram(name, text, buckets=buckets, registry=self._registry)


class _StateCollector(Collector):
    def __init__(self, state: Callable[[], RouterState]) -> None:
        self._state = state

    def describe(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        return ()  # Else the registry would ask for the state before there is one.

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        state = self._state()
        yield from _of_workers(state)
        waiting = _gauge("queue_length", "Requests that wait for an engine with room.", "role")
        for role, length in state.waiting.items():
            waiting.add_metric([role], length)
        yield waiting
        yield from _of_pools(state.pools)
        stats = state.stats
        yield _gauge("index_blocks", "Blocks that are known.", value=stats.blocks)
        yield _gauge("index_bytes", "Memory of the index.", value=stats.memory_bytes)
        yield _gauge("index_limit_bytes", "Most that it may be.", value=stats.limit_bytes)
        text = "Blocks for which the index had no room."
        yield CounterMetricFamily(
            _PREFIX + "index_refused_blocks", text, value=stats.counters.refused
        )
        yield from _of_feeds(state.feeds)


def _of_workers(state: RouterState) -> Iterable[GaugeMetricFamily]:
    requests = _gauge("worker_requests", "Requests at a worker.", "worker")
    tokens = _gauge("worker_prefill_tokens", "Tokens it has yet to compute.", "worker")
    suspended = _gauge("worker_suspended", "1: it failed, and gets nothing new.", "worker")
    for name, load in state.loads.items():
        requests.add_metric([name], load.requests)
        tokens.add_metric([name], load.prefill_tokens)
        suspended.add_metric([name], state.suspended[name])
    return requests, tokens, suspended


def _of_pools(pools: Mapping[str, Room]) -> Iterable[GaugeMetricFamily]:
    capacity = _gauge("pool_capacity_bytes", "Room for prompts under way; 0: no limit.", "pool")
    reserved = _gauge("pool_reserved_bytes", "Of it, what is promised to prompts.", "pool")
    for name, room in pools.items():
        capacity.add_metric([name], room.capacity_bytes)
        reserved.add_metric([name], room.reserved_bytes)
    return capacity, reserved


def _of_feeds(
    feeds: Mapping[str, FeedCounters],
) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
    for field, (name, text) in _FEED_COUNTERS.items():
        family = CounterMetricFamily(_PREFIX + name, text, labels=["worker"])
        for worker, counters in feeds.items():
            family.add_metric([worker], getattr(counters, field))
        yield family
    text = "1: the worker hashes otherwise than the router, and its events are ignored."
    mismatch = _gauge("hash_mismatch", text, "worker")
    for worker, counters in feeds.items():
        mismatch.add_metric([worker], bool(counters.mismatch))
    yield mismatch


def _gauge(name: str, text: str, *labels: str, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(_PREFIX + name, text, value=value, labels=labels or None)
