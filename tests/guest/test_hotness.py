"""What the card's driver tells perf, and `nearkv card` of it. Against traffic: tests/driver."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from emulator.qemu.machine import Machine
from emulator.qemu.topology import Topology

pytestmark = pytest.mark.usefixtures("quiet_kernel")

# Reads pages and attends to them, for a moment.
TRAFFIC = "driver_counters_test --gtest_filter='*AgreeWith*' > /dev/null"
WINDOW_BYTES = 8 << 20
"""That it has, at the beginning of the card's memory."""


@pytest.fixture(scope="module")
def guest(platform) -> Iterator[Machine]:
    with platform.boot(Topology(engine="rtl:?latency=20")) as guest:
        guest.make_card()
        yield guest


@pytest.mark.parametrize("test", ["counters", "hotness"])
def test_perf_is_told_what_the_engine_did(guest, test):
    text = guest.check(f"driver_{test}_test 2>&1", timeout_s=200)
    assert "[  PASSED  ]" in text
    assert "SKIPPED" not in text, text


@contextmanager
def looking(guest: Machine, command: str, events: int) -> Iterator[list[str]]:
    """`nearkv card` looks meanwhile, with so many events, until it is interrupted.

    What it printed is in the list afterwards.
    """
    begin = f"sh -c 'echo $$ > /tmp/look; exec nearkv card {command}' > /tmp/shown"
    guest.check(f"rm -f /tmp/status; ( ( {begin}; echo $? > /tmp/status ) & )")
    opened = f"test $(ls -l /proc/$(cat /tmp/look)/fd | grep -c perf_event) = {events}"
    guest.check(f"for n in $(seq 200); do {opened} && break; sleep 0.1; done; {opened}")
    shown: list[str] = []
    yield shown
    guest.check("kill -INT $(cat /tmp/look)")
    guest.check("for n in $(seq 200); do test -s /tmp/status && break; sleep 0.1; done")
    assert guest.check("cat /tmp/status") == "0"
    shown.append(guest.check("cat /tmp/shown"))


def test_the_tool_shows_counters_until_it_is_interrupted(guest):
    with looking(guest, "counters nearkv0 --seconds 100 --json", 7) as said:
        guest.check(TRAFFIC)
    shown = json.loads(said[0])
    assert shown["commands"] == 3
    assert 0 < shown["seconds"] < 100
    assert all(shown[name] > 0 for name in ("stream_bursts", "written_bursts", "busy_ticks"))
    assert "busy_ticks" in guest.check("nearkv card counters nearkv0 --seconds 0.1")


def test_the_tool_shows_what_is_hot_until_it_is_interrupted(guest):
    options = "--threshold 8 --epoch 1000 --seconds 100 --json"
    with looking(guest, f"hotlist nearkv0 {options}", 1) as said:
        status, text = guest.run("nearkv card hotlist nearkv0")
        assert (status, "somebody else" in text) == (1, True), text
        guest.check(TRAFFIC)
    shown = json.loads(said[0])
    assert shown["seconds"] < 100
    assert not shown["has_lost"]
    assert shown["units"]
    for unit in shown["units"]:
        assert unit["address"] % shown["unit_bytes"] == 0
        assert unit["address"] < WINDOW_BYTES
        assert (unit["epochs"], unit["count"]) == (1, 8)
    assert "IN DEVICE" in guest.check("nearkv card hotlist nearkv0 --monitor host --seconds 0.1")


EPOCH_MS = 10


def set_hotness(guest: Machine, **fields: int) -> dict[str, int]:
    words = " ".join(f"--set hotness.near_{name}={value}" for name, value in fields.items())
    return json.loads(guest.check(f"nearkv card features nearkv0 {words} --json"))


def found_by_firmware(guest: Machine) -> dict[str, Any]:
    return json.loads(guest.check("nearkv card hotlist nearkv0 --firmware --json"))


def until(guest: Machine, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What the firmware tells then. Its clock goes slowly while it has nothing to do."""
    end = time.monotonic() + 200
    while not is_so(found := found_by_firmware(guest)):
        assert time.monotonic() < end, found
        time.sleep(0.5)
    return found


def test_the_firmware_finds_what_is_hot_while_no_host_looks(guest):
    assert found_by_firmware(guest)["state"] == "off"
    traffic = f"echo \\$\\$ > /tmp/traffic; while true; do {TRAFFIC}; done"
    guest.check(f'( sh -c "{traffic}" & ) > /dev/null 2>&1')
    set_hotness(guest, epoch_ms=EPOCH_MS, units=8, enabled=1)
    found = until(guest, lambda found: found["units"] != [])
    assert found["state"] == "counting"
    assert found["unit_bytes"] == 4096
    assert found["epoch_s"] == EPOCH_MS / 1e3
    for unit in found["units"]:
        assert unit["address"] % found["unit_bytes"] == 0
        assert unit["address"] < WINDOW_BYTES
    assert "IN DEVICE" in guest.check("nearkv card hotlist nearkv0 --firmware")

    # The host goes first.
    guest.check("kill $(cat /tmp/traffic)")
    options = "--threshold 8 --epoch 1000 --seconds 100 --json"
    with looking(guest, f"hotlist nearkv0 {options}", 1) as said:
        until(guest, lambda found: found["state"] == "host")
        guest.check(TRAFFIC)
    shown = json.loads(said[0])
    assert not shown["has_lost"]
    assert shown["units"]
    assert all((unit["epochs"], unit["count"]) == (1, 8) for unit in shown["units"])
    assert set_hotness(guest, enabled=0)["hotness.near_state"] == 0
    assert found_by_firmware(guest)["state"] == "off"


@pytest.mark.parametrize(
    ("command", "status", "complaint"),
    [
        ("hotlist nearkv7 --firmware", 1, "no such card"),
        ("hotlist nearkv0 --firmware --threshold 8", 2, "excludes"),
        ("features nearkv0 --set hotness.near_state=0", 2, "can only be read"),
        ("features nearkv0 --set hotness.near_epoch_ms=0", 2, "a value that it may not have"),
        ("hotlist nearkv7", 1, "perf sees no such card"),
        ("counters nearkv7", 1, "perf sees no such card"),
        ("hotlist nearkv0 --monitor both", 2, "--monitor"),
        ("hotlist nearkv0 --unit 100", 2, "a power of two"),
        ("hotlist nearkv0 --unit 256", 2, "a unit has 4096 8192 bytes"),
        ("hotlist nearkv0 --threshold 20000", 2, "a lower threshold may do"),
        ("hotlist nearkv0 --epoch 0.00015", 2, "an epoch is"),
        ("hotlist nearkv0 --seconds 0", 2, "--seconds"),
    ],
)
def test_the_tool_says_what_is_wrong(guest, command, status, complaint):
    ended, text = guest.run(f"nearkv card {command}")
    assert (ended, complaint in text) == (status, True), text


def test_the_tool_shows_how_far_the_memory_is(guest):
    module = json.loads(guest.check("nearkv card info nearkv0 --json"))["module"]
    locality = module["locality"]
    # This machine's firmware says nothing of it, and offline memory has no distances.
    assert locality["node"] == int(guest.check("cat /sys/bus/dax/devices/dax0.0/target_node"))
    assert locality["distances"] is None
    assert locality["read_latency_ns"] is None
    assert "latency  read unknown" in guest.check("nearkv card info nearkv0")


def test_memory_that_is_a_node_has_distances(guest):
    guest.check("nearkv card detach nearkv0")
    guest.check("daxctl reconfigure-device --mode=system-ram -f dax0.0")
    locality = json.loads(guest.check("nearkv card info nearkv0 --json"))["module"]["locality"]
    node = locality["node"]
    told = guest.check(f"cat /sys/devices/system/node/node{node}/distance").split()
    assert list(locality["distances"].values()) == [int(word) for word in told]
    assert locality["distances"][str(node)] == 10
    assert f"10 to node {node}" in guest.check("nearkv card info nearkv0")
    guest.check("daxctl reconfigure-device --mode=devdax -f dax0.0")
    guest.check("nearkv card attach nearkv0")


def test_the_driver_goes_only_without_events(guest):
    with looking(guest, "counters nearkv0 --seconds 100", 7):
        status, text = guest.run("rmmod nearkv")
        assert (status, "temporarily unavailable" in text) == (1, True), text
    guest.check("rmmod nearkv; test ! -e /sys/bus/event_source/devices/nearkv0")
    guest.check("insmod /opt/nearkv/nearkv.ko; nearkv card attach nearkv0")
    assert json.loads(guest.check("nearkv card counters nearkv0 --seconds 0.1 --json"))


def test_an_engine_that_counts_nothing_says_so(platform, kernel_of):
    with platform.boot(Topology(engine="model:")) as guest:
        for command in ("hotlist", "counters"):
            status, text = guest.run(f"nearkv card {command} nearkv0")
            assert (status, "does not count this" in text) == (1, True), text
        kernel_of(guest).expect_no_complaint()
