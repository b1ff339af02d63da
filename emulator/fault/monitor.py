"""QEMU's monitor, by QMP: commands and events, a call at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any

from qemu.qmp import EventListener, QMPClient, QMPError


class MonitorError(RuntimeError):
    """QEMU refused a command, did not answer in time, or is gone."""


class Monitor:
    """A connection to the monitor of a running QEMU. Every call is bounded by `timeout_s`.

    Not for several threads; QEMU serves one connection at a time.
    """

    def __init__(self, socket: Path, timeout_s: float = 60) -> None:
        self._socket = socket
        self._timeout_s = timeout_s

    def __enter__(self) -> Monitor:
        self._runner = asyncio.Runner()
        self._client = QMPClient("nearkv")
        self._listener = EventListener()
        self._kept: deque[dict[str, Any]] = deque()
        self._client.register_listener(self._listener)
        try:
            self._wait(self._client.connect(str(self._socket)), f"connecting to {self._socket}")
        except MonitorError:
            self._runner.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._wait(self._client.disconnect(), "disconnecting")
        except MonitorError:
            # A guest that has ended took the connection with it.
            if error is None and self._client.runstate.name == "RUNNING":
                raise
        finally:
            self._runner.close()

    def run(self, command: str, **arguments: Any) -> Any:
        """What QEMU answers. Underscores in names stand for dashes, as QMP has them."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        return self._wait(self._client.execute(command, named), command)

    def run_human(self, line: str) -> str:
        """The same of a command that QMP lacks; MonitorError if it says anything."""
        said = str(self.run("human-monitor-command", command_line=line)).strip()
        if said and not said.startswith("OK"):
            raise MonitorError(f"{line}: {said}")
        return said

    def await_event(self, name: str, **data: Any) -> dict[str, Any]:
        """The oldest event of this name, with these data, that no call has taken yet."""

        def fits(event: dict[str, Any]) -> bool:
            told = event.get("data", {})
            return event["event"] == name and all(told.get(key) == data[key] for key in data)

        async def next_fitting() -> dict[str, Any]:
            for event in list(self._kept):
                if fits(event):
                    self._kept.remove(event)
                    return event
            while True:
                event = dict(await self._listener.get())
                if fits(event):
                    return event
                self._kept.append(event)

        return dict(self._wait(next_fitting(), f"event {name}"))

    def _wait(self, work: Any, what: str) -> Any:
        try:
            return self._runner.run(asyncio.wait_for(work, self._timeout_s))
        except TimeoutError as error:
            raise MonitorError(f"{what}: QEMU did not answer in {self._timeout_s:.0f} s") from error
        except (QMPError, EOFError, OSError) as error:
            raise MonitorError(f"{what}: {error}") from error
