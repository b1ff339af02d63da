"""Dynamic capacity of a card: a host and its fabric manager, by the tool."""

import json
from collections.abc import Iterator

import pytest

from emulator.qemu.machine import Machine
from emulator.qemu.topology import DEVICE_GRAIN_BYTES, Topology

REGION = DEVICE_GRAIN_BYTES
"""Where it begins: behind as much that is always there."""
MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("quiet_kernel")


@pytest.fixture(scope="module")
def guest(platform) -> Iterator[Machine]:
    memory = Topology(
        memory_bytes=2 * DEVICE_GRAIN_BYTES, engine="model:", dynamic_bytes=DEVICE_GRAIN_BYTES
    )
    with platform.boot(memory) as guest:
        guest.make_card()
        yield guest


def capacity(guest: Machine, words: str = "") -> str:
    return guest.check(f"nearkv card capacity {words}")


def extents(guest: Machine) -> list[tuple[int, int, str]]:
    """What the host has: (offset in the region, bytes, tag) in MiB."""
    shown = json.loads(capacity(guest, "nearkv0 --json"))
    assert (shown["address"], shown["bytes"]) == (REGION, DEVICE_GRAIN_BYTES)
    return [
        ((extent["address"] - REGION) // MIB, extent["bytes"] // MIB, extent["tag"])
        for extent in shown["extents"]
    ]


def offer_once_wiped(guest: Machine, mib: int) -> None:
    """What came back may be lent again a little later."""
    command = f"nearkv card capacity offer nearkv0 {mib}MiB"
    guest.check(
        f"i=0; until {command} 2>/dev/null || [ $i = 200 ]; do i=$((i + 1)); sleep 0.1; done"
    )


def test_what_is_lent_is_the_hosts_until_it_gives_it_back(guest):
    assert extents(guest) == []
    capacity(guest, "offer nearkv0 64MiB --tag first")
    assert extents(guest) == []
    (offer,) = json.loads(capacity(guest, "answer nearkv0 --json"))
    assert offer == {"address": REGION, "bytes": 64 * MIB, "tag": "first", "event": "offered"}
    assert extents(guest) == [(0, 64, "first")]

    capacity(guest, f"take nearkv0 {REGION:#x} 16MiB")
    assert "wanted" in capacity(guest, "answer nearkv0")
    assert extents(guest) == [(0, 64, "first")]
    capacity(guest, f"release nearkv0 {REGION:#x} 16MiB")
    assert extents(guest) == [(16, 48, "first")]
    assert "64.0 MiB" not in capacity(guest, "nearkv0")


def test_what_was_another_hosts_is_zero(guest):
    with guest.memory_files[0].open("r+b", buffering=0) as memory:
        memory.seek(REGION + 100 * MIB)
        memory.write(b"secret")
        capacity(guest, "offer nearkv0 128MiB --tag second --contiguous")
        capacity(guest, "answer nearkv0")
        (secret,) = (extent for extent in extents(guest) if extent[2] == "second")
        assert secret[0] <= 100 < secret[0] + secret[1]
        capacity(guest, f"take nearkv0 {REGION + 100 * MIB:#x} 2MiB --force")
        assert "taken" in capacity(guest, "answer nearkv0")
        # All that there is, as soon as it is wiped.
        rest = 256 - sum(size for _, size, _ in extents(guest))
        offer_once_wiped(guest, rest)
        capacity(guest, "answer nearkv0")
        assert sum(size for _, size, _ in extents(guest)) == 256
        memory.seek(REGION + 100 * MIB)
        assert not any(memory.read(2 * MIB))


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("nearkv9", 1, "nearkv9"),
        ("offer nearkv0 1GiB", 1, "not so much that is free"),
        ("offer nearkv0 1MiB", 2, "a value that it may not have"),
        ("offer nearkv0 much", 2, "is no size"),
        ("offer nearkv0 2MiB --tag seventeen-letters", 2, "16 characters"),
        (f"release nearkv0 {REGION:#x} 512MiB", 2, "lies outside the memory"),
        (f"release nearkv0 {REGION + 64:#x} 2MiB", 2, "whole blocks"),
        ("release nearkv0 here 2MiB", 2, "is no address"),
        ("take nearkv0 0 2MiB", 2, "lies outside the memory"),
    ],
)
def test_the_tool_says_what_is_wrong(guest, words, status, said):
    before = extents(guest)
    found, text = guest.run(f"nearkv card capacity {words} 2>&1")
    assert (found, said in text) == (status, True), text
    assert extents(guest) == before


def test_an_offer_that_is_refused_is_not_the_hosts(guest):
    at, size, _ = extents(guest)[0]
    assert size >= 4
    capacity(guest, f"release nearkv0 {REGION + at * MIB:#x} 4MiB")
    had = extents(guest)
    offer_once_wiped(guest, 4)
    status, text = guest.run("nearkv card capacity offer nearkv0 2MiB 2>&1")
    assert (status, "has not answered" in text) == (1, True), text
    assert "offered" in capacity(guest, "answer nearkv0 --refuse")
    assert extents(guest) == had
    capacity(guest, "offer nearkv0 4MiB")
