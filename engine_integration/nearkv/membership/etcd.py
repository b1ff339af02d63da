"""What membership needs of etcd, by the JSON gateway of its v3 API (etcd 3.4 and later)."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import aiohttp

_TIMEOUT_S = 3.0
_MOST_LINE_BYTES = 1 << 24
_T = TypeVar("_T")
# No connection, a time-out, or an answer that is not etcd's.
_NO_ANSWER = (
    *(aiohttp.ClientError, asyncio.TimeoutError, OSError),
    *(ValueError, KeyError, TypeError, AttributeError),
)


class EtcdError(OSError):
    """No endpoint answered as etcd does; the text has what each of them said."""


@dataclass(frozen=True)
class Entry:
    """A key's value; texts that are no UTF-8 have replacement characters."""

    value: str
    mod_revision: int


@dataclass(frozen=True)
class Change:
    """A key that was written, or with `entry` None deleted."""

    key: str
    entry: Entry | None


class EtcdClient:
    """An asynchronous client of one etcd cluster. A context manager; one event loop uses it.

    Every call tries all endpoints, beginning with the one that answered last, and raises EtcdError
    when none did.
    """

    def __init__(self, endpoints: Sequence[str]) -> None:
        """`endpoints`: each http://HOST:PORT. ValueError."""
        self._endpoints = [endpoint.strip().rstrip("/") for endpoint in endpoints]
        for endpoint in self._endpoints:
            if not endpoint.startswith(("http://", "https://")):
                raise ValueError(f"an endpoint of etcd is 'http://host:2379', not {endpoint!r}")
        if not self._endpoints:
            raise ValueError("etcd has no endpoint")
        self._session: aiohttp.ClientSession | None = None

    def __str__(self) -> str:
        return ",".join(self._endpoints)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(read_bufsize=_MOST_LINE_BYTES)
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._session:
            await self._session.close()

    async def range(self, prefix: str) -> tuple[dict[str, Entry], int]:
        """All entries whose keys begin so, and the revision at which they were read."""

        def read(told: Any) -> tuple[dict[str, Entry], int]:
            found = {_text(each["key"]): _entry(each) for each in told.get("kvs", ())}
            return found, int(told["header"]["revision"])

        return await self._post("/v3/kv/range", _prefix(prefix), read)

    async def grant(self, ttl_s: int) -> int:
        """A lease that ends when it is not kept alive for so long."""
        return await self._post("/v3/lease/grant", {"TTL": ttl_s}, lambda told: int(told["ID"]))

    async def keep_alive(self, lease: int) -> bool:
        """Begins the lease's time anew; False: it has ended."""
        return await self._post(
            "/v3/lease/keepalive", {"ID": lease}, lambda told: int(told["result"].get("TTL", 0)) > 0
        )

    async def revoke(self, lease: int) -> None:
        """Ends a lease and deletes its keys; one that has ended is no error."""
        await self._post("/v3/lease/revoke", {"ID": lease}, lambda told: None, also_good=404)

    async def put(self, key: str, value: str, *, lease: int = 0, mod_revision: int) -> bool:
        """Writes a key if it is still of that revision; 0: if it is not there.

        It may be written by an endpoint whose answer is lost, and be asked of another one then:
        also a key that holds this very value under this lease is written.
        """
        compare = {
            "key": _base64(key),
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": mod_revision,
        }
        put = {"key": _base64(key), "value": _base64(value), "lease": lease}
        found = {"request_range": {"key": _base64(key)}}
        body = {"compare": [compare], "success": [{"request_put": put}], "failure": [found]}

        def read(told: Any) -> bool:
            if told.get("succeeded"):
                return True
            held = told["responses"][0]["response_range"].get("kvs", ())
            return any(
                each.get("value", "") == put["value"] and int(each.get("lease", 0)) == lease
                for each in held
            )

        return await self._post("/v3/kv/txn", body, read)

    async def watch(
        self, prefix: str, revision: int, quiet_s: float
    ) -> AsyncGenerator[list[Change], None]:
        """Changes of keys that begin so, from a revision on, until none came for `quiet_s`.

        EtcdError also for a revision that is compacted: read the range again.
        """
        body = {"create_request": _prefix(prefix) | {"start_revision": revision}}
        timeout = aiohttp.ClientTimeout(sock_connect=_TIMEOUT_S, sock_read=quiet_s)
        assert self._session, "used outside its context"
        endpoint = self._endpoints[0]
        try:
            async with self._session.post(
                f"{endpoint}/v3/watch", json=body, timeout=timeout
            ) as answer:
                if answer.status != 200:
                    raise EtcdError(f"{endpoint} answered {answer.status}")
                async for line in answer.content:
                    told = json.loads(line)["result"]
                    if told.get("canceled"):
                        raise EtcdError(f"{endpoint} ended a watch: {told.get('cancel_reason')}")
                    if changes := [_change(event) for event in told.get("events", ())]:
                        yield changes
        except aiohttp.SocketTimeoutError:
            return
        except EtcdError:
            raise
        except _NO_ANSWER as error:
            raise EtcdError(f"{endpoint}: {error or type(error).__name__}") from error
        raise EtcdError(f"{endpoint} ended a watch")

    async def _post(
        self,
        path: str,
        body: dict[str, Any],
        read: Callable[[Any], _T],
        *,
        also_good: int = 200,
    ) -> _T:
        """What `read` makes of the first answer that is etcd's."""
        failures = []
        assert self._session, "used outside its context"
        for endpoint in list(self._endpoints):
            try:
                async with self._session.post(
                    endpoint + path, json=body, timeout=aiohttp.ClientTimeout(_TIMEOUT_S)
                ) as answer:
                    told = json.loads(await answer.read())
                    if answer.status in (200, also_good):
                        return read(told)
                    failures.append(f"{endpoint} answered {answer.status}: {told.get('error')}")
            except _NO_ANSWER as error:
                failures.append(f"{endpoint}: {error or type(error).__name__}")
            self._endpoints.remove(endpoint)  # The next call begins with another.
            self._endpoints.append(endpoint)
        raise EtcdError(f"etcd does not answer ({'; '.join(failures)})")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode(errors="replace")


def _prefix(prefix: str) -> dict[str, str]:
    """The range of all keys that begin so; a prefix ends with a character below U+007F."""
    return {"key": _base64(prefix), "range_end": _base64(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def _entry(pair: dict[str, Any]) -> Entry:
    return Entry(_text(pair.get("value", "")), int(pair["mod_revision"]))


def _change(event: dict[str, Any]) -> Change:
    pair = event["kv"]
    is_gone = event.get("type") == "DELETE"
    return Change(_text(pair["key"]), None if is_gone else _entry(pair))
