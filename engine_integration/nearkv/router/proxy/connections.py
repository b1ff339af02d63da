"""Connections to engines, which end those that are idle whenever they like."""

import contextlib
import errno
from collections.abc import AsyncIterator, Mapping
from typing import Self

import aiohttp

_IDLE_S = 2.0  # vLLM's server ends a connection after 5 s without a request.
# What the operating system refuses to the router: no engine can help it.
_OURS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}


def is_ours(error: BaseException) -> bool:
    """Whether a request failed on the router's side, and says nothing of the engine."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return True
    return isinstance(error, OSError) and error.errno in _OURS


class Connections(contextlib.AbstractAsyncContextManager):
    """HTTP to engines, for one event loop. Bodies come as engines send them, packed or not."""

    def __init__(self, *, connect_timeout_s: float, silence_timeout_s: float) -> None:
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=connect_timeout_s, sock_read=silence_timeout_s
        )

    async def __aenter__(self) -> Self:
        self._kept = self._session(aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S))
        self._fresh = self._session(aiohttp.TCPConnector(limit=0, force_close=True))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._kept.close()
        await self._fresh.close()

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, body: bytes | str | None, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An engine's answer.

        An engine that ends a connection before it has said anything may just have found it idle
        for too long: it is asked once more, on a new one.
        """
        try:
            answer = await self._kept.request(method, url, data=body, headers=headers)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if isinstance(error, aiohttp.ClientConnectorError):
                raise
            answer = await self._fresh.request(method, url, data=body, headers=headers)
        async with answer:
            yield answer

    def _session(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            timeout=self._timeout,
            connector=connector,
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
        )
