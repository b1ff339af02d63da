"""A pool of cpu: beside a GPU: commands that kernels give, and steps of decoding."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from bench import Context
from bench.gpu.place import Place
from nearkv.core import Device, Pool
from nearkv.cuda import LayerPrefetch, NearAttention, NearQueue, attend_window
from nearkv.cuda.memory import RegisteredMemory
from nearkv.results import Goal, Result, Samples

_HEADS, _DIM, _GROUP = 8, 128, 4
_SCALE = _DIM**-0.5
_QUEUE_BYTES = 8 << 20
_RAW_TOKEN_BYTES = 2 * _HEADS * _DIM * 2  # K and V of one layer, bf16.


@contextmanager
def _pool(place: Place, tokens: int) -> Iterator[tuple[Pool, NearQueue]]:
    """A pool of one layer with one sequence, and a queue for kernels behind it."""
    pool_bytes = max(tokens * _RAW_TOKEN_BYTES * 5 // 4, 32 << 20) + (64 << 20)
    pool_bytes = pool_bytes >> 20 << 20
    device = Device(f"cpu:?memory={pool_bytes + _QUEUE_BYTES}")
    pool = Pool.create(
        device,
        layers=1,
        kv_heads=_HEADS,
        head_dim=_DIM,
        max_sequences=1,
        memory_bytes=pool_bytes,
    )
    pool.create_sequence(0)
    chunk = min(tokens, 8192)
    rows = torch.randn(2, _HEADS, chunk, _DIM).to(torch.bfloat16)
    for _ in range(tokens // chunk):
        pool.append(0, 0, rows[0], rows[1])
    with ExitStack() as stack:
        memory = stack.enter_context(RegisteredMemory(device, place.where))
        yield pool, stack.enter_context(NearQueue(memory, device, pool_bytes))


def _path(queue: NearQueue) -> str:
    """The way that kernels take to the device: its memory is the host's, or a card's own."""
    return queue.memory.path.name.lower()


def latency(context: Context, place: Place) -> Iterator[Result]:
    """Yields how long a kernel's command takes, beside one of the host's for the same query."""
    context.progress("a command of a kernel's, beside one of the host's")
    with _pool(place, 64) as (pool, queue):
        attention = NearAttention(queue, pool, [0], 0, group=_GROUP, scale=_SCALE)
        query = torch.randn(1, _HEADS, _GROUP, _DIM).to(torch.bfloat16).to(place.where)

        def by_kernel() -> None:
            attention.submit(query)
            attention.result()

        def by_host() -> None:
            output, lse = pool.attend([0], 0, query.cpu(), scale=_SCALE)
            torch.from_numpy(output).to(place.where)
            torch.from_numpy(lse).to(place.where)

        own, host = place.whole_seconds([by_kernel, by_host], 51 if context.long else 25)
        queue.check()
        path = _path(queue)
        yield _microseconds("cuda/near_commands", own, "commands of the host", host, place, path)
        if not place.is_gpu:
            return
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            by_kernel()
        replayed, host = place.whole_seconds([graph.replay, by_host], 51 if context.long else 25)
        queue.check()
        yield _microseconds(
            "cuda/near_commands_graph", replayed, "commands of the host", host, place, path
        )


def _microseconds(
    name: str, own: Samples, peer: str, beside: Samples, place: Place, path: str
) -> Result:
    micro = [Samples(tuple(reading * 1e6 for reading in one.readings)) for one in (own, beside)]
    return Result.of_samples(
        name,
        micro[0],
        "us",
        peer=peer,
        beside=micro[1],
        goal=Goal("<", 1, of="ratio"),
        device=place.device,
        extra={"commands": _HEADS, "tokens": 64, "path": path},
    )


def steps(context: Context, place: Place) -> Iterator[Result]:
    """Yields a layer's decoding step over a long context, near the data, fetched, and in HBM."""
    sizes = (128 << 10, 256 << 10, 512 << 10, 1 << 20)
    for tokens in (64,) if place.is_tiny else sizes if context.long else sizes[::3]:
        context.progress(f"a step over {tokens:,} tokens")
        yield from _step(place, tokens, 9 if context.long else 5)


def _step(place: Place, tokens: int, repeat: int) -> Iterator[Result]:
    kept = torch.randn(2, 1, _HEADS, tokens, _DIM, dtype=torch.bfloat16)
    here = [part.to(place.where) for part in kept.unbind(0)]
    layers = [[place.pinned(part) for part in kept.unbind(0)]] * 2
    query = torch.randn(1, _HEADS, _GROUP, _DIM).to(torch.bfloat16).to(place.where)
    turns = itertools.cycle((0, 1))
    with _pool(place, tokens) as (pool, queue), LayerPrefetch(layers, place.where) as fetch:
        attention = NearAttention(queue, pool, [0], 0, group=_GROUP, scale=_SCALE)

        def near() -> None:
            attention.submit(query)
            attention.result()

        def fetched() -> None:
            attend_window(query, *fetch.take(next(turns)), _SCALE)

        def in_hbm() -> None:
            attend_window(query, *here, _SCALE)

        samples = place.whole_seconds([near, fetched, in_hbm], repeat)
        queue.check()
        path = _path(queue)
    own, *others = [one.per_second(1) for one in samples]
    peers = {"fetched": "fetched over the link", "hbm": "all in HBM"}
    for (name, peer), beside in zip(peers.items(), others, strict=True):
        yield Result.of_samples(
            f"cuda/step_{tokens}_{name}",
            own,
            "steps/s",
            peer=peer,
            beside=beside,
            device=place.device,
            extra={
                "tokens": tokens,
                "kv_heads": _HEADS,
                "group": _GROUP,
                "layers": 1,
                "path": path,
            },
        )
