"""The device plug-in before a stand-in for kubelet: cards by a stand-in, a daemon that is real."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

import grpc

from engine_integration.tests.cards_stand_in import GIB, CardsStandIn
from engine_integration.tests.kubelet_stand_in import KubeletStandIn
from nearkv.kubernetes.__main__ import parser, serve, size
from nearkv.kubernetes.api import device_plugin, pod_resources
from nearkv.kubernetes.pools import CardPools, preferred

pytestmark = pytest.mark.usefixtures("one_loop")

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "build" / "release" / "bin" / "nearkv"


@contextlib.asynccontextmanager
async def plugin(
    kubelet: KubeletStandIn, cards: CardsStandIn, grace_s: float = 60
) -> AsyncIterator[None]:
    """The plug-in of a node's cards, before kubelet."""
    sockets = ["--plugins", str(kubelet.plugins), "--pod-resources", str(kubelet.pod_resources)]
    options = parser().parse_args([*sockets, "--poll-s", "0.02"])
    ended = asyncio.Event()
    pools = CardPools(cards, options.unit, grace_s=grace_s, patience_s=1)
    serving = asyncio.create_task(serve(pools, options, ended))
    try:
        yield
    finally:
        ended.set()
        await serving


@contextlib.asynccontextmanager
async def program(kubelet: KubeletStandIn, *words: str) -> AsyncIterator[None]:
    """The program itself, before kubelet."""
    command = [sys.executable, "-m", "nearkv.kubernetes", "--poll-s", "0.2"]
    command += ["--plugins", str(kubelet.plugins), "--pod-resources", str(kubelet.pod_resources)]
    process = await asyncio.create_subprocess_exec(*command, *words)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        assert await process.wait() == 0


async def test_cards_are_units_that_kubelet_knows_with_their_node(tmp_path: Path) -> None:
    cards = CardsStandIn(nearkv0={"gib": 3}, nearkv1={"gib": 2, "lends": False, "node": -1})
    async with KubeletStandIn(tmp_path) as kubelet:
        async with plugin(kubelet, cards):
            await kubelet.until(lambda: len(kubelet.devices) == 5)
            (registered,) = kubelet.registered
            assert (registered.version, registered.resource_name) == (
                "v1beta1",
                "nearkv.io/pool-gib",
            )
            assert registered.options.get_preferred_allocation_available
            nodes = {d.ID: [node.ID for node in d.topology.nodes] for d in kubelet.devices.values()}
            assert nodes == {f"nearkv0-{n}": [1] for n in range(3)} | {
                "nearkv1-0": [],
                "nearkv1-1": [],
            }
            assert set(kubelet.healths().values()) == {"Healthy"}
        assert not list(kubelet.plugins.glob("nearkv*"))


async def test_a_card_lends_what_a_container_gets_and_has_it_again_when_its_pod_has_gone(
    tmp_path: Path,
) -> None:
    cards = CardsStandIn(nearkv0={"gib": 4}, nearkv1={"gib": 1, "lends": False})
    async with KubeletStandIn(tmp_path) as kubelet, plugin(kubelet, cards, grace_s=0.5):
        await kubelet.until(lambda: kubelet.devices)
        one, two = (
            await kubelet.allocate(["nearkv0-1", "nearkv0-3"], ["nearkv1-0"])
        ).container_responses
        kubelet.pods["a"] = ["nearkv0-1", "nearkv0-3"]
        assert cards.lent() == ["nearkv0-1", "nearkv0-3"]
        assert dict(one.envs) == {
            "NEARKV_DEVICES": f"linux:/dev/nearkv0?memory={2 * GIB}",
            "NEARKV_POOL_BYTES": str(2 * GIB),
        }
        (device,) = one.devices
        assert (device.host_path, device.permissions) == ("/dev/nearkv0", "rw")
        assert dict(two.envs)["NEARKV_DEVICES"] == f"linux:/dev/nearkv1?memory={GIB}"
        await kubelet.allocate(["nearkv0-0"])
        kubelet.pods["b"] = ["nearkv0-0"]
        await asyncio.sleep(1)
        assert cards.lent() == ["nearkv0-0", "nearkv0-1", "nearkv0-3"]
        del kubelet.pods["a"]
        while cards.lent() != ["nearkv0-0"]:
            await asyncio.sleep(0.02)


async def test_what_was_lent_when_the_plug_in_was_killed_is_found_again(tmp_path: Path) -> None:
    foreign = {"address": 3 * GIB, "bytes": GIB, "tag": "not ours"}
    kept = [{"address": n * GIB, "bytes": GIB, "tag": f"nearkv0-{n}"} for n in range(2)]
    cards = CardsStandIn(nearkv0={"gib": 4, "extents": [*kept, foreign]})
    cards.cards["nearkv0"]["offered"] = [{"address": 2 * GIB, "bytes": GIB, "tag": "nearkv0-2"}]
    async with KubeletStandIn(tmp_path) as kubelet:
        kubelet.pods["a"] = ["nearkv0-1"]
        async with plugin(kubelet, cards):
            while cards.lent() != ["nearkv0-1", "not ours"]:
                await asyncio.sleep(0.02)
            await kubelet.until(lambda: kubelet.devices)
            await kubelet.allocate(["nearkv0-1"])  # kubelet starts its container anew.
            assert not [call for call in cards.calls if "offer" in call]
            await kubelet.allocate(["nearkv0-0", "nearkv0-2"])
            assert cards.lent() == ["nearkv0-0", "nearkv0-1", "nearkv0-2", "not ours"]


async def test_a_card_that_cannot_lend_all_of_it_lends_nothing(tmp_path: Path) -> None:
    cards = CardsStandIn(nearkv0={"gib": 4, "lends_bytes": 2 * GIB})
    async with KubeletStandIn(tmp_path) as kubelet, plugin(kubelet, cards):
        await kubelet.until(lambda: kubelet.devices)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await kubelet.allocate([f"nearkv0-{number}" for number in range(3)])
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "no such capacity left" in caught.value.details()
        assert cards.lent() == []
        await kubelet.allocate(["nearkv0-0", "nearkv0-1"])
        assert cards.lent() == ["nearkv0-0", "nearkv0-1"]


async def test_a_card_that_still_wipes_is_asked_again(tmp_path: Path) -> None:
    cards = CardsStandIn(nearkv0={"gib": 2, "lends_bytes": GIB})
    async with KubeletStandIn(tmp_path) as kubelet, plugin(kubelet, cards):
        await kubelet.until(lambda: kubelet.devices)
        allocated = asyncio.create_task(kubelet.allocate(["nearkv0-0", "nearkv0-1"]))
        while sum("offer" in call for call in cards.calls) < 3:
            await asyncio.sleep(0.01)
        cards.cards["nearkv0"]["lends_bytes"] = 2 * GIB
        await allocated
        assert cards.lent() == ["nearkv0-0", "nearkv0-1"]


async def test_cards_that_fail_or_vanish_are_unhealthy_until_they_are_back(tmp_path: Path) -> None:
    cards = CardsStandIn(nearkv0={"gib": 1}, nearkv1={"gib": 1})
    async with KubeletStandIn(tmp_path) as kubelet, plugin(kubelet, cards):
        healthy = {"nearkv0-0": "Healthy", "nearkv1-0": "Healthy"}
        await kubelet.until(lambda: kubelet.healths() == healthy)
        cards.fails = "is the driver loaded?"
        await kubelet.until(lambda: set(kubelet.healths().values()) == {"Unhealthy"})
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await kubelet.allocate(["nearkv0-0"])
        assert "is the driver loaded?" in caught.value.details()
        cards.fails = ""
        gone = cards.cards.pop("nearkv0")
        await kubelet.until(lambda: kubelet.healths() == healthy | {"nearkv0-0": "Unhealthy"})
        cards.cards["nearkv0"] = gone
        await kubelet.until(lambda: kubelet.healths() == healthy)


async def test_it_registers_again_when_kubelet_begins_anew_and_waits_for_one_that_is_late(
    tmp_path: Path,
) -> None:
    cards = CardsStandIn(nearkv0={"gib": 1})
    async with KubeletStandIn(tmp_path) as kubelet:
        kubelet.refuses = "the resource is another's"
        async with plugin(kubelet, cards):
            while not kubelet.refused:
                await asyncio.sleep(0.02)
            kubelet.refuses = ""
            await kubelet.until(lambda: kubelet.devices)
            await kubelet.restart()
            await kubelet.until(lambda: kubelet.devices)
            assert len(kubelet.registered) == 1


@pytest.mark.skipif(not TOOL.exists(), reason="the tool is not built")
async def test_a_daemons_pool_is_units_as_long_as_it_answers(tmp_path: Path) -> None:
    socket = tmp_path / "run" / "nearkv.sock"
    socket.parent.mkdir()
    config = tmp_path / "nearkv.toml"
    config.write_text(
        f'[pool]\npath = "{tmp_path}/pool"\nsize = "256MiB"\n[socket]\npath = "{socket}"\n'
        f'[[tenant]]\nnumber = 1\nname = "all"\nuids = [{os.getuid()}]\ngids = []\n'
        'permissions = ["read", "write", "erase", "admin"]\n'
    )
    async with KubeletStandIn(tmp_path) as kubelet:
        words = ["--socket", str(socket), "--unit", "64MiB", "--command", str(TOOL)]
        async with program(kubelet, *words):
            with subprocess.Popen([TOOL, "serve", "--config", config]) as daemon:
                await kubelet.until(lambda: len(kubelet.devices) >= 3)
                units = sorted(kubelet.devices)
                (told,) = (await kubelet.allocate(units[:2])).container_responses
                assert dict(told.envs) == {
                    "NEARKV_SOCKET": str(socket),
                    "NEARKV_POOL_BYTES": str(128 << 20),
                }
                assert [(m.host_path, m.read_only) for m in told.mounts] == [
                    (str(socket.parent), False)
                ]
                daemon.terminate()
            await kubelet.until(lambda: set(kubelet.healths().values()) == {"Unhealthy"})
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await kubelet.allocate(units[:1])
            assert "has no pool-0" in caught.value.details()


def test_units_of_few_pools_are_preferred() -> None:
    units = [*(f"a-{n}" for n in range(2)), *(f"b-{n}" for n in range(4)), "c-0"]
    assert preferred(units, [], 1) == ["c-0"]
    assert preferred(units, [], 2) == ["a-0", "a-1"]
    assert preferred(units, [], 3) == ["b-0", "b-1", "b-2"]
    assert preferred(units, [], 6) == ["b-0", "b-1", "b-2", "b-3", "a-0", "a-1"]
    assert preferred(units, ["b-3"], 3) == ["b-3", "a-0", "a-1"]
    assert preferred(units[:1], [], 3) == ["a-0"]


def test_messages_are_those_that_kubernetes_publishes() -> None:
    """By hand, from the field numbers in kubelet's api.proto."""
    register = device_plugin.RegisterRequest(
        version="v1beta1",
        endpoint="x.sock",
        resource_name="n/r",
        options={"get_preferred_allocation_available": True},
    )
    assert (
        register.SerializeToString() == b"\x0a\x07v1beta1\x12\x06x.sock\x1a\x03n/r\x22\x02\x10\x01"
    )
    told = device_plugin.ContainerAllocateResponse(envs={"A": "1"})
    told.mounts.add(container_path="/c", host_path="/h", read_only=True)
    told.devices.add(container_path="/d", host_path="/e", permissions="rw")
    assert told.SerializeToString() == (
        b"\x0a\x06\x0a\x01A\x12\x011"
        b"\x12\x0a\x0a\x02/c\x12\x02/h\x18\x01"
        b"\x1a\x0c\x0a\x02/d\x12\x02/e\x1a\x02rw"
    )
    device = device_plugin.Device(ID="u-0", health="Healthy", topology={"nodes": [{"ID": 1}]})
    assert device.SerializeToString() == b"\x0a\x03u-0\x12\x07Healthy\x1a\x04\x0a\x02\x08\x01"
    listed = pod_resources.ListPodResourcesResponse.FromString(
        b"\x0a\x14\x0a\x01p\x12\x01n\x1a\x0c\x0a\x01c\x12\x07\x0a\x01r\x12\x02u0"
    )
    (pod,) = listed.pod_resources
    assert (pod.name, pod.containers[0].devices[0].device_ids) == ("p", ["u0"])


@pytest.mark.parametrize(("text", "bytes_"), [("1GiB", GIB), ("64mib", 64 << 20), ("4096", 4096)])
def test_sizes(text: str, bytes_: int) -> None:
    assert size(text) == bytes_
    with pytest.raises(ValueError, match="1GiB is one"):
        size(text + "s")


def test_elsewhere_than_on_a_node_it_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nearkv.kubernetes", "--plugins", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "is this a node of Kubernetes?" in done.stderr) == (1, True)
