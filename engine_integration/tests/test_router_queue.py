"""Requests that wait in front of engines at their limit: order, bounds, and who goes away."""

import asyncio
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from aiohttp import web

from engine_integration.tests.router_scene import PROMPT, FakeEngine, Scene, engines, settled
from nearkv.router.engines import DECODE
from nearkv.router.placing import unseen_prompt


class TurnEngine(FakeEngine):
    """Ends its requests one by one, when it is told to; remembers the order in which they came."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.came: list[str] = []
        self.at_once = self.most_at_once = 0
        self._may_end = asyncio.Semaphore(0)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.came.append((await request.json())["user"])
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await self._may_end.acquire()
        finally:
            self.at_once -= 1
        return web.json_response({"id": self.name})

    def end_one(self) -> None:
        self._may_end.release()


async def waiting(scene: Scene, count: int) -> None:
    while scene.routed.health()["waiting"]["decode"] != count:
        await asyncio.sleep(0.005)


def ask(scene: Scene, user: str, tenant: str = "", **body: Any) -> asyncio.Task[int]:
    """A client; its result is the status that it sees."""

    async def asks() -> int:
        headers = {"x-gateway-inference-fairness-id": tenant} if tenant else {}
        body.setdefault("prompt", PROMPT)
        json = body | {"user": user}
        async with scene.client.post("/v1/completions", json=json, headers=headers) as answer:
            await answer.read()
            return answer.status

    return asyncio.create_task(asks())


async def line_up(scene: Scene, *clients: Callable[[], asyncio.Task[int]]) -> list[Any]:
    """The first is at the engine, the others wait in this order."""
    tasks = [clients[0]()]
    while not scene.engines[0].came:
        await asyncio.sleep(0.005)
    for count, client in enumerate(clients[1:], start=1):
        tasks.append(client())
        await waiting(scene, count)
    return tasks


async def test_no_engine_has_more_requests_than_it_may_and_all_are_answered() -> None:
    async with Scene(
        [TurnEngine("a"), TurnEngine("b")], max_running=2, policy="least_load"
    ) as scene:
        clients = [ask(scene, str(number)) for number in range(20)]
        await waiting(scene, 16)
        while [engine.at_once for engine in scene.engines] != [2, 2]:
            await asyncio.sleep(0.005)
        for number in range(20):
            scene.engines[number % 2].end_one()
        assert await asyncio.gather(*clients) == [200] * 20
        assert [engine.most_at_once for engine in scene.engines] == [2, 2]
        await settled(scene)


async def served(scene: Scene, tasks: list[asyncio.Task[int]]) -> list[str]:
    for _ in tasks:
        scene.engines[0].end_one()
    assert await asyncio.gather(*tasks) == [200] * len(tasks)
    return scene.engines[0].came


async def test_who_has_most_in_the_cache_goes_first_and_the_oldest_in_turn() -> None:
    async with Scene([TurnEngine("a")], max_running=1, queue_k=3) as scene:
        cached = [list(range(start, start + 64)) for start in (1000, 2000)]
        for prompt, blocks in zip(cached, (8, 16), strict=True):
            scene.tell("a", prompt[: blocks * 4])
        tasks = await line_up(
            scene,
            lambda: ask(scene, "first"),
            lambda: ask(scene, "old"),
            lambda: ask(scene, "older than the last"),
            lambda: ask(scene, "half cached", prompt=cached[0]),
            lambda: ask(scene, "cached", prompt=cached[1]),
        )
        assert await served(scene, tasks) == [
            *("first", "old", "cached", "half cached", "older than the last"),
        ]


async def test_tenants_take_turns_however_many_requests_one_sends() -> None:
    async with Scene([TurnEngine("a")], max_running=1, queue_k=1) as scene:
        many = [lambda number=number: ask(scene, f"many {number}", "many") for number in range(5)]
        few = [lambda number=number: ask(scene, f"few {number}", "few") for number in range(2)]
        came = await served(scene, await line_up(scene, *many, *few))
        assert came[:5] == ["many 0", "many 1", "few 0", "many 2", "few 1"]


def test_an_api_key_tells_tenants_apart_and_is_not_kept() -> None:
    from nearkv.router.waiting import tenant_of

    keys = [{"authorization": f"Bearer {key}"} for key in ("one", "two", "one")]
    one, two, again = (tenant_of(headers, "x-tenant") for headers in keys)
    assert one == again != two
    assert "one" not in one
    assert tenant_of({"x-tenant": "acme", "authorization": "Bearer one"}, "x-tenant") == "acme"
    assert tenant_of({}, "x-tenant") == ""


async def test_a_full_queue_and_a_slow_one_are_429() -> None:
    async with Scene(
        [TurnEngine("a")], max_running=1, queue_length=2, queue_timeout_s=1.0
    ) as scene:
        tasks = await line_up(
            scene,
            lambda: ask(scene, "runs"),
            lambda: ask(scene, "waits"),
            lambda: ask(scene, "too"),
        )
        async with scene.post(user="more") as answer:
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
            error = (await answer.json())["error"]
            assert (error["type"], "2 requests wait" in error["message"]) == (
                "rate_limit_error",
                True,
            )
        assert await asyncio.gather(*tasks[1:]) == [429, 429]  # After queue_timeout_s.
        await waiting(scene, 0)
        scene.engines[0].end_one()
        assert await tasks[0] == 200
        assert scene.engines[0].came == ["runs"]


async def test_a_client_that_vanishes_leaves_the_queue() -> None:
    async with Scene([TurnEngine("a")], max_running=1) as scene:
        tasks = await line_up(
            scene, *(lambda user=user: ask(scene, user) for user in ("runs", "leaves", "stays"))
        )
        tasks[1].cancel()
        await waiting(scene, 1)
        assert await served(scene, [tasks[0], tasks[2]]) == ["runs", "stays"]
        await settled(scene)


async def test_clients_that_vanish_at_any_moment_leave_neither_load_nor_waiters() -> None:
    async with Scene([TurnEngine("a")], max_running=2) as scene:
        draw = random.Random(1)

        async def vanish(number: int) -> None:
            client = ask(scene, str(number))
            await asyncio.sleep(draw.random() * 0.05)
            client.cancel()
            await asyncio.gather(client, return_exceptions=True)

        async def serve() -> None:
            while True:
                scene.engines[0].end_one()
                await asyncio.sleep(0.003)

        serving = asyncio.create_task(serve())
        await asyncio.gather(*(vanish(number) for number in range(200)))
        await settled(scene)
        await waiting(scene, 0)
        assert await ask(scene, "last") == 200
        serving.cancel()


async def test_who_leaves_at_the_moment_of_going_on_leaves_no_load() -> None:
    async with Scene([TurnEngine("a")], max_running=1) as scene:
        place = functools.partial(
            scene.routed.place, unseen_prompt("POST", "/v1/completions", 0), DECODE
        )
        first = await place()
        second = asyncio.create_task(place())
        await waiting(scene, 1)
        first.finish()  # It is sent on, and cancelled before it learns of that.
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert scene.loads() == [0]


async def test_when_the_last_engine_fails_nobody_waits_for_it() -> None:
    async with Scene([TurnEngine("a")], max_running=1) as scene:
        tasks = await line_up(
            scene, *(lambda user=user: ask(scene, user) for user in ("runs", "waits"))
        )
        scene.routed.suspend("a", "it failed")
        assert await tasks[1] == 503
        scene.engines[0].end_one()
        assert await tasks[0] == 200


async def test_an_engine_that_comes_back_takes_those_who_wait_for_another() -> None:
    async with Scene([TurnEngine("a"), TurnEngine("b")], max_running=1, suspend_s=1.0) as scene:
        scene.routed.suspend("b", "it failed")
        tasks = await line_up(
            scene, *(lambda user=user: ask(scene, user) for user in ("at a", "at b"))
        )
        scene.engines[1].end_one()
        assert await tasks[1] == 200  # After suspend_s; a still has no room.
        assert scene.engines[1].came == ["at b"]
        scene.engines[0].end_one()
        assert await tasks[0] == 200


async def test_what_needs_no_computing_does_not_wait() -> None:
    async with Scene([TurnEngine("a")], max_running=1) as scene:
        tasks = await line_up(scene, lambda: ask(scene, "runs"), lambda: ask(scene, "waits"))
        async with scene.client.get("/v1/models") as answer:
            assert answer.status == 200
        assert await served(scene, tasks) == ["runs", "waits"]


async def test_at_the_end_those_who_wait_are_told() -> None:
    async with Scene([TurnEngine("a")], max_running=1) as scene:
        tasks = await line_up(
            scene, *(lambda user=user: ask(scene, user) for user in ("runs", "waits"))
        )
        closing = asyncio.create_task(scene.server.close())
        assert await tasks[1] == 503
        scene.engines[0].end_one()
        await closing
        assert await tasks[0] == 200


async def test_a_retry_waits_for_room_too() -> None:
    async with Scene([*engines("overloaded"), TurnEngine("b")], max_running=1) as scene:
        scene.tell("a", PROMPT)  # a fails, b is at its limit.
        scene.routed.suspend("a", "so that the first goes to b")
        first = ask(scene, "runs")
        while not scene.engines[1].came:
            await asyncio.sleep(0.005)
        scene.routed.fleet.resume()
        second = ask(scene, "goes on")
        await waiting(scene, 1)
        assert len(scene.engines[0].bodies) == 1
        scene.engines[1].end_one()
        scene.engines[1].end_one()
        assert await asyncio.gather(first, second) == [200, 200]
        assert scene.engines[1].came == ["runs", "goes on"]
