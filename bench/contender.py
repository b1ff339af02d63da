"""Processes that take turns at the same work, each in an environment of its own."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any


class ContenderError(RuntimeError):
    """A contender that cannot be started, or that failed at an order."""


class Contender(AbstractContextManager):
    """A process that works on orders, a line each, and answers with a line of JSON.

    An order is a word, and what the word needs. The process's first line, `ready`, says that it is.
    One thread of OpenMP each; `environment` is added to ours, of which PYTHONPATH is left out. Use
    it in a `with`.
    """

    def __init__(
        self, title: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.title = title
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # What they print matters only when they fail.
            text=True,
            env=inherited | {"OMP_NUM_THREADS": "1"} | dict(environment or {}),
        )
        self.ready = self._answer("start")

    def order(self, what: str) -> dict[str, Any]:
        """Gives an order and waits for the reply. Raises ContenderError."""
        assert self._process.stdin is not None
        try:
            print(what, file=self._process.stdin, flush=True)
        except OSError as error:
            raise ContenderError(f"{self.title}: gone before {what.split()[0]}") from error
        return self._answer(what.split()[0])

    def _answer(self, what: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise ContenderError(
                f"{self.title}: failed at {what}, status {self._process.returncode}"
            )
        reply = json.loads(line)
        if "error" in reply:
            raise ContenderError(f"{self.title}: {reply['error']}")
        return reply

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):  # it has failed already, and the failure is on its way
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
