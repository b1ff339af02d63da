"""A real daemon beside engines, which tests may kill and start again, and damage to pools."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from bench.engines.environment import ROOT


class Daemon:
    """`nearkv serve` on a pool in a folder. A context manager."""

    def __init__(self, folder: Path, *, size: str = "256MiB", config: Path | None = None) -> None:
        self.socket = str(folder / "nearkv.sock")
        self.pool = folder / "pool"
        self._size = size
        self._config = [] if config is None else ["--config", str(config)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it answers."""
        words = ["--pool", str(self.pool), "--size", self._size, "--socket", self.socket]
        words += self._config
        self._process = subprocess.Popen([ROOT / "build/release/bin/nearkv", "serve", *words])
        end_s = time.monotonic() + 30
        while not Path(self.socket).exists() and time.monotonic() < end_s:
            time.sleep(0.05)

    @property
    def process_id(self) -> int:
        """Of the one that runs."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Until go_on() it does nothing, and what it is asked for waits."""
        os.kill(self.process_id, signal.SIGSTOP)
        os.waitpid(self.process_id, os.WUNTRACED)

    def go_on(self) -> None:
        """After stop()."""
        os.kill(self.process_id, signal.SIGCONT)

    def kill(self) -> None:
        """As power does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        Path(self.socket).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()


def damage(pool: Path) -> int:
    """Flips a bit in every 64 KiB of keys and values, which are the pool's only dense bytes."""
    grain = 65536
    count = 0
    with pool.open("r+b") as file:
        for at in range(0, pool.stat().st_size, grain):
            file.seek(at)
            block = file.read(grain)
            if block.count(0) < grain // 10:
                file.seek(at + grain // 2)
                file.write(bytes([block[grain // 2] ^ 1]))
                count += 1
    return count
