"""Copies between a GPU's memory and the host's: streams, events, and one call for many pages.

Written for CUDA and ROCm, and only run on a stand-in for them: what it calls is what vLLM's own
offload to host memory calls (vllm/v1/kv_offload/cpu/gpu_worker.py of 0.32).
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch


class Event(Protocol):
    """A moment in a stream."""

    def query(self) -> bool:
        """Whether it has come."""

    def synchronize(self) -> None:
        """Waits for it, without the GIL."""


class Copies(NamedTuple):
    """Copies by address, int64 each."""

    sources: np.ndarray
    targets: np.ndarray
    sizes: np.ndarray

    def joined(self) -> "Copies":
        """The same, one for those that follow each other on both sides; of none there is none."""
        sources, targets, sizes = self
        follows = sources[1:] == sources[:-1] + sizes[:-1]
        follows &= targets[1:] == targets[:-1] + sizes[:-1]
        first = np.flatnonzero(np.concatenate([[True], ~follows]))
        return Copies(sources[first], targets[first], np.add.reduceat(sizes, first))


class Copier:
    """The device of one worker.

    mark() and follow() are about the stream that computes, so they belong on its thread; the rest
    may be called from any.
    """

    def __init__(self, platform: Any, copy_batch: Callable[..., None]) -> None:
        """vLLM's current_platform and its swap_blocks_batch()."""
        self._platform = platform
        self._copy_batch = copy_batch

    def host_memory(self, size: int) -> np.ndarray:
        """Memory that the device reads and writes itself, where the platform has such."""
        pins = self._platform.is_pin_memory_available()
        return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=pins).numpy()

    def stream(self) -> Any:
        """One beside the stream that computes."""
        return self._platform.Stream()

    def mark(self) -> Event:
        """When all that was given to the computing stream so far has ended."""
        return self._record(self._platform.current_stream())

    def follow(self, event: Event) -> None:
        """What is given to the computing stream from now on begins after the event."""
        self._platform.current_stream().wait_event(event)

    def copy(self, stream: Any, copies: Copies, after: Event, *, to_device: bool) -> Event:
        """Begins copies once `after` has come; their end. Host memory stays as it is until then.

        Only a source in host memory may be read ahead of the stream: nothing on the device writes
        there.
        """
        with self._platform.stream(stream):
            stream.wait_event(after)
            if len(copies.sizes):
                lists = [torch.from_numpy(part) for part in copies.joined()]
                self._copy_batch(*lists, is_src_access_order_any=to_device)
            return self._record(stream)

    def _record(self, stream: Any) -> Event:
        # Whoever waits sleeps: there are as many waiting threads as lanes.
        event = self._platform.Event(blocking=True)
        event.record(stream)
        return event
