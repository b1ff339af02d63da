"""Redis: a server of its own on a Unix socket, with redis-py and hiredis as its client."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import redis
import worker


class RedisStore:
    """Values are whole strings; a batch is one MSET or MGET."""

    def __init__(self, memory: worker.Memory, folder: Path) -> None:
        del memory
        socket = folder / "redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
        command += ["--appendonly", "no", "--dir", str(folder)]
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._client = redis.Redis(unix_socket_path=str(socket))
        deadline = time.monotonic() + 30
        while True:
            try:
                self._client.ping()
                return
            except redis.ConnectionError:
                if time.monotonic() > deadline or self._server.poll() is not None:
                    self.close()
                    raise
                time.sleep(0.05)

    def set(self, keys: Sequence[str], sources: Sequence[memoryview]) -> None:
        """One MSET."""
        self._client.mset(dict(zip(keys, sources, strict=True)))

    def get(self, keys: Sequence[str], targets: Sequence[memoryview]) -> None:
        """One MGET; redis-py gives new bytes, which are copied to where they are wanted."""
        for value, target in zip(self._client.mget(keys), targets, strict=True):
            target[:] = value

    def exists(self, keys: Sequence[str]) -> int:
        """One EXISTS."""
        return self._client.exists(*keys)

    def clear(self, keys: Sequence[str]) -> None:
        """One DEL."""
        self._client.delete(*keys)

    def close(self) -> None:
        """Ends the server."""
        self._server.terminate()
        self._server.wait()


if __name__ == "__main__":
    worker.serve(RedisStore)
