"""A card and its tools beside mock CXL devices: the bridges, switches and modules of cxl_test."""

import json
from collections.abc import Iterator

import pytest

from emulator.qemu.machine import Machine
from emulator.qemu.topology import Topology

URI = "linux:/dev/nearkv0?memory=64MiB"
# The kernel looks after itself, and a listing reads much.
PATIENCE_S = 300
pytestmark = pytest.mark.usefixtures("quiet_kernel")


@pytest.fixture(scope="module")
def guest(platform, pytestconfig) -> Iterator[Machine]:
    if not pytestconfig.getoption("--debug-kernel"):
        pytest.skip("cxl_test is built for the kernel of --debug-kernel")
    with platform.boot(Topology(engine="model:", mock_devices=True)) as guest:
        guest.make_mock_devices()
        yield guest


def cxl_list(guest: Machine, words: str) -> list[dict]:
    return json.loads(guest.check(f"cxl list {words}", PATIENCE_S))


def test_the_card_finds_its_own_module_among_them(guest):
    (own,) = cxl_list(guest, "-M -b ACPI.CXL")
    mocks = cxl_list(guest, "-M -b cxl_test")
    # One of them has the card's serial number too.
    assert own["serial"] in [mock["serial"] for mock in mocks]
    (card,) = json.loads(guest.check("nearkv card list --json"))
    assert card["module"]["name"] == own["memdev"]


def test_the_card_works_beside_them(guest):
    guest.make_card()
    (card,) = json.loads(guest.check("nearkv card list --json"))
    assert card["memory_address"] == card["module"]["region"]["address"]
    suite = f"NEARKV_TEST_DEVICES='{URI}' host_pool_test --gtest_filter='Devices/*' 2>&1"
    assert "[  PASSED  ]" in guest.check(suite, PATIENCE_S)


@pytest.mark.parametrize(("kind", "ways"), [("ram", 1), ("pmem", 2)])
def test_the_standard_tool_makes_regions_of_them(guest, kind, ways):
    before = guest.check("nearkv card list --json")
    capable = {"ram": "volatile_capable", "pmem": "pmem_capable"}[kind]
    decoder = next(
        found["decoder"]
        for found in cxl_list(guest, "-D -d root -b cxl_test")
        if found.get(capable) and found["nr_targets"] == ways and found["max_available_extent"]
    )
    (root,) = cxl_list(guest, f"-T -d {decoder}")
    targets = sorted(root["targets"], key=lambda target: target["position"])
    bridges = [target["target"] for target in targets]
    modules = [cxl_list(guest, f"-M -p {bridge}")[0]["memdev"] for bridge in bridges]
    words = f"-d {decoder} -t {kind} -w {ways} -m {' '.join(modules)}"
    region = json.loads(guest.check(f"cxl create-region {words} 2> /dev/null", PATIENCE_S))
    assert (region["type"], region["decode_state"]) == (kind, "commit")
    assert guest.check("nearkv card list --json") == before
    guest.check(f"cxl disable-region -f {region['region']}", PATIENCE_S)
    guest.check(f"cxl destroy-region -f {region['region']}", PATIENCE_S)
