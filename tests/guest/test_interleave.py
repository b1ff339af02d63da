"""Two modules: regions of their own, and one that is spread over both."""

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulator.qemu.machine import Machine
from emulator.qemu.platform import BUILD
from emulator.qemu.topology import Topology

DEVICE_BYTES = Topology().memory_bytes
# Over two bridges the window's own granularity is the only one.
CASES = [(1, 256), (1, 4096), (2, 256)]


@pytest.mark.parametrize(("bridges", "granularity_bytes"), CASES)
def test_both_modules_hold_granules_of_one_pool_in_turn(
    platform, bridges, granularity_bytes, tmp_path
):
    with platform.boot(Topology(devices=2, bridges=bridges)) as guest:
        whole = tmp_path / "pool"
        make_pool(guest, granularity_bytes)
        join_granules(guest, granularity_bytes, whole)
    seen = subprocess.run(
        [BUILD / "bin" / "nearkv", "inspect", whole, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(seen.stdout)["header"]["total_bytes"] == 2 * DEVICE_BYTES


def make_pool(guest: Machine, granularity_bytes: int) -> None:
    """A pool over all of the region, as one test leaves it; others leave pools of other sizes."""
    dax = guest.make_dax(granularity_bytes=granularity_bytes)
    suite = "host_pool_test --gtest_filter='Devices/*AttendsToWhatWasAppended*'"
    text = guest.check(f"NEARKV_TEST_DEVICES='cpu:{dax}?threads=1' {suite}")
    assert "[  PASSED  ] 1 test" in text


def join_granules(guest: Machine, granularity_bytes: int, whole: Path) -> None:
    """The region as the guest sees it, from what each module holds of it."""
    with whole.open("wb") as file, ExitStack() as files:
        modules = [files.enter_context(path.open("rb")) for path in guest.memory_files]
        for _ in range(DEVICE_BYTES // granularity_bytes):
            for module in modules:
                granule = module.read(granularity_bytes)
                if any(granule):
                    file.write(granule)
                else:
                    file.seek(granularity_bytes, 1)
        file.truncate(2 * DEVICE_BYTES)
