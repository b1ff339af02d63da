"""Pools that are short: room is reserved at a neighbour before a prompt is computed."""

import asyncio
import math
from typing import Any

import pytest

from engine_integration.tests.router_scene import PROMPT, FakeEngine, Scene, engines, settled
from nearkv.router.config import WorkerConfig
from nearkv.router.pool_room import PoolRoom

BLOCK_BYTES = 1000.0
PROMPT_BYTES = len(PROMPT) // 4 * BLOCK_BYTES
"""Of the prompts here, of which nobody has anything."""


def scene_of(engines: list[FakeEngine], capacities: dict[str, float], **options: Any) -> Scene:
    """Engines a, b, c that store in the pools west, west, east, as long as there are those."""
    homes = {"a": "west", "b": "west", "c": "east"}
    stores_in = {engine.name: homes[engine.name] for engine in engines}
    options.setdefault("policy", "longest_prefix")
    return Scene(
        engines, stores_in=stores_in, capacities=capacities, block_bytes=BLOCK_BYTES, **options
    )


def reserved(scene: Scene) -> dict[str, float]:
    pools = scene.routed.health()["pools"]
    return {name: room["reserved_bytes"] for name, room in pools.items()}


def prompt(number: int) -> list[int]:
    """Others share no block with it."""
    return [1000 * number + token for token in range(len(PROMPT))]


async def under_way(scene: Scene, count: int) -> list[asyncio.Task[str]]:
    """Prompts of clients, one after the other; who answers each."""

    async def ask(number: int) -> str:
        async with scene.post(prompt=prompt(number), stream=True) as answer:
            await answer.read()
            return answer.headers["x-nearkv-worker"]

    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(ask(number)))
        while sum(scene.loads()) <= number:
            await asyncio.sleep(0.005)
    return tasks


async def answers(scene: Scene, tasks: list[asyncio.Task[str]]) -> list[str]:
    for engine in scene.engines:
        engine.go_on.set()
    return list(await asyncio.gather(*tasks))


async def test_what_fits_no_more_is_reserved_at_a_neighbour_and_given_back() -> None:
    room = {"west": 3 * PROMPT_BYTES, "east": 3 * PROMPT_BYTES}
    async with scene_of(engines("hangs", "hangs", "hangs"), room) as scene:
        # The policy would have all of them at a or b, who have these beginnings.
        for number in range(5):
            scene.tell("ab"[number % 2], prompt(number)[:4])
        tasks = await under_way(scene, 5)
        rest = PROMPT_BYTES - BLOCK_BYTES
        assert reserved(scene) == {"west": 3 * rest, "east": 2 * PROMPT_BYTES}
        assert await answers(scene, tasks) == ["a", "b", "a", "c", "c"]
        await settled(scene)
        assert reserved(scene) == {"west": 0, "east": 0}
        page = scene.routed.metrics.page().decode()
        assert 'nearkv_router_short_pools_total{room="neighbour"} 2.0' in page
        assert 'nearkv_router_pool_reserved_bytes{pool="east"} 0.0' in page


async def test_where_no_pool_has_room_the_policy_decides_and_all_are_answered() -> None:
    async with scene_of(engines("hangs", "hangs", "hangs"), {"west": 10.0, "east": 10.0}) as scene:
        for number in range(3):
            scene.tell("b", prompt(number)[:4])
        tasks = await under_way(scene, 3)
        assert await answers(scene, tasks) == ["b"] * 3
        await settled(scene)
        assert set(reserved(scene).values()) == {0}
        page = scene.routed.metrics.page().decode()
        assert 'nearkv_router_short_pools_total{room="nowhere"} 3.0' in page


async def test_what_is_cached_needs_no_room() -> None:
    async with scene_of(engines("hangs", "hangs", "hangs"), {"west": 10.0, "east": 10.0}) as scene:
        for number in range(3):
            scene.tell("a", prompt(number))
        tasks = await under_way(scene, 3)
        assert reserved(scene) == {"west": 0, "east": 0}
        assert await answers(scene, tasks) == ["a"] * 3


async def test_room_of_a_prefill_lasts_until_its_prompt_is_decoded() -> None:
    roles = {"a": "prefill", "b": "prefill", "c": "decode"}
    room = {"west": 2 * PROMPT_BYTES, "east": 10.0}
    async with scene_of(
        engines("", "", "hangs"), room, roles=roles, prefill_from_tokens=8
    ) as scene:
        tasks = await under_way(scene, 2)
        while any(not scene.routed.router.load("c").requests for _ in tasks):
            await asyncio.sleep(0.005)
        while scene.loads()[:2] != [0, 0]:
            await asyncio.sleep(0.005)
        # Both have been computed; whoever decodes loads, and stores nothing.
        assert reserved(scene) == {"west": 2 * PROMPT_BYTES, "east": 0}
        assert await answers(scene, tasks) == ["c", "c"]
        await settled(scene)
        assert reserved(scene) == {"west": 0, "east": 0}


@pytest.mark.parametrize("behaviour", ["dies", "overloaded", "hangs"])
async def test_engines_that_fail_and_clients_that_vanish_give_room_back(behaviour: str) -> None:
    room = {"west": PROMPT_BYTES, "east": PROMPT_BYTES}
    async with scene_of(engines(behaviour, behaviour, behaviour), room) as scene:
        for _ in range(3):
            try:
                async with asyncio.timeout(0.2), scene.post(stream=True) as answer:
                    await answer.read()
            except TimeoutError:
                pass
            scene.forgive()
        await settled(scene)
        assert reserved(scene) == {"west": 0, "east": 0}


def test_rooms_without_a_limit_are_never_short() -> None:
    rooms = PoolRoom()
    rooms.take(WorkerConfig("p", events="tcp://p:1", capacity_bytes=10))
    rooms.take(WorkerConfig("a", url="http://a:1", pool="p"))
    rooms.take(WorkerConfig("b", url="http://b:1"))
    assert rooms.has("a", 10) and not rooms.has("a", 11)
    assert rooms.has("b", math.inf) and rooms.has("who", math.inf)
    with rooms.reserve("a", 4) as held:
        assert rooms.has("a", 6) and not rooms.has("a", 7)
        rooms.take(WorkerConfig("a", url="http://a:1", pool="q"))  # It stores elsewhere from now.
        rooms.remove("b")
    held.release()
    assert rooms.state()["p"].reserved_bytes == 0
    rooms.take(WorkerConfig("p", events="tcp://p:1"))
    rooms.take(WorkerConfig("a", url="http://a:1", pool="p"))
    assert rooms.has("a", math.inf)
    assert rooms.neighbours("a", ["a", "b", "who"]) == ["b", "who"]
