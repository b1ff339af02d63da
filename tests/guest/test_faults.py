"""Faults of module, link and engine while a program works: statuses, and nothing that hangs."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from emulator.fault.engine import Engine
from emulator.fault.media import Descriptor, Log, Module, unmask_errors
from emulator.fault.monitor import Monitor, MonitorError
from emulator.qemu.machine import CARD, GuestError, Machine
from emulator.qemu.topology import Topology

pytestmark = pytest.mark.usefixtures("quiet_kernel")

PATIENCE_S = 40
"""For all that a program does after a fault: the driver gives an engine 10 s to answer."""
QUEUE = "QueueFaultTest.*"
POOL = "FaultTest.*"
MODULES = "/sys/bus/cxl/drivers/cxl_mem"
"""The kernel's driver of CXL modules."""


@pytest.fixture(scope="module")
def guest(platform) -> Iterator[Machine]:
    # With more, QEMU 10.0 sometimes dies when a slot is reset: emulator/fault/README.md.
    with platform.boot(Topology(engine="model:"), processors=1) as guest:
        guest.make_card()
        unmask_errors(guest)
        yield guest


@pytest.fixture(scope="module")
def monitor(guest) -> Iterator[Monitor]:
    with Monitor(guest.monitor_socket) as monitor:
        yield monitor


@pytest.fixture
def module(monitor) -> Module:
    return Module(monitor)


@pytest.fixture
def engine(guest, monitor) -> Engine:
    return Engine(guest, monitor)


def await_in(guest: Machine, condition: str, timeout_s: float) -> None:
    """Waits until a condition of the guest's shell holds."""
    times = int(timeout_s * 20)
    guest.check(
        f"for n in $(seq {times}); do {condition} && break; sleep 0.05; done; {condition}",
        timeout_s + 20,
    )


@contextmanager
def working(guest: Machine, program: str, status: str) -> Iterator[None]:
    """A program has commands in flight, and gets this status of what is done meanwhile.

    OK: it works on. The program looks at all else: that later calls end, and how.
    """
    test = f"NEARKV_TEST_FAULT={status} driver_fault_test --gtest_filter='{program}'"
    guest.check(f"rm -f /tmp/ended; ( ( {test} > /tmp/said 2>&1; echo $? > /tmp/ended ) & )")
    await_in(guest, "grep -q -e working -e FAILED -e SKIPPED /tmp/said", PATIENCE_S)
    yield
    await_in(guest, "test -s /tmp/ended", PATIENCE_S)
    said = guest.check("cat /tmp/said")
    assert guest.check("cat /tmp/ended") == "0", said
    assert "SKIPPED" not in said, said


def expect_working(guest: Machine) -> None:
    test = "NEARKV_TEST_DEVICES='linux:/dev/nearkv0?memory=64MiB' host_pool_test"
    guest.check(f"{test} --gtest_filter='Devices/*ForksShare*'")


@contextmanager
def following(guest: Machine, events: int) -> Iterator[list[dict]]:
    """What `nearkv card events` tells meanwhile: so many events, then it is interrupted."""
    follow = "nearkv card events nearkv0 --follow --json > /tmp/told 2> /tmp/telling"
    follow = f"sh -c 'echo $$ > /tmp/follower; exec {follow}'; echo $? > /tmp/status"
    guest.check(f"rm -f /tmp/status /tmp/telling; ( ( {follow} ) & )")
    await_in(guest, "grep -q looking /tmp/telling", 10)
    told: list[dict] = []
    yield told
    await_in(guest, f"test $(wc -l < /tmp/told) -ge {events}", 10)
    guest.check("kill -INT $(cat /tmp/follower)")
    await_in(guest, "test -s /tmp/status", 10)
    told += map(json.loads, guest.check("cat /tmp/told").splitlines())
    assert len(told) == events
    is_fine = all(event["status"] == "OK" for event in told)
    assert guest.check("cat /tmp/status") == ("0" if is_fine else "3")
    # Its trace went with it.
    assert guest.check("ls /sys/kernel/tracing/instances") == ""


def test_poison_is_told_with_its_place(guest, module):
    assert json.loads(guest.check("nearkv card poison nearkv0 --json")) == []
    module.poison(0x100000, 256)
    module.poison(0x40000)
    status, text = guest.run("nearkv card poison nearkv0 --json")
    assert status == 3
    lines = json.loads(text)
    base = int(guest.check("cat /sys/bus/cxl/devices/region0/resource"), 16)
    assert [(line["address"], line["bytes"]) for line in lines] == [(0x40000, 64), (0x100000, 256)]
    assert [line["machine_address"] - line["address"] for line in lines] == [base, base]
    assert {line["status"] for line in lines} == {"POISON"}
    with following(guest, events=2) as told:
        guest.run("nearkv card poison nearkv0")
    assert [event["kind"] for event in told] == ["poison", "poison"]
    for line in lines:
        at = line["address"]
        for place in range(at, at + line["bytes"], 64):
            guest.check(f"echo {place:#x} > /sys/kernel/debug/cxl/mem0/clear_poison")
    guest.check("nearkv card poison nearkv0")


CORRECTED = Descriptor(uncorrectable=False, threshold=True)
EVENTS: list[tuple[Callable[[Module], None], dict]] = [
    (
        lambda module: module.general_media_event(0x1000, Log.FAILURE),
        {"kind": "general_media", "log": "failure", "address": 0x1000, "status": "POISON"},
    ),
    (
        lambda module: module.general_media_event(0x2000, Log.WARNING, CORRECTED),
        {"kind": "general_media", "log": "warning", "address": 0x2000, "status": "OK"},
    ),
    (
        lambda module: module.dram_event(0x3000, Log.INFORMATIONAL, CORRECTED, row=7),
        {"kind": "dram", "log": "informational", "what": "threshold reached, row 7"},
    ),
    (
        lambda module: module.dram_event(0x4000, Log.FATAL),
        {"kind": "dram", "log": "fatal", "address": 0x4000, "status": "NO_DEVICE"},
    ),
    (
        lambda module: module.module_event(Log.WARNING, 2, 0, temperature_celsius=-9),
        {"what": "media normal; performance degraded; -9 C", "status": "OK", "address": None},
    ),
    (
        lambda module: module.module_event(Log.FAILURE, 4, media_status=3),
        {"kind": "module", "log": "failure", "status": "POISON"},
    ),
    (
        lambda module: module.correctable_error("mem-data-ecc"),
        {"kind": "correctable", "what": "memory data ECC", "log": None, "status": "OK"},
    ),
]


def test_events_of_the_module_are_statuses_while_a_program_works(guest, module):
    with working(guest, QUEUE, "OK"), following(guest, events=len(EVENTS)) as told:
        for number, (inject, _) in enumerate(EVENTS, start=1):
            inject(module)
            # Of different logs at once the kernel tells in any order.
            await_in(guest, f"test $(wc -l < /tmp/told) -ge {number}", 10)
    for event, (_, expected) in zip(told, EVENTS, strict=True):
        assert event["module"] == "mem0"
        assert {key: event[key] for key in expected} == expected


def test_a_program_works_on_when_the_link_corrects_or_reports_errors(guest, engine):
    with working(guest, POOL, "OK"):
        engine.corrected_link_error()
        # The port tells of nothing more while the kernel has not taken what it told before.
        await_in(guest, "dmesg | grep -q 'error message received from'", 10)
        engine.link_error()
        await_in(guest, "dmesg | grep -q 'device recovery successful'", 10)


@pytest.mark.parametrize("program", [QUEUE, POOL])
def test_commands_are_aborted_when_the_link_fails_and_the_card_is_there_again(
    guest, engine, program
):
    with working(guest, program, "ABORTED"):
        engine.link_error(fatal=True)
    assert "nearkv0: begins anew" in guest.check("dmesg")
    expect_working(guest)


def test_memory_of_a_card_that_does_not_come_back_is_nobodys_until_it_is_reset(guest, engine):
    at, size = (int(word, 16) for word in guest.check(f"cat {CARD}/memory").split())
    claim = f"grep -q '{at:x}-{at + size - 1:x} : nearkv0$' /proc/iomem"
    guest.check("echo 1 > /sys/kernel/debug/nearkv/nearkv0/fail_registers")
    engine.link_error(fatal=True)
    await_in(guest, "dmesg | grep -q 'nearkv0: does not come back'", 20)
    # Nothing has told the engine to end what it does.
    with pytest.raises(GuestError, match="Input/output error"):
        guest.check(f"echo none > {CARD}/memory")
    guest.check(f"{claim} && echo 1 > $(realpath {CARD}/..)/remove && {claim}")
    guest.check("echo 1 > /sys/bus/pci/rescan")
    await_in(guest, "test -e /dev/nearkv0", 20)
    guest.check(f"! {claim}")
    guest.check("nearkv card attach nearkv0")
    expect_working(guest)


@pytest.mark.parametrize("program", [QUEUE, POOL])
def test_a_card_that_is_pulled_with_commands_in_flight_is_no_device(guest, engine, program):
    try:
        with working(guest, program, "NO_DEVICE"):
            engine.unplug()
    finally:
        put_back(guest, engine)


def put_back(guest: Machine, engine: Engine) -> None:
    engine.plug()
    await_in(guest, "test -e /dev/nearkv0", 20)
    guest.check("nearkv card attach nearkv0")
    expect_working(guest)


@pytest.mark.parametrize("program", [QUEUE, POOL])
def test_completions_that_are_late_are_right(guest, engine, program):
    with working(guest, program, "OK"):
        for _ in range(3):
            engine.stall(0.5)
            time.sleep(0.5)  # For what waited: a caller's patience is 2 s.


def test_an_engine_that_hangs_is_a_timeout_and_works_again_after_a_reset(guest, engine):
    try:
        with working(guest, POOL, "TIMEOUT"):
            engine.hang()
    finally:
        engine.go_on()
        guest.check("nearkv card reset nearkv0")
    expect_working(guest)


def test_the_next_request_waits_for_an_answer_that_is_late(guest, engine):
    try:
        engine.hang()
        for _ in range(2):
            with pytest.raises(GuestError, match="Input/output error"):
                guest.check(f"echo 1 > {CARD}/reset")
        assert guest.function.unanswered() == 1
    finally:
        engine.go_on()
        guest.check("nearkv card reset nearkv0")
    expect_working(guest)


def test_an_engine_that_dies_can_be_pulled_and_replaced(guest, engine):
    try:
        with working(guest, QUEUE, "TIMEOUT"):
            engine.kill()
            engine.unplug()
    finally:
        engine.restart()
        put_back(guest, engine)


def test_a_module_that_fails_takes_its_region_and_gets_another(guest, module):
    with working(guest, QUEUE, "ANY"), following(guest, events=1) as told:
        module.uncorrectable_error("mem-data-parity", "mem-address-parity")
    assert told[0]["kind"] == "uncorrectable"
    assert told[0]["what"] == "memory data parity, memory address parity"
    assert told[0]["status"] == "NO_DEVICE"
    guest.check("nearkv card detach nearkv0")
    guest.make_card()
    expect_working(guest)


def test_a_region_is_made_as_soon_as_its_module_is_back(guest):
    guest.check("nearkv card detach nearkv0")
    guest.check(f"echo mem0 > {MODULES}/unbind")
    guest.check(f"( sleep 2; echo mem0 > {MODULES}/bind ) &")
    guest.make_card()
    expect_working(guest)


def test_a_module_that_stays_away_has_no_region_and_no_hang(guest):
    guest.check("nearkv card detach nearkv0")
    guest.check(f"echo mem0 > {MODULES}/unbind")
    try:
        with pytest.raises(GuestError, match=r"mem0 is not at work, .* `cxl enable-memdev`"):
            guest.check("nearkv card region nearkv0")
    finally:
        guest.check(f"echo mem0 > {MODULES}/bind")
        guest.make_card()
    expect_working(guest)


@pytest.mark.parametrize(
    ("command", "status", "complaint"),
    [
        ("events nearkv7", 1, "no card 'nearkv7'"),
        ("poison nearkv7 --json", 1, "no card 'nearkv7'"),
        ("events nearkv0 --follow --seconds 1", 2, "excludes"),
        ("events", 2, "card is required"),
    ],
)
def test_the_tool_says_what_is_wrong(guest, command, status, complaint):
    ended, text = guest.run(f"nearkv card {command}")
    assert (ended, complaint in text) == (status, True), text


def test_what_a_killed_follower_left_is_taken_away(guest):
    guest.check("( nearkv card events nearkv0 --follow 2> /tmp/telling & echo $! > /tmp/follower )")
    await_in(guest, "grep -q looking /tmp/telling", 10)
    guest.check("kill -KILL $(cat /tmp/follower); sleep 0.2")
    assert guest.check("ls /sys/kernel/tracing/instances") != ""
    guest.check("nearkv card events nearkv0 --seconds 0.01")
    assert guest.check("ls /sys/kernel/tracing/instances") == ""


def test_qemus_refusal_is_an_error(monitor, module):
    with pytest.raises(MonitorError, match="cxl-inject-poison: "):
        Module(monitor, n=7).poison(0)
    with pytest.raises(ValueError, match="whole lines"):
        module.poison(1)
