"""Faults of the card's engine: its function goes and comes, its link fails, it hangs, it dies."""

from __future__ import annotations

import time

from nkv_abi import CARD_VECTORS

from emulator.qemu.machine import CARD_PORT, Machine

from .monitor import Monitor, MonitorError

_SHARED_MEMORY = "memfd:nearkv-function"
"""That of the function's process, as the kernel names its descriptors."""


class Engine:
    """The engine of a running guest's card."""

    def __init__(self, guest: Machine, monitor: Monitor) -> None:
        self._guest = guest
        self._monitor = monitor

    def unplug(self) -> None:
        """Takes the function out of its slot; returns when the guest's driver has let go of it.

        Nobody may connect to QEMU's monitor before `plug`, see there.
        """
        self._monitor.run("device_del", id="engine")
        self._monitor.await_event("DEVICE_DELETED", device="engine")
        # QEMU keeps the connection of a function that is gone, and the process serves only one.
        self._monitor.run("chardev-remove", id="function")

    def plug(self) -> None:
        """Puts it back. Its process has to be there and awake: QEMU waits for it."""
        self._await_old_descriptors()
        path = {"type": "unix", "data": {"path": str(self._guest.function.socket)}}
        backend = {"type": "socket", "data": {"addr": path, "server": False}}
        self._monitor.run("chardev-add", id="function", backend=backend)
        self._monitor.run(
            "device_add",
            driver="ivshmem-doorbell",
            id="engine",
            chardev="function",
            vectors=CARD_VECTORS,
            bus=CARD_PORT,
        )

    def _await_old_descriptors(self, timeout_s: float = 30) -> None:
        """Waits until QEMU has closed all descriptors of the function before.

        QEMU 10.0 forgets to take its handlers from the interrupts' descriptors. They do no harm
        only if the next function's interrupts get the same numbers: then they are replaced.
        """
        deadline_s = time.monotonic() + timeout_s
        while any(name.startswith(f"/{_SHARED_MEMORY}") for name in self._guest.descriptors()):
            if time.monotonic() > deadline_s:
                raise MonitorError(f"QEMU kept {_SHARED_MEMORY} for {timeout_s:.0f} s")
            time.sleep(0.01)

    def stall(self, seconds: float) -> None:
        """Stands still for a while: what is in flight completes late."""
        self.hang()
        time.sleep(seconds)
        self.go_on()

    def hang(self) -> None:
        """It answers nothing and does nothing until `go_on`."""
        self._guest.function.hang()

    def go_on(self) -> None:
        """It goes on where it stood."""
        self._guest.function.go_on()

    def kill(self) -> None:
        """It dies. Its function stays, with nothing behind it: `unplug`, `restart` and `plug`."""
        self._guest.function.kill()

    def restart(self) -> None:
        """A new engine, on what the module's memory holds."""
        self._guest.function.start()

    def link_error(self, fatal: bool = False) -> None:
        """An uncorrectable error of the port above the function (PCI Express AER).

        Fatal: the kernel stops all traffic, resets the slot and has the driver begin anew.
        """
        severity = "fatal" if fatal else "nonfatal"
        self._monitor.run_human(f"pcie_aer_inject_error {CARD_PORT} {_ERRORS[severity]}")

    def corrected_link_error(self) -> None:
        """An error that the link corrected by itself."""
        self._monitor.run_human(f"pcie_aer_inject_error {CARD_PORT} RCVR")


_ERRORS = {"nonfatal": "POISON_TLP", "fatal": "DLP"}
"""QEMU's names of errors that are of this severity at reset."""
