"""Measures the kernels on an NVIDIA GPU, beside its plain copy, torch and FlashInfer.

Without a GPU that torch sees, what kernels take of one, as nvcc says, is all; --tiny runs the rest
on emulated kernels.
"""

from collections.abc import Iterator

from bench import Context
from bench.gpu import baselines, resources
from bench.gpu.place import Place
from nearkv.results import Result


def run(context: Context) -> Iterator[Result]:
    """Yields what kernels take; then their bandwidth, and rates beside peers."""
    if not context.tiny:
        yield from resources.run(context)
    yield from baselines.run(context, Place.choose(context))
