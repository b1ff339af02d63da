"""A near-data device's memory, as kernels see it: in place, or copied."""

import ctypes
from enum import IntEnum

import torch

from nearkv.core import Device
from nearkv.cuda.library import gpu_of


class MemoryPath(IntEnum):
    """enum nearkv_cuda_path: the way that kernels' loads and stores take."""

    HOST = 0
    PEER = 1


class RegisteredMemory:
    """Memory of a device, registered so that a GPU reaches it.

    `path` is the way there: HOST for a device that shares the host's memory, `cpu:` say, which is
    locked; PEER for a card's own memory, mapped by its driver (`linux:`), which kernels then reach
    from device to device. The device stays open with it. Close it, or leave its `with`, when no
    kernel uses it any more. Raises Error: IO_ERROR where the system does not lock so much,
    UNSUPPORTED where the GPU's driver does not reach the card.
    """

    def __init__(self, device: Device, where: torch.device) -> None:
        self.gpu = gpu_of(where)
        self.where = where
        self._device = device
        self._begin, self.bytes = device.memory
        seen, path = ctypes.c_void_p(), ctypes.c_uint32()
        begin = ctypes.c_void_p(self._begin)
        self.gpu.call("register", begin, self.bytes, ctypes.byref(seen), ctypes.byref(path))
        self.start = seen.value or 0
        self.path = MemoryPath(path.value)
        self._is_open = True

    def host(self, at: int, size: int) -> torch.Tensor:
        """The same bytes as the host's cores see them, uint8; good while this is open."""
        if not 0 <= at <= at + size <= self.bytes:
            raise ValueError("these bytes are not all in the memory")
        return torch.frombuffer(
            (ctypes.c_uint8 * size).from_address(self._begin + at), dtype=torch.uint8
        )

    def close(self) -> None:
        """Waits for the GPU, and unregisters."""
        if self._is_open:
            self._is_open = False
            self.gpu.call("synchronize", self.gpu.stream())
            self.gpu.call("unregister", ctypes.c_void_p(self._begin))

    def __enter__(self) -> "RegisteredMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CopiedMemory:
    """A copy of a device's memory, as it is now, in the GPU's own: for a PageWindow."""

    def __init__(self, device: Device, where: torch.device) -> None:
        self.gpu = gpu_of(where)
        self.where = where
        begin, self.bytes = device.memory
        kept = (ctypes.c_uint8 * self.bytes).from_address(begin)
        self._copy = torch.frombuffer(kept, dtype=torch.uint8).to(where, copy=True)
        self.start = self._copy.data_ptr()
