"""Pages of SGLang's host pools, as pieces of the pools' own memory."""

import bisect
from typing import Any

import torch

from nearkv.sglang import compat


class HostPages:
    """Where the pages of one host pool lie.

    Pieces are lent, not copied: a store reads and writes the pool itself. A pool whose pages do not
    lie in its own buffers is refused.
    """

    def __init__(self, pool: Any) -> None:
        """ValueError for a pool or a layout of which no page can be found."""
        self._pool = pool
        self.page_tokens = compat.page_tokens_of(pool)
        buffers = sorted(compat.buffers_of(pool), key=torch.Tensor.data_ptr)
        self._addresses = [buffer.data_ptr() for buffer in buffers]
        self._memory = [_bytes_of(buffer) for buffer in buffers]
        self.holds_bytes = bool(buffers)
        self.piece_bytes: list[int] = []
        if self.holds_bytes:
            try:
                [first] = self.pieces(torch.arange(self.page_tokens))
            except (NotImplementedError, ValueError) as error:
                raise ValueError(
                    f"pages of {type(pool).__name__} in layout {pool.layout} cannot be stored "
                    f"({error}): start SGLang with --hicache-mem-layout page_first"
                ) from error
            self.piece_bytes = [len(piece) for piece in first]

    @property
    def page_bytes(self) -> int:
        """Of a whole page."""
        return sum(self.piece_bytes)

    def pieces(self, host_indices: torch.Tensor) -> list[list[memoryview]]:
        """Of each page, in the pool's order. ValueError for indices that are not in the pool."""
        page_count = len(host_indices) // self.page_tokens
        addresses, sizes = self._pool.get_page_buffer_meta(host_indices)
        per_page = len(addresses) // page_count
        found = [self._piece(*place) for place in zip(addresses, sizes, strict=True)]
        return [found[i : i + per_page] for i in range(0, len(found), per_page)]

    def _piece(self, address: int, size: int) -> memoryview:
        number = bisect.bisect_right(self._addresses, address) - 1
        start = address - self._addresses[number]
        if number < 0 or start + size > len(self._memory[number]):
            raise ValueError("a page lies outside of the pool's buffers")
        return self._memory[number][start : start + size]


def _bytes_of(buffer: torch.Tensor) -> memoryview:
    if buffer.device.type != "cpu" or not buffer.is_contiguous():
        raise ValueError("a host pool's buffers have to be contiguous host memory")
    return memoryview(buffer.view(-1).view(torch.uint8).numpy())
