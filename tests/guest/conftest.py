"""Guests of the emulated card."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulator.qemu.image import fetch_kernel
from emulator.qemu.machine import Machine
from emulator.qemu.packages import PackageError
from emulator.qemu.platform import CACHE, Platform

# What a kernel says when something is wrong with it or with a driver.
_COMPLAINTS = re.compile(r"WARNING|BUG|Oops|Call Trace|KASAN|lockdep|hung task|leaked|general prot")
# That lockdep is there; and Linux 6.12's own: AER takes a module's lock below that of its bus, a
# port's probe the other way.
_KNOWN = re.compile(
    r"RCU lockdep checking is enabled"
    r"|WARNING: possible circular locking dependency detected"
    r"(?:(?!</TASK>).)*cxl_memdev_key(?:(?!</TASK>).)*at: cxl_error_detected.*?</TASK>",
    re.DOTALL,
)


class Kernel:
    """What a guest's kernel says."""

    def __init__(self, guest: Machine) -> None:
        self._guest = guest

    def forget(self) -> None:
        self._guest.check("dmesg -c > /dev/null")

    def expect_no_complaint(self) -> None:
        said = _KNOWN.sub("", self._guest.check("dmesg"))
        assert not _COMPLAINTS.search(said), said


@pytest.fixture
def quiet_kernel(guest: Machine) -> Iterator[None]:
    """For tests whose guest may not complain meanwhile."""
    kernel = Kernel(guest)
    kernel.forget()
    yield
    kernel.expect_no_complaint()


@pytest.fixture(scope="session")
def kernel_of() -> type[Kernel]:
    """For tests with a guest of their own."""
    return Kernel


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--debug-kernel", action="store_true", help="guests with KASAN and lockdep")


@pytest.fixture(scope="session")
def need_program() -> Callable[[str, str], None]:
    """Skips the test where a program is missing, and says which package has it."""

    def need(program: str, package: str) -> None:
        if shutil.which(program) is None:
            line = f"this line installs it: sudo apt-get install {package}"
            pytest.skip(f"{program} is not here; {line}")

    return need


@pytest.fixture(scope="session")
def kernel(pytestconfig: pytest.Config) -> tuple[Path, str]:
    """Where the guest's kernel is unpacked, and its release."""
    try:
        return fetch_kernel(CACHE, print, debugs=pytestconfig.getoption("--debug-kernel"))
    except PackageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def platform(pytestconfig: pytest.Config, need_program: Callable[[str, str], None]) -> Platform:
    need_program("depmod", "kmod")
    try:
        return Platform(print, debugs=pytestconfig.getoption("--debug-kernel"))
    except PackageError as error:
        pytest.skip(str(error))
