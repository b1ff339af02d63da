"""The whole card in a guest: region, driver, engine. What a process sees of it is tests/driver."""

import re
from collections.abc import Iterator

import pytest

from emulator.qemu.machine import CARD, GuestError, Machine
from emulator.qemu.topology import Topology

SUITES = ("c_api", "device", "limits", "pool", "pool_transcode", "tenant", "transcode")
# What a kernel says when something is wrong with it or with a driver.
COMPLAINTS = re.compile(r"WARNING|BUG|Oops|Call Trace|KASAN|lockdep|hung task|leaked|general prot")


@pytest.fixture(scope="module")
def guest(platform) -> Iterator[Machine]:
    with platform.boot(Topology(engine="model:")) as guest:
        guest.make_card()
        yield guest


@pytest.fixture(autouse=True)
def quiet_kernel(guest) -> Iterator[None]:
    guest.check("dmesg --clear > /dev/null 2>&1 || dmesg -c > /dev/null")
    yield
    said = guest.check("dmesg")
    assert not COMPLAINTS.search(said), said


def run_tests(guest: Machine, command: str, timeout_s: float) -> None:
    text = guest.check(f"{command} 2>&1", timeout_s=timeout_s)
    assert "[  PASSED  ]" in text
    assert "SKIPPED" not in text, text


@pytest.mark.parametrize("suite", SUITES)
def test_the_host_librarys_suites_pass_on_the_card(guest, suite):
    devices = "NEARKV_TEST_DEVICES='linux:/dev/nearkv0?memory=64MiB'"
    run_tests(guest, f"{devices} host_{suite}_test --gtest_filter='Devices/*'", timeout_s=300)


@pytest.mark.parametrize("test", ["isolation", "lifecycle", "removal", "fuzz"])
def test_a_process_sees_what_the_driver_promises(guest, test):
    run_tests(guest, f"driver_{test}_test", timeout_s=300)


def test_a_busy_driver_is_not_unloaded(guest):
    guest.check("( exec 3<> /dev/nearkv0; sleep 2 ) &")
    with pytest.raises(GuestError, match=r"temporarily unavailable|busy"):
        guest.check("sleep 1; rmmod nearkv")
    guest.check("sleep 2; ls /dev/nearkv0")


def test_memory_that_is_not_the_cards_is_refused(guest):
    kept = guest.check(f"cat {CARD}/memory")
    guest.check(f"echo none > {CARD}/memory")
    at, size = (int(word, 16) for word in kept.split())
    for wrong in (f"{at + 4096:#x} {size:#x}", "0x100000 0x200000", f"{at:#x} 0x1000", "x", "1 1"):
        with pytest.raises(GuestError, match=r"Invalid argument|No such device|busy"):
            guest.check(f"echo '{wrong}' > {CARD}/memory")
    # The engine's own address 0 lies elsewhere than where this range begins.
    with pytest.raises(GuestError, match="No such device or address"):
        guest.check(f"echo '{at + size // 2:#x} {size // 2:#x}' > {CARD}/memory")
    guest.check(f"echo '{kept}' > {CARD}/memory")


def test_memory_that_others_use_is_refused(guest):
    kept = guest.check(f"cat {CARD}/memory")
    guest.check(f"echo none > {CARD}/memory")
    guest.check("daxctl reconfigure-device --mode=devdax -f dax0.0")
    with pytest.raises(GuestError, match="busy"):
        guest.check(f"echo '{kept}' > {CARD}/memory")
    guest.check("echo dax0.0 > /sys/bus/dax/drivers/device_dax/unbind")
    guest.check(f"echo '{kept}' > {CARD}/memory")


def test_a_card_that_dies_is_an_error_and_no_hang(platform):
    with platform.boot(Topology(engine="model:")) as guest:
        guest.make_card()
        guest.function.kill()
        uri = "linux:/dev/nearkv0?memory=64MiB"
        status, text = guest.run(
            f"NEARKV_TEST_DEVICES='{uri}' host_pool_test --gtest_filter='Devices/*'", timeout_s=120
        )
        assert status != 0
        assert "Input/output error" in text
        assert not COMPLAINTS.search(guest.check("dmesg"))


def test_the_verilated_engine_is_a_card_too(platform):
    with platform.boot(Topology(engine="rtl:?latency=20")) as guest:
        guest.make_card()
        uri = "linux:/dev/nearkv0?memory=64MiB"
        run_tests(
            guest,
            f"NEARKV_TEST_DEVICES='{uri}' host_pool_test --gtest_filter='Devices/*'",
            timeout_s=300,
        )
