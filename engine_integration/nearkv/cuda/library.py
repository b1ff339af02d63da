"""The libraries that kernels are in, and the GPUs that they run on."""

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

import _nearkv
import torch

from nearkv.core import Dtype, Error, Status
from nearkv.cuda import structures

_TEXT_BYTES = 512
_CHOSEN = "NEARKV_CUDA_LIBRARY"
_MENDS = {
    "cuda": "install NearKV with nvcc 12 or newer on the PATH (pip install with "
    "--config-settings=cmake.define.NEARKV_CUDA=ON says what is missing), or name the file "
    f"in {_CHOSEN}",
    "cpu": "tensors of the host are worked on in a build of the repository, for tests; "
    "move them to a GPU",
}
DTYPES = {torch.bfloat16: Dtype.BF16, torch.float16: Dtype.FP16, torch.float32: Dtype.FP32}


class Gpu:
    """One GPU, or the host's cores in its place; calls of nearkv_cuda.h on it.

    Thread-safe. Raises Error with a status and a line that says what to do.
    """

    def __init__(self, library: Path, ordinal: int) -> None:
        self._ordinal = ordinal
        self._library = ctypes.CDLL(str(library))
        self._check_structures(library)
        reason = ctypes.create_string_buffer(_TEXT_BYTES)
        self._handle = ctypes.c_void_p()
        status = self._library.nearkv_cuda_open(
            ordinal, ctypes.byref(self._handle), reason, _TEXT_BYTES
        )
        _nearkv.check(status, reason.value.decode())
        self.info = structures.Info()
        self._library.nearkv_cuda_describe(self._handle, ctypes.byref(self.info))
        self.attend_dims = {
            dtype: int(self._library.nearkv_cuda_attend_dim(self._handle, number))
            for dtype, number in DTYPES.items()
        }
        """The greatest head_dim that attend_window takes of each type."""

    @property
    def is_emulated(self) -> bool:
        """Whether the host's cores run the kernels."""
        return self.info.architecture == 0

    def call(self, name: str, *arguments: Any) -> None:
        """nearkv_cuda_`name`; structures are passed by their address, integers as 64 bits."""
        passed = [
            ctypes.byref(argument)
            if isinstance(argument, ctypes.Structure)
            else ctypes.c_uint64(argument)
            if isinstance(argument, int)
            else argument
            for argument in arguments
        ]
        status = self._library[f"nearkv_cuda_{name}"](self._handle, *passed) & 0xFF
        if status != Status.OK:
            text = ctypes.create_string_buffer(_TEXT_BYTES)
            self._library.nearkv_cuda_last_error(self._handle, text, _TEXT_BYTES)
            _nearkv.check(status, text.value.decode())

    def splits(self, row_groups: int, tokens: int) -> int:
        """Parts that keep the GPU busy with a window of so many tokens."""
        return int(self._library.nearkv_cuda_splits(self._handle, row_groups, tokens))

    def stream(self) -> ctypes.c_void_p:
        """Where torch works on the GPU at this moment."""
        if self.is_emulated:
            return ctypes.c_void_p()
        return ctypes.c_void_p(torch.cuda.current_stream(self._ordinal).cuda_stream)

    def _check_structures(self, library: Path) -> None:
        count = len(structures.ALL)
        sizes = (ctypes.c_uint32 * count)()
        self._library.nearkv_cuda_structures.restype = ctypes.c_size_t
        there = self._library.nearkv_cuda_structures(sizes, ctypes.c_size_t(count))
        if there != count or list(sizes) != [ctypes.sizeof(one) for one in structures.ALL]:
            _nearkv.check(Status.BAD_ABI, f"{library} is of another version than this package")


def gpu_of(device: torch.device) -> Gpu:
    """The GPU that works on a device's tensors. Raises Error: NO_DEVICE, UNSUPPORTED."""
    ordinal = 0
    if device.type == "cuda":
        ordinal = torch.cuda.current_device() if device.index is None else device.index
    return _open(device.type, ordinal)


def serves(device: torch.device) -> bool:
    """Whether the kernels are there for a GPU's tensors; never for the host's own."""
    if device.type != "cuda":
        return False
    try:
        gpu_of(device)
    except Error:
        return False
    return True


@functools.cache
def _open(kind: str, ordinal: int) -> Gpu:
    if kind not in ("cuda", "cpu"):
        _nearkv.check(Status.UNSUPPORTED, f"NearKV has no kernels for tensors of {kind}")
    name = "libnearkv_cuda.so" if kind == "cuda" else "libnearkv_cuda_emulated.so"
    here = Path(_nearkv.__file__).parent
    chosen = os.environ.get(_CHOSEN) if kind == "cuda" else None
    places = [Path(chosen)] if chosen else [here / "nearkv/lib" / name, here / "../lib" / name]
    for place in places:
        if place.exists():
            return Gpu(place.resolve(), ordinal)
    if chosen:
        _nearkv.check(Status.NO_DEVICE, f"{_CHOSEN} names {chosen}, which is not there")
    _nearkv.check(Status.NO_DEVICE, f"{name} is not beside {here}: {_MENDS[kind]}")
    raise AssertionError
