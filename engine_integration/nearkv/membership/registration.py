"""A member's place in etcd, kept as long as the member serves."""

import asyncio
import contextlib
import logging
from typing import Self

from nearkv.membership.etcd import EtcdClient, EtcdError
from nearkv.membership.member import BadMember, Member, read_member

_LOG = logging.getLogger("nearkv.membership")


def members_prefix(cluster: str) -> str:
    """What the keys of a cluster's members begin with. ValueError for what is no name."""
    if not cluster or "/" in cluster:
        raise ValueError(f"a cluster's name is a text without '/', not {cluster!r}")
    return f"/nearkv/clusters/{cluster}/members/"


class Registration:
    """Lists a member while the block lasts. A context manager.

    Entering does not wait: while etcd is absent, or another process holds the name, it is tried
    again until it succeeds, and the log says so once. A process that ends without leaving the block
    is listed for `ttl_s` more at most. A lease that lapses, as when etcd has lost its data, is
    replaced.
    """

    def __init__(self, etcd: EtcdClient, cluster: str, member: Member, *, ttl_s: int = 10) -> None:
        """`etcd` is open as long as this is. ValueError for a bad cluster or `ttl_s`."""
        if ttl_s < 1:
            raise ValueError(f"ttl_s is 1 or more, not {ttl_s}")
        self._etcd = etcd
        self._member = member
        self._key = members_prefix(cluster) + member.name
        self._ttl_s = ttl_s
        self._pause_s = ttl_s / 3
        self._lease = 0
        self._listed = asyncio.Event()
        self._told = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_listed(self) -> bool:
        """Whether the member's key was there when etcd last answered."""
        return self._listed.is_set()

    async def wait_listed(self) -> None:
        """Until it is."""
        await self._listed.wait()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"register {self._member.name}")
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._lease:
            with contextlib.suppress(EtcdError):  # It ends by itself.
                await self._etcd.revoke(self._lease)
        self._listed.clear()

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except EtcdError as error:
                self._tell(f"{error}; it is tried again every {self._pause_s:.1f} s")
            await asyncio.sleep(self._pause_s)

    async def _step(self) -> None:
        if not self._lease or not await self._etcd.keep_alive(self._lease):
            self._lease = 0
            self._listed.clear()
            self._lease = await self._etcd.grant(self._ttl_s)
        if not self.is_listed and await self._take_key():
            self._listed.set()
            self._told = ""
            _LOG.info("%s is listed in etcd", self._member.name)

    async def _take_key(self) -> bool:
        entries, _ = await self._etcd.range(self._key)
        held = entries.get(self._key)
        if held is not None and not self._is_ours(held.value):
            self._tell("another process has the name; waiting until its lease ends")
            return False
        revision = held.mod_revision if held else 0
        document = self._member.document()
        return await self._etcd.put(self._key, document, lease=self._lease, mod_revision=revision)

    def _is_ours(self, document: str) -> bool:
        """Whether this process wrote it, under a lease that has lapsed, or unheard."""
        with contextlib.suppress(BadMember):
            return read_member(self._member.name, document).instance == self._member.instance
        return False

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._told = text
            _LOG.warning("%s is not listed: %s", self._member.name, text)
