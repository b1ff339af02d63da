"""The emulated card, ready to boot: QEMU, the guest, and this build's programs in it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from .debug_kernel import build_mock_modules
from .driver import build_driver
from .image import Guest, build_guest, find_qemu
from .machine import Machine
from .overlay import write_modules, write_overlay
from .packages import Report
from .topology import Topology

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
CACHE = ROOT / "build" / "vm"
_PROGRAMS = (
    "bin/nearkv",
    "tests/host/host_*_test",
    "tests/driver/driver_*_test",
    "bench/card/nearkv_card_latency",
)
_IMAGES = ("firmware/*.signed",)
_PLUGINS = ("lib/libnearkv_model.so",)


class Platform:
    """Fetches and makes what guests boot from, once; boots as many as are wanted.

    Several processes may do so at a time: one makes, the others wait for it.
    """

    def __init__(self, report: Report, debugs: bool = False) -> None:
        """`report` takes a line for each step that may take long.

        If it `debugs`, the guest's kernel has KASAN and lockdep.
        """
        CACHE.mkdir(parents=True, exist_ok=True)
        with FileLock(CACHE / "lock"):
            self._guest = self._make(report, debugs)

    def _make(self, report: Report, debugs: bool) -> Guest:
        self._qemu, self._environment = find_qemu(CACHE, report)
        guest = build_guest(CACHE, report, debugs)
        folder = CACHE / ("overlay-debug" if debugs else "overlay")
        overlay = folder.with_suffix(".gz")
        driver = build_driver(CACHE, guest.kernel_root, guest.release, report)
        write_overlay(
            folder,
            guest.root,
            _built(_PROGRAMS),
            _built(_PLUGINS),
            driver,
            _built(_IMAGES),
            overlay,
        )
        self._mock_modules = CACHE / "mock-modules.gz"
        if debugs:
            modules = build_mock_modules(guest.kernel_root, report)
            folder = self._mock_modules.with_suffix("")
            write_modules(folder, guest.root, guest.release, modules, self._mock_modules)
        return dataclasses.replace(guest, initramfs=(*guest.initramfs, overlay))

    @contextmanager
    def boot(self, topology: Topology | None = None, processors: int = 2) -> Iterator[Machine]:
        """A running guest; its files go with it."""
        topology, guest = topology or Topology(), self._guest
        if topology.mock_devices:
            guest = dataclasses.replace(guest, initramfs=(*guest.initramfs, self._mock_modules))
        with tempfile.TemporaryDirectory(prefix="nearkv-vm-") as folder:
            machine = Machine(
                self._qemu,
                self._environment,
                guest,
                Path(folder),
                topology,
                processors,
                BUILD / "bin" / "nearkv-function",
            )
            with machine:
                yield machine


def _built(patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in BUILD.glob(pattern))
