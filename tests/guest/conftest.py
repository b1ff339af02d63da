"""Guests of the emulated card."""

import shutil

import pytest

from emulator.qemu.packages import PackageError
from emulator.qemu.platform import Platform


@pytest.fixture(scope="session")
def platform() -> Platform:
    if shutil.which("depmod") is None:
        pytest.skip("depmod is not here; this line installs it: sudo apt-get install kmod")
    try:
        return Platform(print)
    except PackageError as error:
        pytest.skip(str(error))
