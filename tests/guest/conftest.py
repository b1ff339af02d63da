"""Guests of the emulated card."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from emulator.qemu.machine import Machine, Topology
from emulator.qemu.packages import PackageError
from emulator.qemu.platform import Platform

Boot = Callable[..., Machine]


@pytest.fixture(scope="session")
def platform() -> Platform:
    if shutil.which("depmod") is None:
        pytest.skip("depmod is not here; this line installs it: sudo apt-get install kmod")
    try:
        return Platform(print)
    except PackageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def boot(platform: Platform) -> Iterator[Boot]:
    """Boots a guest that lives as long as the module's tests."""
    with ExitStack() as guests:

        def run(topology: Topology | None = None, **options: object) -> Machine:
            return guests.enter_context(platform.boot(topology, **options))

        yield run
