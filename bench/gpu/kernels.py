"""Kernels beside the GPU's own copy: which share of its memory's bandwidth they reach."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from bench import Context
from bench.gpu.baselines import window
from bench.gpu.place import Place
from nearkv.core import PAGE_TOKENS, Codec, Device, Pool, Tensor, encode_block
from nearkv.cuda import (
    PageWindow,
    attend_window,
    check_fault,
    decode_blocks,
    gather_rows,
    page_bounds,
)
from nearkv.cuda.memory import CopiedMemory
from nearkv.results import Goal, Result

_SHARE = Goal(">=", 0.8, of="ratio")
_DIM = 128


@dataclass(frozen=True)
class Work:
    """A call, and the bytes that it has to read and write at least."""

    name: str
    call: Callable[[], object]
    least_bytes: int
    goal: Goal | None = _SHARE
    extra: str = ""


def run(context: Context, place: Place) -> Iterator[Result]:
    """Yields GB/s of each kernel, in turns with a copy within the GPU's memory."""
    repeat = 51 if context.long else 9
    source = torch.empty(place.size(1 << 30, 1 << 16), dtype=torch.uint8, device=place.where)
    target = torch.empty_like(source)
    source.random_(0, 255)
    for make in (_attention, _pages, _blocks, _bounds, _gather):
        for work in make(place):
            context.progress(f"{work.name}, beside a copy")
            own, copy = place.seconds([work.call, lambda: target.copy_(source)], repeat)
            yield Result.of_samples(
                f"cuda/{work.name}",
                own.per_second(work.least_bytes / 1e9),
                "GB/s",
                peer="copy within the GPU",
                beside=copy.per_second(2 * source.numel() / 1e9),
                goal=work.goal,
                device=place.device,
                extra={"least_bytes": work.least_bytes, "what": work.extra or "bytes once each"},
            )
            del work


def _attention(place: Place) -> list[Work]:
    return [_attend(place, group) for group in (1, 4, 8)]


def _attend(place: Place, group: int) -> Work:
    query, key, value = window(place, group)
    kept = 2 * key.numel() * key.element_size()
    return Work(f"attend_group_{group}", lambda: attend_window(query, key, value, 0.09), kept, None)


def _pages(place: Place) -> list[Work]:
    tokens = place.size(1 << 20, 128)
    device = Device(f"cpu:?memory={max(tokens * _DIM * 5, 64 << 20)}")
    pool = Pool.create(device, layers=1, kv_heads=1, head_dim=_DIM, max_sequences=1)
    pool.create_sequence(0)
    rows = torch.randn(1, min(tokens, 1 << 14), _DIM).to(torch.bfloat16)
    for _ in range(tokens // rows.shape[1]):
        pool.append(0, 0, rows, rows)
    pages = PageWindow(CopiedMemory(device, place.where), pool, 0, 0, 0)
    check_fault(pages.rows(Tensor.KEYS)[1])
    row, out = _DIM * 3 // 2, _DIM * 2
    per_page = {"header": 128, "exponents": _DIM, "digest": 2 * _DIM, "plane": 8 * _DIM}
    delta = per_page["header"] + per_page["exponents"] + PAGE_TOKENS * (row + out)
    planes = per_page["header"] + per_page["digest"] + 3 * per_page["plane"] + PAGE_TOKENS * out
    count = tokens // PAGE_TOKENS
    return [
        Work("page_rows_delta4", lambda: pages.rows(Tensor.KEYS), count * delta),
        Work("page_planes_3", lambda: pages.planes(3), count * planes),
    ]


def _blocks(place: Place) -> list[Work]:
    codecs = (Codec.INT8, Codec.INT4, Codec.FP8)
    return [_decode(place, codec, tensor) for codec in codecs for tensor in list(Tensor)[:2]]


def _decode(place: Place, codec: Codec, tensor: Tensor) -> Work:
    rows = torch.randn(PAGE_TOKENS, _DIM).to(torch.bfloat16)
    encoded = bytearray(bytes(encode_block(codec, tensor, rows)))
    count = place.size(40_000, 2)
    blocks = torch.frombuffer(encoded, dtype=torch.uint8).repeat(count, 1).to(place.where)
    return Work(
        f"decode_{codec.name.lower()}_{tensor.name.lower()}",
        lambda: decode_blocks(blocks, _DIM, codec, tensor),
        blocks.numel() + count * PAGE_TOKENS * _DIM * 2,
    )


def _bounds(place: Place) -> list[Work]:
    return [_scan(place, rows) for rows in (1, 4, 8)]


def _scan(place: Place, rows: int) -> Work:
    pages = place.size(1 << 20, 64)
    digests = torch.randint(-1000, 1000, (pages, _DIM), dtype=torch.int16, device=place.where)
    exponents = torch.zeros(pages, dtype=torch.int16, device=place.where)
    query = torch.randn(rows, _DIM, device=place.where)
    moved = digests.numel() * 2 + pages * (2 + 4 * rows)
    return Work(f"page_bounds_rows_{rows}", lambda: page_bounds(query, digests, exponents), moved)


def _gather(place: Place) -> list[Work]:
    source = torch.randn(place.size(1 << 21, 64), 576, device=place.where).to(torch.bfloat16)
    count = place.size(1 << 19, 8)
    ids = torch.randint(0, len(source), (count,), device=place.where)
    moved = count * (2 * source.shape[1] * 2 + 8)
    text = "rows of 1,152 bytes, read and written, and their ids"
    return [Work("gather_in_hbm", lambda: gather_rows(source, ids), moved, extra=text)]
