"""The process behind the card's PCI function."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType


class FunctionError(RuntimeError):
    """The process did not start."""


class Function:
    """An engine on a CXL device's memory, which QEMU's function leads to. Ends with the context."""

    def __init__(self, program: Path, engine: str, memory: Path, socket: Path, serial: int) -> None:
        """`engine` is a device URI, to which the memory's file is added."""
        joint = "&" if "?" in engine else "?"
        self.socket = socket
        self._words = [str(program), "--device", f"{engine}{joint}file={memory}"]
        self._words += ["--socket", str(socket), "--serial", str(serial)]

    def __enter__(self) -> Function:
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout and self._process.stderr
        if self._process.stdout.readline() != "ready\n":
            raise FunctionError(self._process.stderr.read().strip())
        return self

    def kill(self) -> None:
        """Ends it at once, as a card that dies."""
        self._process.kill()
        self._process.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
