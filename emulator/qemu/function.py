"""The process behind the card's PCI function."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from pathlib import Path

from nkv_abi import CARD_BRIDGE


class FunctionError(RuntimeError):
    """The process did not start."""


class Function:
    """An engine on a CXL device's memory, which QEMU's function leads to. Ends with the context."""

    def __init__(
        self,
        program: Path,
        engine: str,
        memory: Path,
        folder: Path,
        serial: int,
        dynamic_bytes: int = 0,
    ) -> None:
        """`engine` is a device URI, to which the memory's file is added.

        The last `dynamic_bytes` of the memory are dynamic capacity. Its socket and its flash
        memory, which outlives it, lie in `folder`.
        """
        joint = "&" if "?" in engine else "?"
        self.socket = folder / "function"
        self._words = [str(program), "--device", f"{engine}{joint}file={memory}"]
        self._words += ["--socket", str(self.socket), "--serial", str(serial)]
        self._words += ["--flash", str(folder / "flash")]
        self._words += ["--dynamic-bytes", str(dynamic_bytes)]

    def __enter__(self) -> Function:
        self.start()
        return self

    def start(self) -> None:
        """Starts it, again after `kill`; QEMU then has to connect again."""
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout and self._process.stderr
        if self._process.stdout.readline() != "ready\n":
            raise FunctionError(self._process.stderr.read().strip())

    def hang(self) -> None:
        """Stops it without ending it, as an engine that hangs."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends `hang`."""
        self._process.send_signal(signal.SIGCONT)

    def unanswered(self) -> int:
        """How many of the driver's requests have no answer yet."""
        for link in Path(f"/proc/{self._process.pid}/fd").iterdir():
            if os.readlink(link).startswith("/memfd:nearkv-function"):
                at = CARD_BRIDGE.offsets["request"]
                request, answer = struct.unpack_from("<II", link.read_bytes(), at)
                return request - answer
        raise FunctionError("it has no memory to share")

    def kill(self) -> None:
        """Ends it at once, as a card that dies."""
        self._process.kill()
        self._process.wait()
        self._close_pipes()

    def __exit__(self, *exception: object) -> None:
        self.go_on()
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
