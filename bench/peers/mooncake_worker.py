"""Mooncake's store: a master of its own over TCP, segment and client in this process."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import worker

os.environ.setdefault("MC_STORE_MEMCPY", "1")  # copies within a process go past TCP

from mooncake.store import MooncakeDistributedStore


class MooncakeStore:
    """The caller's memory is registered, so that batches are copied without staging."""

    def __init__(self, memory: worker.Memory, folder: Path) -> None:
        del folder
        port = _free_port()
        master = Path(sys.executable).parent / "mooncake_master"
        self._master = subprocess.Popen(
            [str(master), f"--rpc_port={port}", f"--metrics_port={_free_port()}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        total = len(memory.sources) * memory.object_bytes
        self._memory = memory
        self._store = MooncakeDistributedStore()
        deadline = time.monotonic() + 30
        address = f"127.0.0.1:{port}"
        while self._store.setup(
            "127.0.0.1", "P2PHANDSHAKE", 2 * total + (256 << 20), 64 << 20, "tcp", "", address
        ):
            if time.monotonic() > deadline or self._master.poll() is not None:
                self._master.terminate()
                raise RuntimeError("mooncake's store does not start")
            time.sleep(0.2)
        for one in (memory.source_map, memory.target_map):
            if self._store.register_buffer(_address(memoryview(one)), total):
                raise RuntimeError("memory cannot be registered")

    def set(self, keys: Sequence[str], sources: Sequence[memoryview]) -> None:
        """One batch_put_from."""
        addresses, sizes = _addresses(sources)
        if any(self._store.batch_put_from(list(keys), addresses, sizes)):
            raise RuntimeError("not stored")

    def get(self, keys: Sequence[str], targets: Sequence[memoryview]) -> None:
        """One batch_get_into."""
        addresses, sizes = _addresses(targets)
        if self._store.batch_get_into(list(keys), addresses, sizes) != sizes:
            raise RuntimeError("not loaded")

    def exists(self, keys: Sequence[str]) -> int:
        """One batch_is_exist."""
        return sum(found == 1 for found in self._store.batch_is_exist(list(keys)))

    def clear(self, keys: Sequence[str]) -> None:
        """What has just been read is leased for a while, hence the force."""
        self._store.batch_remove(list(keys), True)

    def close(self) -> None:
        """Ends client and master."""
        self._store.close()
        self._master.terminate()
        self._master.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _addresses(views: Sequence[memoryview]) -> tuple[list[int], list[int]]:
    return [_address(view) for view in views], [len(view) for view in views]


if __name__ == "__main__":
    worker.serve(MooncakeStore)
