"""Attention to a given error: how fast, how many bytes, and how often its bound is missed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy

from bench import Context
from bench.data import KvSet, device_uri, pool_of
from bench.data.captured import captured
from bench.data.synthetic import synthetic
from bench.timing import interleave
from nearkv.core import AttendMode
from nearkv.results import Goal, Result

_ERROR = 0.05
_STATED_MISS_RATE = 2 * NormalDist().cdf(-2)  # z is two standard deviations


@dataclass
class _Tally:
    """What queries of one kind of data came to."""

    queries: int = 0
    fallbacks: int = 0  # answered by a dense read, without error
    bound_misses: int = 0
    error_misses: int = 0
    near_bytes: int = 0
    dense_bytes: int = 0
    errors: list[float] = field(default_factory=list)


def measure_bounded(context: Context) -> Iterator[Result]:
    """Yields rates beside dense, and miss rates with their 95 % intervals."""
    uri = device_uri(context.device, "1GiB")
    for rows in (4, 8):
        yield _rate(synthetic(131072, rows, groups=1), uri, 31 if context.long else 9)
    groups = 4096 if context.long else 512
    texts = {
        "document": captured("document", groups=groups),
        "repeated": captured("repeated", groups=groups),
        "synthetic": tuple(synthetic(32768, 4, groups=groups // 4, seed=seed) for seed in range(4)),
    }
    for name, sets in texts.items():
        context.progress(f"misses of the error bound: {name}")
        yield from _misses(name, sets, uri)


def _rate(kv: KvSet, uri: str, repeat: int) -> Result:
    pool = pool_of(kv, uri)

    def attend(mode: AttendMode) -> None:
        pool.attend(1, 0, kv.queries[:1], scale=kv.scale, mode=mode, error=_ERROR)

    own, dense = interleave(
        [lambda: attend(AttendMode.BOUNDED), lambda: attend(AttendMode.DENSE)], repeat=repeat
    )
    tally = _Tally()
    _count(pool, kv, 0, tally)
    return Result.of_samples(
        f"cpu/bounded_5_percent_{kv.tokens // 1024}k_g{kv.queries.shape[1]}",
        own.per_second(1),
        "1/s",
        peer="dense",
        beside=dense.per_second(1),
        goal=Goal(">=", 2, of="ratio"),
        device=uri,
        extra={
            "near_bytes": tally.near_bytes,
            "dense_near_bytes": tally.dense_bytes,
            "relative_errors": tally.errors,
        },
    )


def _misses(name: str, sets: Sequence[KvSet], uri: str) -> Iterator[Result]:
    tally = _Tally()
    for kv in sets:
        pool = pool_of(kv, uri)
        for group in range(kv.queries.shape[0]):
            _count(pool, kv, group, tally)
    sampled = tally.queries - tally.fallbacks
    extra = {
        "queries": tally.queries,
        "answered_by_dense_reads": tally.fallbacks,
        "stated_miss_rate": _STATED_MISS_RATE,
    }
    yield Result(
        name=f"cpu/bounded_bytes/{name}",
        value=tally.near_bytes / tally.dense_bytes,
        unit="of a dense read",
        device=uri,
        extra=extra | {"median_error": float(numpy.median(tally.errors))},
    )
    for what, misses in (("bound", tally.bound_misses), ("error", tally.error_misses)):
        low, high = _wilson(misses, sampled)
        yield Result(
            name=f"cpu/bounded_misses/{name}/{what}",
            value=misses / max(sampled, 1),
            unit="of sampled queries",
            # The stated rate must not lie below what the interval allows for.
            goal=Goal("<=", _STATED_MISS_RATE),
            device=uri,
            extra=extra | {"misses": misses, "interval_95": [low, high]},
        )


def _count(pool, kv: KvSet, group: int, tally: _Tally) -> None:
    """Compares one group's BOUNDED result with the dense one."""
    queries = kv.queries[group : group + 1]
    common = {"scale": kv.scale, "tokens": kv.limits[group]}
    bound = numpy.zeros(queries.shape[1], numpy.float32)
    pool.reset_stats()
    output, _ = pool.attend(
        1, 0, queries, mode=AttendMode.BOUNDED, error=_ERROR, seed=group, bound=bound, **common
    )
    stats = pool.stats()
    fell_back = stats.dense_fallbacks > 0
    pool.reset_stats()
    exact, _ = pool.attend(1, 0, queries, **common)
    tally.near_bytes += stats.near_bytes
    tally.dense_bytes += pool.stats().near_bytes
    errors = numpy.linalg.norm(output - exact, axis=-1)[0] / numpy.linalg.norm(exact, axis=-1)[0]
    tally.queries += errors.size
    tally.fallbacks += errors.size if fell_back else 0
    tally.errors += errors.tolist()
    if not fell_back:
        tally.bound_misses += int((errors > bound).sum())
        tally.error_misses += int((errors > _ERROR).sum())


def _wilson(misses: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson 1927)."""
    if trials == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.975)
    rate = misses / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    reach = z / (1 + z * z / trials)
    reach *= math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    return centre - reach, centre + reach
