"""Units of a real card's dynamic capacity, as the device plug-in of Kubernetes lends them."""

import asyncio
import shlex
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("grpc")

from emulator.qemu.machine import Machine
from emulator.qemu.topology import DEVICE_GRAIN_BYTES, Topology
from nearkv.kubernetes.pools import CardPools, Command, PoolError

UNITS = 4
UNIT_BYTES = DEVICE_GRAIN_BYTES // UNITS
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quiet_kernel")]


@pytest.fixture(scope="module")
def guest(platform) -> Iterator[Machine]:
    memory = Topology(
        memory_bytes=2 * DEVICE_GRAIN_BYTES, engine="model:", dynamic_bytes=DEVICE_GRAIN_BYTES
    )
    with platform.boot(memory) as guest:
        guest.make_card()
        yield guest


class GuestsTool(Command):
    """The tool, in the guest."""

    def __init__(self, guest: Machine) -> None:
        super().__init__()
        self._guest = guest

    async def run(self, *words: str) -> str:
        status, text = self._guest.run(f"nearkv {shlex.join(words)} 2>&1")
        if status:
            raise PoolError(text)
        return text


def test_a_card_lends_units_wipes_them_and_lends_them_again(guest: Machine) -> None:
    tool = GuestsTool(guest)
    pools = CardPools(tool, UNIT_BYTES, grace_s=0, patience_s=60)
    names = [f"nearkv0-{number}" for number in range(UNITS)]

    async def lent() -> list[str]:
        shown = await tool.json("card", "capacity", "nearkv0")
        return sorted(extent["tag"] for extent in shown["extents"])

    async def test() -> None:
        units = await pools.units()
        assert [(unit.id, unit.is_healthy) for unit in units] == [(name, True) for name in names]
        access = await pools.give(names[:2])
        assert await lent() == names[:2]
        assert access.devices == ["/dev/nearkv0"]
        await pools.give(names[2:])
        assert await lent() == names
        with pytest.raises(PoolError):  # There is no fifth.
            await CardPools(tool, UNIT_BYTES, patience_s=0).give(["nearkv0-4"])
        await pools.keep({names[3]}, time.monotonic())
        assert await lent() == names[3:]
        await pools.give(names)  # As soon as it is wiped.
        assert await lent() == names
        await pools.keep(set(), time.monotonic())
        assert await lent() == []

    asyncio.run(test())
