"""How long an attention of many ranks takes on links of given speed: a model, not a measurement.

It plays the algorithms' own loops on a clock: a rank computes, or waits for what it needs. Ranks
hang on one switch by a link each, which carries its bytes one after the other, both ways at once.
"""

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from bench.ranks.measure import formula
from nearkv.parallel import Scores, Sharding, Volume


@dataclass(frozen=True)
class Link:
    """Of a rank: bytes a second each way, and what a message takes besides."""

    name: str
    bytes_per_s: float
    latency_s: float
    source: str


@dataclass(frozen=True)
class Rank:
    """What computes: attention at so many operations a second, or as fast as memory is read."""

    flops: float
    memory_bytes_per_s: float


@dataclass
class Clock:
    """When each rank is free, and its link in both directions."""

    link: Link
    ranks: int
    now: np.ndarray = field(init=False)
    computed: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.now, self.computed = np.zeros(self.ranks), np.zeros(self.ranks)
        self._out, self._in = np.zeros(self.ranks), np.zeros(self.ranks)

    def send(self, to: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """All ranks send now; when what is for rank r is there."""
        spans = sizes / self.link.bytes_per_s
        self._out = np.maximum(self._out, self.now) + spans
        arrived, coming = np.zeros(self.ranks), np.zeros(self.ranks)
        arrived[to], coming[to] = self._out, spans
        self._in = np.maximum(self._in + coming, arrived)
        return np.where(coming > 0, self._in + self.link.latency_s, 0)

    def compute(self, seconds: np.ndarray) -> None:
        self.now = self.now + seconds
        self.computed = self.computed + seconds

    def wait(self, until: np.ndarray) -> None:
        self.now = np.maximum(self.now, until)


@dataclass(frozen=True)
class Projection:
    """Until the last rank has its output; what the busiest rank computes and sends."""

    seconds: float
    computed_s: float
    sent_bytes: int


def project(volume: Volume, name: str, link: Link, rank: Rank, scores: Scores) -> Projection:
    """An attention by "ring", "token_ring" or "hybrid_N_ring", and so on, on so many ranks."""
    size = volume.tokens.ranks
    clock = Clock(link, size)
    sent = np.array([formula(volume, name, r) for r in range(size)], float)
    if not name.startswith("hybrid"):
        own = _Loop(clock, np.arange(size), 1, 1.0)
        getattr(own, name)(sent, _seconds(volume, rank, scores))
    else:
        blocks = int(name.split("_")[1])
        between = _united(volume, blocks)
        loop = _Loop(clock, np.arange(size), blocks, 1 / blocks)
        for column in (0, 1):  # K and V, then queries: each by all others of the block at once.
            _all_to_all(clock, sent[:, column])
        getattr(loop, name.split("_", 2)[2])(sent[:, 2:-1], _seconds(between, rank, scores))
        _all_to_all(clock, sent[:, -1])
    return Projection(float(clock.now.max()), float(clock.computed.max()), int(sent.sum(1).max()))


@dataclass(frozen=True)
class _Loop:
    """Rings of ranks `stride` apart, that hold `share` of the heads each."""

    clock: Clock
    ranks: np.ndarray
    stride: int
    share: float

    def ring(self, sent: np.ndarray, seconds: np.ndarray) -> None:
        for step in range(sent.shape[1] + 1):
            coming = None
            if step < sent.shape[1]:
                coming = self.clock.send(self._other(1), sent[:, step])
            self._attend(seconds, self.ranks // self.stride, step)
            if coming is not None:
                self.clock.wait(coming)

    def token_ring(self, sent: np.ndarray, seconds: np.ndarray) -> None:
        steps, column, back = sent.shape[1] // 2 + 1, 0, None
        for step in range(steps):
            coming = None
            if step < steps - 1:
                coming, column = self.clock.send(self._other(1), sent[:, column]), column + 1
            self._attend(seconds.T, self.ranks // self.stride, step)
            if back is not None:
                self.clock.wait(back)
            if step:
                back, column = self.clock.send(self._other(-step), sent[:, column]), column + 1
            if coming is not None:
                self.clock.wait(coming)
        if back is not None:
            self.clock.wait(back)

    def _attend(self, seconds: np.ndarray, here: np.ndarray, step: int) -> None:
        """Rank r's work with what is `step` ranks before it."""
        origin = (here - step) % len(seconds)
        self.clock.compute(self.share * seconds[here, origin])

    def _other(self, distance: int) -> np.ndarray:
        return (self.ranks + distance * self.stride) % len(self.ranks)


def _all_to_all(clock: Clock, sizes: np.ndarray) -> None:
    spans = sizes / clock.link.bytes_per_s
    # As much comes as goes, from all at once; the slowest to come ends it.
    clock.wait(np.where(sizes > 0, clock.now.max() + spans + clock.link.latency_s, clock.now))


@cache
def _united(volume: Volume, blocks: int) -> Volume:
    """Each block of ranks as one."""
    groups = [range(b, b + blocks) for b in range(0, volume.tokens.ranks, blocks)]
    parts = {name: getattr(volume, name).united(groups) for name in ("queries", "tokens", "new")}
    return Volume(**vars(volume) | parts)


@cache
def _seconds(volume: Volume, rank: Rank, scores: Scores) -> np.ndarray:
    """What attention of queries of rank q to tokens of rank k takes, all heads: [q, k]."""
    row_bytes = volume.kv_heads * (volume.head_dim + volume.value_dim) * volume.itemsize
    operations = 2 * volume.heads * (volume.head_dim + volume.value_dim)
    seconds = np.zeros((volume.queries.ranks, volume.tokens.ranks))
    for q, queries in enumerate(volume.queries.positions):
        for k, keys in enumerate(volume.tokens.positions):
            if len(queries) and len(keys):
                first, end = scores.seen(queries, keys)
                read = int(end.max() - first.min()) * row_bytes / rank.memory_bytes_per_s
                pairs = int((end - first).sum())
                seconds[q, k] = max(read, pairs * operations / rank.flops)
    return volume.batch * seconds


def llama_layer(queries: Sharding, tokens: Sharding) -> Volume:
    """A layer of Llama 3 8B in bf16."""
    heads = {"heads": 32, "kv_heads": 8, "head_dim": 128, "value_dim": 128}
    spread = {"queries": queries, "tokens": tokens, "new": queries}
    return Volume(batch=1, itemsize=2, exact=4, **heads, **spread)
