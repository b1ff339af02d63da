"""A near-data device's memory, as kernels see it: in place, or copied."""

import ctypes

import torch
from nkv_abi import PAGE_GRAIN_BYTES

from nearkv.core import Device
from nearkv.cuda.library import gpu_of


class RegisteredMemory:
    """Memory of a device that shares the host's, `cpu:` say, locked so that a GPU reaches it.

    The device stays open with it. Close it, or leave its `with`, when no kernel uses it any more.
    Raises Error: IO_ERROR where the system does not lock so much.
    """

    def __init__(self, device: Device, where: torch.device) -> None:
        self.gpu = gpu_of(where)
        self.where = where
        self._device = device
        self._begin, self.bytes = device.memory
        seen = ctypes.c_void_p()
        self.gpu.call("register", ctypes.c_void_p(self._begin), self.bytes, ctypes.byref(seen))
        self.start = seen.value or 0
        self._is_open = True

    def close(self) -> None:
        """Waits for the GPU, and unlocks."""
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
        room = torch.empty(self.bytes + PAGE_GRAIN_BYTES, dtype=torch.uint8, device=where)
        skipped = -room.data_ptr() % PAGE_GRAIN_BYTES
        self._copy = room[skipped : skipped + self.bytes]
        self._copy.copy_(torch.frombuffer(kept, dtype=torch.uint8))
        self.start = self._copy.data_ptr()
