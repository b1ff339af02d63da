"""Members of a cluster in a real etcd: how they come, stay and go, and what watchers see of it."""

import asyncio
import contextlib
import dataclasses
import json
import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from engine_integration.tests.etcd_server import TTL_S, EtcdServer
from nearkv.membership import (
    BadMember,
    EtcdClient,
    EtcdError,
    Member,
    Members,
    Registration,
    read_member,
    watch_members,
)
from nearkv.membership.__main__ import main

PREFIX = "/nearkv/clusters/test/members/"
A = Member("a", "http://10.0.0.1:8000", role="prefill", instance="first")
POOL = Member("pool", role="pool", events="tcp://10.0.0.1:5557", pool_socket="/run/nearkv.sock")


class Watched:
    """What a watcher saw last."""

    def __init__(self) -> None:
        self.members = Members()
        self.seen: list[set[str]] = []
        self._changed = asyncio.Condition()

    async def see(self, told: AsyncIterator[Members]) -> None:
        async for members in told:
            async with self._changed:
                self.members = members
                self.seen.append(set(members.by_name))
                self._changed.notify_all()

    async def until(self, is_so: Callable[[Members], bool]) -> Members:
        async with self._changed:
            await self._changed.wait_for(lambda: is_so(self.members))
            return self.members

    async def until_names(self, *names: str) -> Members:
        return await self.until(lambda told: told.by_name.keys() == set(names) and told.is_current)

    def assert_never_missed(self, name: str) -> None:
        """Once it was there."""
        was_there = [name in names for names in self.seen]
        assert all(was_there[was_there.index(True) :])


@contextlib.asynccontextmanager
async def watching(etcd: EtcdClient, **options: Any) -> AsyncIterator[Watched]:
    watched = Watched()
    task = asyncio.create_task(
        watched.see(watch_members(etcd, "test", **{"retry_s": 0.1} | options))
    )
    try:
        yield watched
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def registration(etcd: EtcdClient, member: Member, ttl_s: int = TTL_S) -> Registration:
    return Registration(etcd, "test", member, ttl_s=ttl_s)


async def test_members_come_and_go(server: EtcdServer) -> None:
    """At once: their leases would last for long."""
    async with EtcdClient([server.endpoint]) as etcd, watching(etcd) as watched:
        async with registration(etcd, A, ttl_s=600):
            members = await watched.until_names("a")
            assert members.by_name["a"] == A
            async with registration(etcd, POOL, ttl_s=600):
                assert (await watched.until_names("a", "pool")).by_name["pool"] == POOL
            await watched.until_names("a")
        await watched.until_names()


async def test_a_member_that_dies_is_listed_until_its_lease_ends(server: EtcdServer) -> None:
    async with EtcdClient([server.endpoint]) as etcd, watching(etcd) as watched:
        lease = await etcd.grant(TTL_S)
        assert await etcd.put(PREFIX + "a", A.document(), lease=lease, mod_revision=0)
        await watched.until_names("a")
        await watched.until_names()


async def test_a_name_is_taken_over_only_when_its_holder_has_gone(
    server: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    second = Member("a", "http://10.0.0.2:8000", role="decode", instance="second")
    async with EtcdClient([server.endpoint]) as etcd:
        async with watching(etcd) as watched:
            async with registration(etcd, A):
                await watched.until_names("a")
                async with registration(etcd, second) as waiting:
                    await asyncio.sleep(2 * TTL_S)
                    assert not waiting.is_listed
                    assert watched.members.by_name["a"] == A
            async with registration(etcd, second) as listed:
                await listed.wait_listed()
                assert (await watched.until_names("a")).by_name["a"] == second
        assert [set(), {"a"}, set(), {"a"}] == watched.seen[:4]
    said = [each.message for each in caplog.records if "another process" in each.message]
    assert len(said) == 1


async def test_etcd_may_come_after_its_members(own_server: EtcdServer) -> None:
    own_server.kill()
    async with (
        EtcdClient([own_server.endpoint]) as etcd,
        watching(etcd) as watched,
        registration(etcd, A) as listed,
    ):
        members = await watched.until(lambda told: not told.is_current and watched.seen != [])
        assert (members.by_name, listed.is_listed) == ({}, False)
        own_server.start()
        await watched.until_names("a")


async def test_while_etcd_is_away_the_last_members_stay(
    own_server: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nearkv.membership")

    async with (
        EtcdClient([own_server.endpoint]) as etcd,
        watching(etcd) as watched,
        registration(etcd, A),
    ):
        await watched.until_names("a")
        own_server.kill()
        members = await watched.until(lambda told: not told.is_current)
        assert set(members.by_name) == {"a"}
        await asyncio.sleep(2 * TTL_S)
        assert watched.members == members
        own_server.start()
        await watched.until_names("a")
        async with registration(etcd, POOL):
            await watched.until_names("a", "pool")
        watched.assert_never_missed("a")
    said = [each.message for each in caplog.records]
    assert sum("going on with the 1 members last known" in text for text in said) == 1
    assert sum("etcd answers again" in text for text in said) == 1


async def test_members_survive_an_etcd_that_lost_its_data(own_server: EtcdServer) -> None:
    async with (
        EtcdClient([own_server.endpoint]) as etcd,
        watching(etcd, grace_s=5 * TTL_S) as watched,
        registration(etcd, A),
    ):
        lease = await etcd.grant(60)
        gone = Member("gone", "http://10.0.0.9:8000")
        await etcd.put(PREFIX + "gone", gone.document(), lease=lease, mod_revision=0)
        await watched.until_names("a", "gone")
        own_server.kill()
        own_server.forget()
        await watched.until(lambda told: not told.is_current)
        own_server.start()
        await watched.until_names("a", "gone")
        await watched.until_names("a")
        assert watched.members.by_name["a"] == A
        watched.assert_never_missed("a")


async def test_a_lease_that_was_ended_is_replaced(server: EtcdServer) -> None:
    async with (
        EtcdClient([server.endpoint]) as etcd,
        watching(etcd) as watched,
        registration(etcd, A) as listed,
    ):
        await watched.until_names("a")
        await etcd.revoke(listed._lease)
        await watched.until_names()
        assert (await watched.until_names("a")).by_name["a"] == A


async def test_entries_that_are_no_members_are_named_and_ignored(
    server: EtcdServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        EtcdClient([server.endpoint]) as etcd,
        watching(etcd, reread_s=0.1) as watched,
        registration(etcd, A),
    ):
        await etcd.put(PREFIX + "bad", "{", mod_revision=0)
        told = await watched.until(lambda told: "bad" in told.ignored)
        assert "no JSON" in told.ignored["bad"]
        await watched.until(lambda told: set(told.by_name) == {"a"})
        await asyncio.sleep(0.5)
    said = [each.message for each in caplog.records if f"{PREFIX}bad" in each.message]
    assert len(said) == 1


async def test_another_endpoint_answers_for_one_that_is_gone(server: EtcdServer) -> None:
    endpoints = ["http://127.0.0.1:9", server.endpoint]
    async with EtcdClient(endpoints) as etcd, watching(etcd) as watched, registration(etcd, A):
        await watched.until_names("a")


@contextlib.asynccontextmanager
async def losing_answers(server: EtcdServer) -> AsyncIterator[str]:
    """An endpoint that does what it is asked for, and never says so."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = server.endpoint.removeprefix("http://").split(":")
        answers, requests = await asyncio.open_connection(host, int(port))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
        requests.write(head + await reader.readexactly(length))
        await answers.read(1)
        for each in (requests, writer):
            each.close()

    async with await asyncio.start_server(relay, "127.0.0.1") as listening:
        host, port = listening.sockets[0].getsockname()
        yield f"http://{host}:{port}"


async def test_a_write_whose_answer_is_lost_is_known_to_be_done(server: EtcdServer) -> None:
    async with losing_answers(server) as lossy:

        async def put(value: str, **options: int) -> bool:
            async with EtcdClient([lossy, server.endpoint]) as etcd:
                return await etcd.put(PREFIX + "a", value, **options)

        assert await put("mine", mod_revision=0)
        assert not await put("another's", mod_revision=0)
        async with EtcdClient([server.endpoint]) as etcd:
            entries, _ = await etcd.range(PREFIX)
            written = entries[PREFIX + "a"]
            assert written.value == "mine"
            lease = await etcd.grant(60)
        assert not await put("mine", lease=lease, mod_revision=0), "it would end with no lease"
        assert await put("mine", lease=lease, mod_revision=written.mod_revision)


def command(*words: str, server: EtcdServer) -> list[str]:
    return [sys.executable, "-m", "nearkv.membership", *words, "--etcd", server.endpoint]


def listed_names(server: EtcdServer, capsys: pytest.CaptureFixture) -> tuple[list[str], list[str]]:
    assert main(["list", "test", "--json", "--etcd", server.endpoint]) == 0
    told = json.loads(capsys.readouterr().out)
    return [member["name"] for member in told["members"]], list(told["ignored"])


def test_a_command_registers_what_does_not_itself(
    server: EtcdServer, capsys: pytest.CaptureFixture
) -> None:
    words = ["--name", "a", "--url", "http://10.0.0.1:8000", "--role", "decode"]
    register = command("register", "test", *words, "--block-tokens", "64", server=server)
    with subprocess.Popen(register, stderr=subprocess.DEVNULL) as sidecar:
        while listed_names(server, capsys) != (["a"], []):
            assert sidecar.poll() is None
            time.sleep(0.05)
        assert main(["list", "test", "--etcd", server.endpoint]) == 0
        assert capsys.readouterr().out.split() == ["a", "decode", "http://10.0.0.1:8000"]
        sidecar.terminate()
    assert sidecar.returncode == 0
    assert listed_names(server, capsys) == ([], [])


async def test_names_in_etcd_do_not_drive_the_terminal_of_who_lists_them(
    server: EtcdServer, capsys: pytest.CaptureFixture
) -> None:
    member = dataclasses.replace(A, name="a\x1b[2J")
    async with EtcdClient([server.endpoint]) as etcd:
        for name, value in ((member.name, member.document()), ("\x1b]0;bad\x07", "{")):
            await etcd.put(PREFIX + name, value, mod_revision=0)
    assert await asyncio.to_thread(main, ["list", "test", "--etcd", server.endpoint]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert r"a\x1b[2J" in said
    assert await asyncio.to_thread(listed_names, server, capsys) == (
        [member.name],
        ["\x1b]0;bad\x07"],
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["list", "test", "--etcd", "http://127.0.0.1:9"], 1, "etcd does not answer"),
        (["list", "a/b"], 2, "without '/'"),
        (["list", "test", "--etcd", "localhost"], 2, "http://host:2379"),
        (["register", "test", "--name", "a"], 2, "http://host:8000"),
        (["register", "test", "--name", "a", "--role", "router"], 2, "invalid choice"),
        (
            ["register", "test", "--name", "a", "--url", "http://a:1", "--ttl-s", "0"],
            2,
            "1 or more",
        ),
    ],
)
def test_wrong_usage_of_the_command_is_told(
    words: list[str], status: int, said: str, capsys: pytest.CaptureFixture
) -> None:
    try:
        assert main(words) == status
    except SystemExit as error:
        assert error.code == status
    assert said in capsys.readouterr().err


async def test_what_is_no_etcd_is_said() -> None:
    async with EtcdClient(["http://127.0.0.1:9"]) as etcd:
        with pytest.raises(EtcdError, match=r"127\.0\.0\.1:9"):
            await etcd.range(PREFIX)
    with pytest.raises(ValueError, match="http://host:2379"):
        EtcdClient(["localhost:2379"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "b"}, "it says that it is 'b'"),
        ({"url": "10.0.0.1:8000"}, "http://host:8000"),
        ({"url": 7}, "url is a str, not 7"),
        ({"role": "router"}, "both, prefill, decode, pool"),
        ({"role": "pool"}, "events and no url"),
        ({"block_tokens": -1}, "0 or more"),
        ({"capacity_bytes": float("inf")}, "0 or more"),
        ({"prefill_tokens_per_s": 10**400}, "0 or more"),
        ({"block_tokens": 1 << 32}, r"below 2\*\*32"),
        ({"events": "tcp://\ud800"}, "events is no text"),
        ({"block_tokens": True}, "block_tokens is a int"),
        ({"prefill_tokens_per_s": "fast"}, "is a float"),
        ({"instance": None}, "instance is a str"),
    ],
)
def test_what_is_no_member_is_told(changed: dict[str, Any], said: str) -> None:
    table = json.loads(A.document())
    with pytest.raises(BadMember, match=said):
        read_member("a", json.dumps(table | changed))


@pytest.mark.parametrize("document", ["", "[1]", "[" * 100_000, '{"name": "a"}', "\ufffd"])
def test_what_is_no_document_is_told(document: str) -> None:
    with pytest.raises(BadMember):
        read_member("a", document)


def test_what_a_later_version_writes_is_left_out() -> None:
    table = json.loads(A.document()) | {"region": "north"}
    assert read_member("a", json.dumps(table)) == A
