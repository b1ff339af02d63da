"""Faults of a CXL module: what its media, its event logs and its link report.

The module's own logic is QEMU's: it raises the interrupts that a module raises, and the guest's
unmodified drivers fetch and clear what it logged. Poison is reported and not enforced: a load of a
poisoned line gives data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from emulator.qemu.machine import Machine

from .monitor import Monitor

LINE_BYTES = 64
"""Poison counts in lines."""


class Log(StrEnum):
    """The event log that an event goes to: its severity."""

    INFORMATIONAL = "informational"
    WARNING = "warning"
    FAILURE = "failure"
    FATAL = "fatal"


@dataclass(frozen=True)
class Descriptor:
    """What kind of media event it is (CXL 3.1 table 8-46)."""

    uncorrectable: bool = True
    threshold: bool = False
    overflow: bool = False

    def bits(self) -> int:
        return self.uncorrectable | self.threshold << 1 | self.overflow << 2


class Module:
    """The module that is device `n` of a guest's topology."""

    def __init__(self, monitor: Monitor, n: int = 0) -> None:
        self._monitor = monitor
        self._path = f"/machine/peripheral/device{n}"

    def poison(self, start: int, size_bytes: int = LINE_BYTES) -> None:
        """Poisons lines, by their address in the module's memory."""
        if start % LINE_BYTES or size_bytes % LINE_BYTES or size_bytes <= 0:
            raise ValueError(f"no whole lines of {LINE_BYTES} bytes: {start:#x}, {size_bytes}")
        self._monitor.run("cxl-inject-poison", path=self._path, start=start, length=size_bytes)

    def general_media_event(
        self, address: int, log: Log, descriptor: Descriptor = Descriptor()
    ) -> None:
        """Something happened to the media at `address` (CXL 3.1 8.2.9.2.1.1)."""
        self._media_event("general-media", address, log, descriptor)

    def dram_event(
        self, address: int, log: Log, descriptor: Descriptor = Descriptor(), row: int = 0
    ) -> None:
        """The same of a DRAM, whose row it tells (8.2.9.2.1.2)."""
        self._media_event("dram", address, log, descriptor, row=row)

    def module_event(
        self, log: Log, health_status: int = 0, media_status: int = 0, temperature_celsius: int = 25
    ) -> None:
        """A change of the module's health (8.2.9.2.1.3)."""
        self._monitor.run(
            "cxl-inject-memory-module-event",
            path=self._path,
            log=str(log),
            flags=1,
            type=0,
            health_status=health_status,
            media_status=media_status,
            additional_status=0,
            life_used=5,
            temperature=temperature_celsius,
            dirty_shutdown_count=0,
            corrected_volatile_error_count=0,
            corrected_persistent_error_count=0,
        )

    def correctable_error(self, kind: str = "physical") -> None:
        """An error that the link or the module corrected; see `unmask_errors`."""
        self._monitor.run("cxl-inject-correctable-error", path=self._path, type=kind)

    def uncorrectable_error(self, *kinds: str) -> None:
        """Errors that it could not correct: the kernel gives the module up; see `unmask_errors`."""
        errors = [{"type": kind, "header": [0]} for kind in kinds or ("mem-data-parity",)]
        self._monitor.run("cxl-inject-uncorrectable-errors", path=self._path, errors=errors)

    def _media_event(
        self, kind: str, address: int, log: Log, descriptor: Descriptor, **more: int
    ) -> None:
        self._monitor.run(
            f"cxl-inject-{kind}-event",
            path=self._path,
            log=str(log),
            flags=1,
            dpa=address,
            descriptor=descriptor.bits(),
            type=0,
            transaction_type=1,
            **more,
        )


_AER_MASKS = (0x208, 0x214)
"""Of uncorrectable and correctable errors, in the configuration space of QEMU's modules."""


def unmask_errors(guest: Machine, module: str = "mem0") -> None:
    """Has the guest hear of a module's errors: Linux 6.12 leaves its internal errors masked."""
    config = f"$(readlink -f /sys/bus/cxl/devices/{module})/../config"
    for mask in _AER_MASKS:
        guest.check(
            f"printf '\\0\\0\\0\\0' | dd of={config} bs=1 seek={mask} conv=notrunc 2> /dev/null"
        )
