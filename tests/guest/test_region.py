"""A CXL module as a Linux guest sees it, by its own kernel's drivers and the standard tools."""

import json
from collections.abc import Iterator

import pytest

from emulator.qemu.machine import GuestError, Machine
from emulator.qemu.topology import Topology

DEVICE_BYTES = Topology().memory_bytes


@pytest.fixture(scope="module")
def guest(platform) -> Iterator[Machine]:
    with platform.boot() as guest:
        yield guest


@pytest.fixture(scope="module")
def dax(guest) -> str:
    return guest.make_dax()


def test_boots_to_a_shell_in_time(guest):
    # Not the 10 s that users see: this machine is shared with other tests.
    assert guest.boot_s < 60


def test_the_module_is_listed_with_its_memory(guest):
    (module,) = json.loads(guest.check("cxl list -M"))
    assert module["ram_size"] == DEVICE_BYTES
    assert module["serial"] == 1


def test_the_standard_tool_makes_a_region(guest, dax):
    (region,) = json.loads(guest.check("cxl list -R"))
    assert region["size"] == DEVICE_BYTES
    assert region["decode_state"] == "commit"
    assert dax == "/dev/dax0.0"


@pytest.mark.parametrize("suite", ["pool", "tenant", "device"])
def test_the_host_librarys_suites_pass_on_the_regions_dax_device(guest, dax, suite):
    uri = f"cpu:{dax}?threads=1"
    text = guest.check(f"NEARKV_TEST_DEVICES='{uri}' host_{suite}_test 2>&1", timeout_s=200)
    assert "[  PASSED  ]" in text
    assert "/cpu" in text


def test_a_wrong_region_is_refused_and_the_guest_lives_on(guest):
    with pytest.raises(GuestError, match="cxl region"):
        guest.check("cxl create-region -m -d decoder0.0 -t ram -w 1 mem7")
    guest.check("cxl list -M")


def test_the_region_goes_when_it_is_told_to(guest, dax):
    guest.check("cxl disable-region -f region0 && cxl destroy-region -f region0")
    assert json.loads(guest.check("cxl list -R 2> /dev/null")) == []
