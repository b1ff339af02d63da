"""The proxy before engines that register in a real etcd: they come, go, change and return."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

pytest.importorskip("zmq")

import zmq

from engine_integration.tests.etcd_server import TTL_S, EtcdServer
from engine_integration.tests.router_scene import CHUNKS, FakeEngine, Scene, engines, settled
from nearkv.membership import EtcdClient, Member, Registration

PREFIX = "/nearkv/clusters/test/members/"


def scene_of(server: EtcdServer, listed: list[FakeEngine]) -> Scene:
    """A proxy whose configuration names none of the engines."""
    return Scene(
        listed,
        configured=[],
        discovery={"etcd": server.endpoint, "cluster": "test"},
        suspend_s=0.2,
        policy="least_load",
    )


def member_of(engine: FakeEngine, **changed: Any) -> Member:
    return Member(engine.name, **{"url": str(engine.server.make_url(""))} | changed)


@contextlib.asynccontextmanager
async def listed(etcd: EtcdClient, member: Member) -> AsyncIterator[Registration]:
    async with Registration(etcd, "test", member, ttl_s=TTL_S) as registration:
        await registration.wait_listed()
        yield registration


async def health(scene: Scene) -> dict[str, Any]:
    async with scene.client.get("/health") as answer:
        return await answer.json()


async def until(scene: Scene, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    while not is_so(told := await health(scene)):
        await asyncio.sleep(0.02)
    return told


async def until_workers(scene: Scene, **roles: str) -> None:
    def is_so(told: dict[str, Any]) -> bool:
        return {name: each["role"] for name, each in told["workers"].items()} == roles

    await until(scene, is_so)


async def answered_by(scene: Scene) -> str:
    async with scene.post() as answer:
        assert answer.status == 200
        return (await answer.json())["id"]


async def refused(scene: Scene) -> int:
    async with scene.post() as answer:
        return answer.status


async def test_engines_come_and_go(server: EtcdServer) -> None:
    async with scene_of(server, engines("", "")) as scene, EtcdClient([server.endpoint]) as etcd:
        async with scene.post() as answer:
            assert answer.status == 503
        a, b = scene.engines
        async with listed(etcd, member_of(a)):
            await until_workers(scene, a="both")
            assert await answered_by(scene) == "a"
            async with listed(etcd, member_of(b)):
                await until_workers(scene, a="both", b="both")
        await until_workers(scene)
        assert (await health(scene))["discovery"]["members"] == []
        async with scene.post() as answer:
            assert answer.status == 503


async def test_an_engine_that_goes_in_the_middle_of_an_answer_ends_it(server: EtcdServer) -> None:
    async with (
        scene_of(server, engines("hangs after its first byte")) as scene,
        EtcdClient([server.endpoint]) as etcd,
    ):
        (a,) = scene.engines
        async with listed(etcd, member_of(a)):
            await until_workers(scene, a="both")
            answer = await scene.post(stream=True)
            assert await answer.content.readany() == CHUNKS[0]
        await until_workers(scene)
        a.go_on.set()
        assert await answer.content.read() == b"".join(CHUNKS[1:])


async def test_who_waits_goes_to_an_engine_that_comes(server: EtcdServer) -> None:
    async with (
        scene_of(server, engines("hangs", "")) as scene,
        EtcdClient([server.endpoint]) as etcd,
    ):
        a, b = scene.engines
        async with listed(etcd, member_of(a, max_running=1)):
            await until_workers(scene, a="both")
            first = asyncio.create_task(answered_by(scene))
            await until(scene, lambda _: bool(a.bodies))
            second = asyncio.create_task(answered_by(scene))
            await until(scene, lambda told: told["waiting"]["decode"] == 1)
            async with listed(etcd, member_of(b)):
                assert await second == "b"
            a.go_on.set()
            assert await first == "a"


async def test_who_waits_for_an_engine_that_goes_is_told(server: EtcdServer) -> None:
    async with scene_of(server, engines("hangs")) as scene, EtcdClient([server.endpoint]) as etcd:
        (a,) = scene.engines
        async with listed(etcd, member_of(a, max_running=1)):
            await until_workers(scene, a="both")
            first = asyncio.create_task(answered_by(scene))
            await until(scene, lambda _: bool(a.bodies))
            second = asyncio.create_task(refused(scene))
            await until(scene, lambda told: told["waiting"]["decode"] == 1)
        assert await second == 503
        a.go_on.set()
        assert await first == "a"


@pytest.mark.parametrize(
    ("changed", "blocks"), [({"role": "decode"}, 4), ({"role": "decode", "instance": "new"}, 0)]
)
async def test_an_engine_changes_its_role_and_keeps_its_cache_if_it_is_the_same(
    server: EtcdServer, changed: dict[str, str], blocks: int
) -> None:
    async with scene_of(server, engines("")) as scene, EtcdClient([server.endpoint]) as etcd:
        (a,) = scene.engines
        member = member_of(a, role="prefill")
        async with listed(etcd, member):
            await until_workers(scene, a="prefill")
            scene.tell("a", list(range(16)))
            document = json.dumps(json.loads(member.document()) | changed)
            entries, _ = await etcd.range(PREFIX + "a")
            revision = entries[PREFIX + "a"].mod_revision
            await etcd.put(PREFIX + "a", document, mod_revision=revision)
            await until_workers(scene, a="decode")
            assert (await health(scene))["index"]["blocks"] == blocks
            assert await answered_by(scene) == "a"


async def test_pools_say_in_etcd_what_they_take(server: EtcdServer) -> None:
    west = Member("west", role="pool", events="ipc:///nobody", capacity_bytes=1000)
    async with scene_of(server, engines("", "")) as scene, EtcdClient([server.endpoint]) as etcd:
        a, b = scene.engines
        async with listed(etcd, member_of(a, pool="west")), listed(etcd, member_of(b)):
            async with listed(etcd, west):
                told = await until(scene, lambda told: "west" in told["pools"])
                assert told["pools"]["west"] == {"capacity_bytes": 1000, "reserved_bytes": 0}
                await until_workers(scene, a="both", b="both")
                # It is more than the west has room for, whoever has less to do.
                assert [await answered_by(scene) for _ in range(3)] == ["b"] * 3
            await until(scene, lambda told: not told["pools"])
            assert await answered_by(scene) == "a"


async def test_an_engine_that_returns_has_an_empty_cache(server: EtcdServer) -> None:
    async with scene_of(server, engines("")) as scene, EtcdClient([server.endpoint]) as etcd:
        (a,) = scene.engines
        async with listed(etcd, member_of(a)):
            await until_workers(scene, a="both")
            scene.tell("a", list(range(16)))
        async with listed(etcd, member_of(a, role="decode")):
            await until_workers(scene, a="decode")
            assert (await health(scene))["index"]["blocks"] == 0
            assert await answered_by(scene) == "a"
            await settled(scene)


async def test_while_etcd_is_away_engines_are_served(own_server: EtcdServer) -> None:
    async with (
        scene_of(own_server, engines("", "")) as scene,
        EtcdClient([own_server.endpoint]) as etcd,
    ):
        a, b = scene.engines
        async with listed(etcd, member_of(a)):
            await until_workers(scene, a="both")
            own_server.kill()
            told = await until(scene, lambda told: not told["discovery"]["is_current"])
            assert told["discovery"]["members"] == ["a"]
            assert await answered_by(scene) == "a"
            own_server.start()
            async with listed(etcd, member_of(b)):
                await until_workers(scene, a="both", b="both")


async def test_events_are_listened_to_as_engines_come_and_return(server: EtcdServer) -> None:
    async with scene_of(server, engines("")) as scene, EtcdClient([server.endpoint]) as etcd:
        with zmq.Context() as context, context.socket(zmq.PUB) as publisher:
            port = publisher.bind_to_random_port("tcp://127.0.0.1")
            for _ in range(2):
                number = 0
                events = f"tcp://127.0.0.1:{port}"
                member = member_of(scene.engines[0], events=events, ranks=2)
                async with listed(etcd, member):
                    await until_workers(scene, a="both")
                    assert scene.routed.router.route([1]).candidates == 2, "one for each rank"
                    while not (await health(scene))["index"]["blocks"]:
                        batch = scene.batch(list(range(8)))
                        publisher.send_multipart([b"", number.to_bytes(8, "big"), batch])
                        number += 1
                        await asyncio.sleep(0.05)
                await until_workers(scene)
                await until(scene, lambda told: not told["index"]["blocks"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scheme": "vllm-sha256"}, "by vllm-sha256, the router of 4 by sglang"),
        ({"block_tokens": 64}, "blocks of 64 tokens"),
        ({"events": "nonsense"}, "'nonsense'"),
    ],
)
async def test_an_engine_whose_cache_cannot_be_known_is_served(
    server: EtcdServer, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], said: str
) -> None:
    async with scene_of(server, engines("")) as scene, EtcdClient([server.endpoint]) as etcd:
        with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
            port = publisher.bind_to_random_port("tcp://127.0.0.1")
            events = {"events": f"tcp://127.0.0.1:{port}"}
            async with listed(etcd, member_of(scene.engines[0], **events | changed)):
                await until_workers(scene, a="both")
                assert await answered_by(scene) == "a"
                assert not publisher.poll(500), "somebody listens"
    assert any(said in record.message for record in caplog.records)


async def test_what_is_wrong_in_etcd_is_ignored_and_told(server: EtcdServer) -> None:
    scene = scene_of(server, engines("", ""))
    scene.configured = ["b"]
    async with scene, EtcdClient([server.endpoint]) as etcd:
        await etcd.put(PREFIX + "bad", '{"name": "bad", "instance": "1"}', mod_revision=0)
        impostor = member_of(scene.engines[1], url="http://127.0.0.1:9")
        async with listed(etcd, impostor), listed(etcd, member_of(scene.engines[0])):
            told = await until(scene, lambda told: len(told["discovery"]["ignored"]) == 2)
            assert "http://host:8000" in told["discovery"]["ignored"]["bad"]
            assert "of this name" in told["discovery"]["ignored"]["b"]
            await until_workers(scene, a="both", b="both")
            async with scene.client.get("/v1/models") as answer:
                assert answer.status == 200
