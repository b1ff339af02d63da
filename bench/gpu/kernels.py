"""Kernels beside the GPU's own copy: which share of its memory's bandwidth they reach."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from bench import Context
from bench.gpu.baselines import window
from bench.gpu.place import Place
from nearkv.core import PAGE_TOKENS, Device, Pool, Tensor
from nearkv.cuda import (
    PageWindow,
    attend_window,
    check_fault,
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
    for make in (_attention, _pages, _bounds):
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


def _bounds(place: Place) -> list[Work]:
    return [_scan(place, rows) for rows in (1, 4, 8)]


def _scan(place: Place, rows: int) -> Work:
    pages = place.size(1 << 20, 64)
    digests = torch.randint(-1000, 1000, (pages, _DIM), dtype=torch.int16, device=place.where)
    exponents = torch.zeros(pages, dtype=torch.int16, device=place.where)
    query = torch.randn(rows, _DIM, device=place.where)
    moved = digests.numel() * 2 + pages * (2 + 4 * rows)
    return Work(f"page_bounds_rows_{rows}", lambda: page_bounds(query, digests, exponents), moved)
