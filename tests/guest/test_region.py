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


def test_a_daemon_serves_objects_from_the_dax_device(guest, dax):
    serve = f"nearkv serve --pool {dax} --socket /tmp/pool.sock > /tmp/serve.log 2>&1"
    guest.check(f"( {serve} & echo $! > /tmp/serve.pid )")
    stat = "nearkv stat --socket /tmp/pool.sock --json > /tmp/stat 2> /dev/null"
    guest.run(f"for n in $(seq 50); do {stat} && break; sleep 0.2; done")
    said = guest.check("cat /tmp/stat /tmp/serve.log")
    assert "pool" in said, said
    guest.check("kill $(cat /tmp/serve.pid); sleep 2")
    header = json.loads(guest.check(f"nearkv inspect {dax} --json"))["header"]
    assert header["total_bytes"] == DEVICE_BYTES


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


def test_the_region_is_system_ram_when_it_is_told_to(guest, dax):
    name = dax.removeprefix("/dev/")
    guest.check(f"modprobe kmem && daxctl reconfigure-device --force --mode=system-ram {name}")
    node = guest.check("cat /sys/devices/system/node/node1/meminfo")
    assert f"MemTotal: {DEVICE_BYTES // 1024:>14} kB" in node
    assert guest.check("cat /sys/devices/system/node/node0/distance") == "10 20"
    guest.check(f"daxctl offline-memory {name} && daxctl reconfigure-device --mode=devdax {name}")
    guest.check(f"test -c {dax}")


def test_the_region_goes_when_it_is_told_to(guest, dax):
    guest.check("cxl disable-region -f region0 && cxl destroy-region -f region0")
    assert json.loads(guest.check("cxl list -R 2> /dev/null")) == []
