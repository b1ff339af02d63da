"""memcached: a server of its own on a Unix socket, one thread, with pymemcache as its client."""

import os
import pwd
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import worker
from pymemcache.client.base import Client


class MemcachedStore:
    """A set is a pipelined set_many, a get a get_many."""

    def __init__(self, memory: worker.Memory, folder: Path) -> None:
        socket = folder / "memcached.sock"
        megabytes = 2 * (len(memory.sources) * memory.object_bytes >> 20) + 256
        command = ["memcached", "-s", str(socket), "-t", "1", "-I", "8m", "-m", str(megabytes)]
        command += ["-u", pwd.getpwuid(os.getuid()).pw_name]
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not socket.exists():
            if time.monotonic() > deadline or self._server.poll() is not None:
                self.close()
                raise RuntimeError("memcached does not start")
            time.sleep(0.05)
        self._client = Client(str(socket), no_delay=True)

    def set(self, keys: Sequence[str], sources: Sequence[memoryview]) -> None:
        """set_many takes bytes only, so it costs a copy more."""
        values = {key: bytes(source) for key, source in zip(keys, sources, strict=True)}
        if failed := self._client.set_many(values, noreply=False):
            raise RuntimeError(f"not stored: {failed}")

    def get(self, keys: Sequence[str], targets: Sequence[memoryview]) -> None:
        """Copies what get_many gives to where it is wanted."""
        values = self._client.get_many(keys)
        for key, target in zip(keys, targets, strict=True):
            target[:] = values[key]

    def exists(self, keys: Sequence[str]) -> int:
        """memcached has no question for this; touch moves no bytes."""
        return sum(self._client.touch(key, noreply=False) for key in keys)

    def clear(self, keys: Sequence[str]) -> None:
        """One delete each, without replies."""
        self._client.delete_many(keys, noreply=True)

    def close(self) -> None:
        """Ends the server."""
        self._server.terminate()
        self._server.wait()


if __name__ == "__main__":
    worker.serve(MemcachedStore)
