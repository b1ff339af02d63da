"""Engines as Envoy knows them: IP:PORT, not names."""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

_LOG = logging.getLogger("nearkv.router")
_PORTS = {"http": 80, "https": 443}


class Endpoints:
    """Which engine is at which address. One event loop uses it.

    Names are looked up by look_up(), again and again, since a pod that starts anew has another
    address. A name without one is no endpoint until it has.
    """

    def __init__(self, urls: Mapping[str, str]) -> None:
        """`urls` of engines by their names. ValueError for one that has no host."""
        self._of: dict[str, str] = {}
        self._names: dict[str, tuple[str, int]] = {}
        for worker, url in urls.items():
            parts = urlsplit(url)
            if not parts.hostname:
                raise ValueError(f"worker {worker!r}: {url!r} names no host")
            port = parts.port or _PORTS[parts.scheme]
            try:
                self._of[worker] = _endpoint(str(ipaddress.ip_address(parts.hostname)), port)
            except ValueError:
                self._names[worker] = (parts.hostname, port)

    def of(self, worker: str) -> str | None:
        """Where an engine is, or None while that is not known."""
        return self._of.get(worker)

    def worker(self, endpoint: str) -> str | None:
        """Who is there; None: no engine of ours."""
        return next((worker for worker, at in self._of.items() if at == endpoint), None)

    async def look_up(self) -> None:
        """Looks all names up once."""
        await asyncio.gather(*(self._look_up(worker) for worker in self._names))

    async def _look_up(self, worker: str) -> None:
        host, port = self._names[worker]
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            if self._of.pop(worker, None) is not None:
                _LOG.warning("%s: %s has no address any more: %s", worker, host, error)
            return
        self._of[worker] = _endpoint(str(found[0][4][0]), port)


def _endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
