"""Measures the kernels on an NVIDIA GPU, beside its plain copy, torch and FlashInfer.

Without a GPU that torch sees, what kernels take of one, as nvcc says, is all; --tiny runs the rest
on emulated kernels.
"""

from collections.abc import Iterator

import torch

from bench import Context, each_part
from bench.gpu import baselines, kernels, resources
from bench.gpu.place import Place
from nearkv.cuda import check_fault, gather_rows
from nearkv.results import Result

_TOP = 2048
_LATENT = 576


def run(context: Context) -> Iterator[Result]:
    """Yields what kernels take; then shares of bandwidth, rates, rows fetched."""
    if not context.tiny:
        yield from resources.run(context)
    place = Place.choose(context)
    parts = (kernels.run, baselines.run, _scattered)
    yield from each_part(part(context, place) for part in parts)


def _scattered(context: Context, place: Place) -> Iterator[Result]:
    """The best 2,048 rows of MLA latents from the host's memory, in three ways."""
    context.progress("top-2048 rows from the host's memory")
    rows = place.size(1 << 20, 256)
    source = place.pinned(torch.randn(rows, _LATENT).to(torch.bfloat16))
    count = min(_TOP, rows)
    ids = torch.randperm(rows)[:count]
    ids_there = ids.to(place.where)
    out = torch.empty(count, _LATENT, dtype=source.dtype, device=place.where)

    def by_kernel() -> None:
        gather_rows(source, ids_there)

    def by_copies() -> None:
        for place_of, row in enumerate(ids.tolist()):
            out[place_of].copy_(source[row], non_blocking=True)

    def by_host() -> None:
        out.copy_(place.pinned(source[ids]), non_blocking=True)

    found, fault = gather_rows(source, ids_there)
    check_fault(fault)
    if not torch.equal(found.cpu(), source[ids]):
        raise AssertionError("the gathered rows are others than the source's")
    samples = place.whole_seconds([by_kernel, by_copies, by_host], 25 if context.long else 9)
    moved = count * _LATENT * 2 / 1e9
    own, *others = [one.per_second(moved) for one in samples]
    for name, peer, beside in zip(
        ("copies", "host"), ("a copy a row", "packed by the host, then copied"), others, strict=True
    ):
        yield Result.of_samples(
            f"cuda/gather_top_2048_{name}",
            own,
            "GB/s",
            peer=peer,
            beside=beside,
            device=place.device,
            extra={"rows": count, "row_bytes": _LATENT * 2, "of": rows},
        )
