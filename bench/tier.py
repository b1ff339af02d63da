"""Measures the object store and its daemon, beside memcpy, UCX and other stores."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import Context, Skipped, each_part
from bench.peers.compare import compare_with_peers
from bench.programs import Programs
from bench.ucx import am_bandwidth
from nearkv.results import Goal, Result, Samples

_COPY = Goal(">=", 0.90, of="ratio")
_PLAIN_COPY = Goal(">=", 0.97, of="ratio")
_EXISTS_RATE = Goal(">=", 2e6)
_EXISTS_P99 = Goal("<", 5000)
_PREFIX_P99 = Goal("<", 10_000)
_RESTART = Goal("<", 2)
_LOST = Goal("<", 5)
_DAEMON_ADDS = Goal("<", 3)

_SIZES_KIB = ("256", "512", "1024", "2048")
_RESTART_OBJECTS = 1_000_000
_INDEX_KEYS = 10_000_000


def run(context: Context) -> Iterator[Result]:
    """Yields what one caller sees of the store, and the peers' figures from the same turns."""
    programs = Programs(context)
    yield from _copies(context, programs)
    yield from _lookups(context, programs)
    yield from _index(context, programs)
    yield from _daemon(context, programs)
    yield from _remote(context, programs)
    peers = compare_with_peers(context, programs.path("tier"))
    yield from each_part((peers, _traced(context, programs)))


def _row(row: dict[str, Any], goal: Goal | None = None, **fields: Any) -> Result:
    """A row of nearkv_tier_bench as a result."""
    if "peer" in row:
        fields |= {"peer": row["peer"], "beside": Samples(tuple(row["peer_readings"]))}
    return Result.of_samples(
        f"tier/{row['name']}",
        Samples(tuple(row["readings"])),
        row["unit"],
        goal=goal,
        extra=row["extra"],
        **fields,
    )


def _summary(name: str, row: dict[str, Any], goal: Goal | None) -> Result:
    """A row of a program that sums its readings up itself as a result."""
    return Result(
        name=f"tier/{name}",
        value=row["median"],
        unit=row["unit"],
        median=row["median"],
        minimum=row["min"],
        maximum=row["max"],
        peer=row.get("peer"),
        peer_value=row.get("peer_median"),
        goal=goal,
        extra=row["extra"],
    )


def _copies(context: Context, programs: Programs) -> Iterator[Result]:
    context.progress("set and get beside memcpy")
    rounds = "1" if context.tiny else "51" if context.long else "15"
    sizes = ("256",) if context.tiny else _SIZES_KIB
    working_set = ("--working-set-mib", "4" if context.tiny else "512", "--rounds", rounds)
    document = programs.run("tier", "copies", *working_set, "--object-kib", *sizes)
    for row in document["rows"]:
        yield _row(row, _COPY if row["name"].endswith(("/run", "_batch")) else None)
    context.progress("copies without a checksum")
    groups = ("--groups", "copy", "--threads", "1")
    document = programs.run("copy", *working_set, *groups, "--object-kib", *sizes)
    for row in document["results"]:
        _, size, _, alignment, way = row["name"].split("/")
        if way not in ("copy_in", "copy_out") or alignment != "aligned":
            continue
        yield _summary(f"copies/{way}_without_checksum/{size}", row, _PLAIN_COPY)


def _lookups(context: Context, programs: Programs) -> Iterator[Result]:
    objects = 2000 if context.tiny else _RESTART_OBJECTS
    context.progress(f"filling a store with {objects:,} objects")
    goals = {
        "exists/rate": _EXISTS_RATE,
        "exists/rate_absent": _EXISTS_RATE,
        "exists/call_p99": _EXISTS_P99,
        "exists/call_absent_p99": _EXISTS_P99,
        "prefix/match_p99": _PREFIX_P99,
    }
    rounds = "1" if context.tiny else "5"
    document = programs.run("tier", "lookups", "--objects", str(objects), "--rounds", rounds)
    for row in document["rows"]:
        goal = goals.get(row["name"])
        if row["name"] == "restart" and row["extra"]["objects"] >= _RESTART_OBJECTS:
            goal = _RESTART  # where there was no room for as many, the figure proves nothing
        yield _row(row, goal)


def _index(context: Context, programs: Programs) -> Iterator[Result]:
    """The indexes of a store that is larger than a machine's memory may be."""
    keys = 20_000 if context.tiny else _INDEX_KEYS
    context.progress(f"indexes of {keys:,} keys")
    goals = {"find_batch": _EXISTS_RATE, "find_p99": _EXISTS_P99}
    goals |= {"find": _EXISTS_RATE, "longest_match_p99": _PREFIX_P99}
    repeats = "1" if context.tiny else "3"
    document = programs.run(
        "index", "--keys", str(keys), "--repeats", repeats, "--only", "flat", "prefix"
    )
    told: set[str] = set()
    for figure in document["results"]:
        goal = goals.get(figure["name"].rpartition("/")[2])
        if goal is None or figure["name"] in told:
            continue  # its second peer is told by nearkv_index_bench alone
        told.add(figure["name"])
        peer_value = figure["peer_value"] or None
        yield Result(
            name=f"tier/{figure['name']}",
            value=figure["value"],
            unit=figure["unit"],
            peer=figure["peer"] if peer_value else None,
            peer_value=peer_value,
            goal=goal,
            extra={"keys": keys},
        )


def _daemon(context: Context, programs: Programs) -> Iterator[Result]:
    """What it costs that the pool is another process's."""
    context.progress("batches and large objects through a daemon")
    tiny = ("--rounds", "1", "--calls", "100", "--working-set-mib", "16")
    document = programs.run("daemon", *(tiny if context.tiny else ("--rounds", "9")))
    for row in document["results"]:
        if row["unit"] == "us":
            # Two processes on one core take turns, and that is the scheduler's figure, not ours.
            yield _summary(row["name"], row, _DAEMON_ADDS if "/own_cores/" in row["name"] else None)
        elif (place := row["name"].partition("/daemon, "))[1]:
            yield _summary(f"{place[0]}/{place[2].replace(' ', '_')}", row, _COPY)


def _remote(context: Context, programs: Programs) -> Iterator[Result]:
    """Large objects in a store on another machine, played by another process, over TCP."""
    context.progress("large objects through UCX")
    sizes = ("--working-set-mib", "16" if context.tiny else "64")
    rounds = ("--rounds", "1" if context.tiny else "5")
    document = programs.run("remote", "--transports", "tcp", *sizes, *rounds)
    for row in document["results"]:
        name, is_ours, batch = row["name"].partition("/remote, ")
        if not is_ours:
            continue
        size_bytes = row["extra"]["object_bytes"]
        messages = (16 << 20 if context.tiny else 1 << 30) // size_bytes
        bandwidth = am_bandwidth(size_bytes, messages, "tcp")
        yield Result(
            name=f"tier/{name}/{batch.replace(' ', '_')}",
            value=row["median"],
            unit=row["unit"],
            median=row["median"],
            minimum=row["min"],
            maximum=row["max"],
            peer="ucx_perftest's active messages" if bandwidth else None,
            peer_value=bandwidth / 1e9 if bandwidth else None,
            extra=row["extra"],
        )


def _traced(context: Context, programs: Programs) -> Iterator[Result]:
    """What becomes of a store under the requests of traces."""
    traces = sorted(context.traces.glob("*.jsonl")) if context.traces else []
    if not traces:
        where = f"no *.jsonl in {context.traces}" if context.traces else "--traces DIR has them"
        raise Skipped(f"replay and fragmentation, which need request traces; {where}")
    yield from _fragmentation(context, programs, traces)
    yield from _hits(context, programs, traces)
    yield from _paced(context, programs, traces)


def _fragmentation(
    context: Context, programs: Programs, traces: Sequence[Path]
) -> Iterator[Result]:
    context.progress("24 simulated hours of blocks of four models")
    thin = "8" if context.long else "32"
    hours = "1" if context.tiny else "24"
    scale = "1024" if context.tiny else "64"
    speed = "100000" if context.tiny else "2000"
    document = programs.run(
        *("tier", "fragmentation", *traces, "--hours", hours, "--thin", thin, "--scale", scale),
        *("--day-speed", speed),
    )
    for row in document["rows"]:
        # Left alone, nothing bounds it: the other store is as a user finds it.
        is_judged = not context.tiny and "/compacted/lost" in row["name"]
        yield _row(row, _LOST if is_judged else None)


def _hits(context: Context, programs: Programs, traces: Sequence[Path]) -> Iterator[Result]:
    """Hit rates of each policy without bytes, as shares of an endless cache's."""
    context.progress("hit rates of each eviction policy")
    capacities = ("50%",) if context.tiny else ("1%", "5%", "20%")
    rows = programs.run("replay", *traces, "--capacity", ",".join(capacities))
    best = {
        (row["trace"], row["capacity_blocks"]): row["prefix_hits"] / row["bound"]
        for row in rows
        if row["policy"] == "belady"
    }
    for row in rows:
        place = row["trace"], row["capacity_blocks"]
        if row["policy"] == "belady":
            continue
        share = row["capacity_blocks"] / row["unique_blocks"]
        yield Result(
            name=f"tier/hits/{row['trace']}/{share:.0%}/{row['policy']}".replace("%", "pct"),
            value=row["prefix_hits"] / row["bound"],
            unit="of the endless cache's",
            peer="Belady, who knows the future" if best[place] else None,
            peer_value=best[place] or None,
            extra={key: row[key] for key in ("capacity_blocks", "bound", "blocks", "evictions")},
        )


def _paced(context: Context, programs: Programs, traces: Sequence[Path]) -> Iterator[Result]:
    """Whether a store of real bytes keeps up with 50 times the traces' pace."""
    policies = ("lru", "chain_lhd") if context.long else ("chain_lhd",)
    requests, speed = ("50", "100000") if context.tiny else ("0", "50")
    context.progress(f"traces at {speed} times their pace")
    block_bytes = "4096" if context.tiny else str(256 << 10)
    document = programs.run(
        *("tier", "replay", *traces, "--speed", speed, "--requests", requests),
        *("--block-bytes", block_bytes, "--policy", *policies),
    )
    for row in document["rows"]:
        yield _row(row)
