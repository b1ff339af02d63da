"""Which CXL devices a guest has."""

from __future__ import annotations

from dataclasses import dataclass

DEVICE_GRAIN_BYTES = 256 << 20
"""What a CXL decoder counts in: a device's memory is a multiple of it."""


@dataclass(frozen=True)
class Topology:
    """CXL devices: n has serial number n + 1 and hangs below bridge n modulo `bridges`."""

    devices: int = 1
    bridges: int = 1
    memory_bytes: int = DEVICE_GRAIN_BYTES
    """Of each device."""
    engine: str = ""
    """Device URI of the engine on the first device's memory; none: no card, just memory."""
    dynamic_bytes: int = 0
    """Of the first device's memory, at its end: dynamic capacity, as its card's firmware has it.
    The guest's kernel does not know: CXL's own driver talks to QEMU's mailbox."""
    host_root: bool = False
    """The host's files, read only, can be mounted: see Machine.mount_host()."""
    mock_devices: bool = False
    """Linux's mock CXL devices can be made beside: see Machine.make_mock_devices(). Their kernel
    is the debugging one, and its CXL drivers have the mock's way in."""
