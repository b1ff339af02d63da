"""Where kernels run, and how long they take there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from bench import Context, Skipped
from bench.timing import interleave
from nearkv.cuda import gpu_of
from nearkv.results import Samples


@dataclass(frozen=True)
class Place:
    """A GPU; or the host's cores, at sizes at which figures mean nothing."""

    where: torch.device
    is_tiny: bool

    @classmethod
    def choose(cls, context: Context) -> "Place":
        """Raises Skipped without a GPU, unless the bench is tiny; Error without kernels."""
        if torch.cuda.is_available():
            place = cls(torch.device("cuda", 0), context.tiny)
        elif context.tiny:
            place = cls(torch.device("cpu"), True)
        else:
            raise Skipped(
                "kernels were not run: torch sees no GPU; --tiny shows that the bench runs, on "
                "emulated ones"
            )
        gpu_of(place.where)
        return place

    @property
    def is_gpu(self) -> bool:
        return self.where.type == "cuda"

    def size(self, full: int, tiny: int) -> int:
        return tiny if self.is_tiny else full

    @property
    def device(self) -> str:
        """The GPU's name, as results have a device."""
        name = gpu_of(self.where).info.name.decode()
        return f"cuda:{name.replace(' ', '-')}"

    def seconds(self, calls: Sequence[Callable[[], object]], repeat: int) -> list[Samples]:
        """Of each call, in turns; on a GPU by its own events around ten in a row."""
        if not self.is_gpu:
            return interleave(calls, repeat=1)
        rounds = 10
        readings: list[list[float]] = [[] for _ in calls]
        for turn in range(repeat + 1):
            for call, seconds in zip(calls, readings, strict=True):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
                start.record()
                for _ in range(rounds):
                    call()
                end.record()
                end.synchronize()
                if turn:  # The first turn loads code and warms caches.
                    seconds.append(start.elapsed_time(end) / 1e3 / rounds)
        return [Samples(tuple(seconds)) for seconds in readings]
