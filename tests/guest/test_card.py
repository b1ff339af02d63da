"""The whole card in a guest: region, driver, engine. What a process sees of it is tests/driver."""

import json
from collections.abc import Iterator

import pytest

from emulator.qemu.machine import CARD, GuestError, Machine
from emulator.qemu.topology import Topology

URI = "linux:/dev/nearkv0?memory=64MiB"
SUITES = ("c_api", "device", "limits", "pool", "pool_transcode", "tenant", "transcode")
pytestmark = pytest.mark.usefixtures("quiet_kernel")


@pytest.fixture(scope="module")
def guest(platform) -> Iterator[Machine]:
    with platform.boot(Topology(engine="model:")) as guest:
        guest.make_card()
        yield guest


def on_card(suite: str, uri: str = URI) -> str:
    """The command that runs a suite of host_lib on the card."""
    return f"NEARKV_TEST_DEVICES='{uri}' host_{suite}_test --gtest_filter='Devices/*'"


def run_tests(guest: Machine, command: str) -> None:
    text = guest.check(f"{command} 2>&1", timeout_s=300)
    assert "[  PASSED  ]" in text
    assert "SKIPPED" not in text, text


@pytest.mark.parametrize("suite", SUITES)
def test_the_host_librarys_suites_pass_on_the_card(guest, suite):
    run_tests(guest, on_card(suite))


def test_a_pool_is_found_again_in_a_window_that_is_kept(guest):
    run_tests(guest, on_card("pool", f"{URI}&name=first"))
    assert "kept first" in guest.check(f"cat {CARD}/windows")
    # Its commands work in its own window, though that is not the first.
    run_tests(guest, on_card("pool"))
    with pytest.raises(GuestError, match="not what the kept window has"):
        guest.check(on_card("pool", f"{URI.replace('64', '32')}&name=first"))
    guest.check("nearkv card forget nearkv0 first")
    assert guest.check(f"cat {CARD}/windows") == ""
    with pytest.raises(GuestError, match="keeps no window 'first'"):
        guest.check("nearkv card forget nearkv0 first")


@pytest.mark.parametrize(
    "test", ["isolation", "lifecycle", "removal", "mailbox", "tenants", "fuzz"]
)
def test_a_process_sees_what_the_driver_promises(guest, test):
    run_tests(guest, f"driver_{test}_test")


def test_the_tool_shows_the_card_its_module_and_its_region(guest):
    (card,) = json.loads(guest.check("nearkv card list --json"))
    assert card["path"] == "/dev/nearkv0"
    assert card["serial"] == 1
    assert card["module"]["name"] == "mem0"
    region = card["module"]["region"]
    assert (card["memory_address"], card["memory_bytes"]) == (region["address"], region["bytes"])
    assert json.loads(guest.check("nearkv card info nearkv0 --json")) == card
    assert "region0" in guest.check("nearkv card info nearkv0")


@pytest.mark.parametrize(
    ("command", "status", "complaint"),
    [
        ("attach nearkv0", 1, "nearkv0 has its memory already"),
        ("region nearkv0", 1, "mem0 has region0 already"),
        ("info nearkv7", 1, "no card 'nearkv7'"),
        ("features nearkv0 --set scrub.days=1", 2, "no field 'scrub.days'"),
        ("features nearkv0 --set scrub.hours", 2, "wants FIELD=NUMBER"),
        ("features nearkv0 --set scrub.hours=0", 2, "a value that it may not have"),
        ("features nearkv0 --set scrub.hours=256", 2, "has 8 bits"),
        ("tenants set nearkv0 nobody-here", 2, "there is no user 'nobody-here'"),
        ("tenants set nearkv0 others --queues 17", 2, "--queues"),
        ("tenants set nearkv0 others --memory much", 2, "is no size"),
        ("tenants", 2, "card is required"),
        ("attach", 2, "card is required"),
        ("", 2, "A subcommand is required"),
    ],
)
def test_the_tool_says_what_is_wrong(guest, command, status, complaint):
    ended, text = guest.run(f"nearkv card {command}")
    assert (ended, complaint in text) == (status, True), text


def test_the_tool_shows_what_the_firmware_says(guest):
    health = json.loads(guest.check("nearkv card health nearkv0 --json"))
    assert health["media_ready"]
    assert health["temperature_celsius"] == 40
    firmware = json.loads(guest.check("nearkv card firmware nearkv0 --json"))
    assert (firmware["starts"], firmware["panics"], firmware["last_panic"]) == (1, 0, None)
    before = json.loads(guest.check("nearkv card features nearkv0 --json"))
    assert before["scrub.hours"] == 12
    words = "--set scrub.hours=24 --set scrub.enabled=0"
    after = json.loads(guest.check(f"nearkv card features nearkv0 {words} --json"))
    assert after == before | {"scrub.hours": 24, "scrub.enabled": 0}
    assert "scrub.hours" in guest.check("nearkv card features nearkv0")


def test_the_tool_limits_users(guest):
    assert json.loads(guest.check("nearkv card tenants nearkv0 --json")) == []
    guest.check("nearkv card tenants set nearkv0 1000 --memory 1MiB --queues 2 --weight 3")
    guest.check("nearkv card tenants set nearkv0 others --memory 0")
    guest.check("nearkv card tenants set nearkv0 1000 --queues 4")
    users = json.loads(guest.check("nearkv card tenants nearkv0 --json"))
    mine = {"owner": "1000", "uid": 1000, "memory_bytes": 1 << 20, "queues": 4, "weight": 3}
    others = {"owner": "others", "uid": None, "memory_bytes": 0, "queues": 16, "weight": 1}
    assert users == [mine, others]
    assert "1.0 MiB" in guest.check("nearkv card tenants nearkv0")
    guest.check("nearkv card tenants remove nearkv0 others")
    guest.check("nearkv card tenants remove nearkv0 1000")
    status, text = guest.run("nearkv card tenants remove nearkv0 1000")
    assert (status, "keeps no limits of 1000" in text) == (1, True), text


IMAGES = "/opt/nearkv/firmware"


def test_the_tool_updates_the_firmware(guest):
    before = json.loads(guest.check("nearkv card firmware nearkv0 --json"))
    assert [slot["revision"] for slot in before["slots"]] == ["", ""]
    guest.check(f"head -c 5000 {IMAGES}/next_firmware.signed > /tmp/cut")
    status, text = guest.run("nearkv card firmware update nearkv0 /tmp/cut")
    assert (status, "not whole, or not signed" in text) == (1, True), text
    words = f"update nearkv0 {IMAGES}/next_firmware.signed --json 2> /dev/null"
    slots = json.loads(guest.check(f"nearkv card firmware {words}", timeout_s=120))
    assert slots[0] == {"slot": 1, "revision": "nearkv next", "active": True, "staged": False}
    after = json.loads(guest.check("nearkv card firmware nearkv0 --json"))
    assert (after["version"], after["starts"]) == ("nearkv next", 1)
    run_tests(guest, on_card("pool"))


def test_queues_work_on_when_the_firmware_panics(guest):
    words = f"update nearkv0 {IMAGES}/broken_firmware.signed"
    assert "broken, runs" in guest.check(f"nearkv card firmware {words}", timeout_s=120)
    # GET_HEALTH meets an exception.
    status, text = guest.run("nearkv card health nearkv0", timeout_s=120)
    assert (status, "the card failed" in text) == (1, True), text
    run_tests(guest, on_card("pool"))
    status, text = guest.run("nearkv card firmware nearkv0 --json")
    firmware = json.loads(text)
    assert (status, firmware["panics"]) == (3, 1)
    assert firmware["last_panic"]["value"] == 0xDEAD0000


def test_the_tool_takes_memory_that_a_dax_driver_has(guest):
    guest.check("nearkv card detach nearkv0")
    guest.check("daxctl reconfigure-device --mode=devdax -f dax0.0")
    guest.check("nearkv card attach nearkv0")
    guest.check("test ! -e /sys/bus/dax/devices/dax0.0/driver")


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


def test_memory_that_an_engine_may_still_write_is_nobodys_until_a_reset(guest):
    kept = guest.check(f"cat {CARD}/memory")
    at, size = (int(word, 16) for word in kept.split())
    claim = f"grep -c '{at:x}-{at + size - 1:x} : nearkv0$' /proc/iomem"

    def attach(after: int, fails: int) -> int:
        """With registers that fail after so many accesses; how many passed."""
        faults = "/sys/kernel/debug/nearkv/nearkv0"
        guest.check(f"echo {after} > {faults}/fail_after; echo {fails} > {faults}/fail_registers")
        guest.run(f"echo '{kept}' > {CARD}/memory")
        left = guest.check(f"echo 0 > {faults}/fail_registers; cat {faults}/fail_after")
        return after - int(left)

    guest.check(f"echo none > {CARD}/memory")
    accesses = attach(after=100_000, fails=1)
    stuck = 0
    # The firmware is asked first: how often it has to be polled is not always the same.
    for n in range(accesses - 40, accesses):
        guest.check(f"echo none > {CARD}/memory")
        attach(after=n, fails=100)
        if guest.check(f"cat {CARD}/free_queues") == "15":
            stuck += 1
            assert guest.check(claim) == "1"
            guest.check(f"echo 1 > {CARD}/reset")
        assert guest.check(f"cat {CARD}/free_queues") == "16"
        is_attached = guest.check(f"cat {CARD}/memory") != "none"
        assert guest.run(claim)[1] == str(int(is_attached))
    assert stuck > 0
    guest.check(f"echo none > {CARD}/memory; echo '{kept}' > {CARD}/memory")


def test_memory_that_others_use_is_refused(guest):
    kept = guest.check(f"cat {CARD}/memory")
    guest.check(f"echo none > {CARD}/memory")
    guest.check("daxctl reconfigure-device --mode=devdax -f dax0.0")
    with pytest.raises(GuestError, match="busy"):
        guest.check(f"echo '{kept}' > {CARD}/memory")
    guest.check("echo dax0.0 > /sys/bus/dax/drivers/device_dax/unbind")
    guest.check(f"echo '{kept}' > {CARD}/memory")


def test_a_card_that_dies_is_an_error_and_no_hang(platform, kernel_of):
    with platform.boot(Topology(engine="model:")) as guest:
        guest.make_card()
        guest.function.kill()
        status, text = guest.run(on_card("pool"), timeout_s=240)
        assert status != 0
        assert "Input/output error" in text
        kernel_of(guest).expect_no_complaint()


def test_the_verilated_engine_is_a_card_too(platform):
    with platform.boot(Topology(engine="rtl:?latency=20")) as guest:
        guest.make_card()
        run_tests(guest, on_card("pool"))
        # Its firmware reaches the registers of the engine's inline path.
        words = "--set sharing.near_sixteenths=5 --set sharing.age_cycles=100"
        features = json.loads(guest.check(f"nearkv card features nearkv0 {words} --json"))
        assert features["sharing.near_sixteenths"] == 5
        assert features["sharing.age_cycles"] == 100
