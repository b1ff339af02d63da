"""One worker or pool as etcd has it: a key with its name, and a document of JSON."""

import dataclasses
import json
import secrets
from typing import Any

ROLES = ("both", "prefill", "decode", "pool")


class BadMember(ValueError):
    """An entry that is no member; the text says what is wrong with it."""


@dataclasses.dataclass(frozen=True)
class Member:
    """What a router has to know of one that serves. BadMember for what cannot be."""

    name: str
    url: str = ""
    """http://HOST:PORT, without /v1; of a pool, empty."""
    role: str = "both"
    """One of ROLES: a worker that prefills, decodes or does both, or a pool."""
    events: str = ""
    """ZeroMQ endpoint of its KV events; empty: its cache is not known."""
    replay: str = ""
    """Where events that were missed are asked for."""
    topic: str = ""
    ranks: int = 1
    """Of a worker: data-parallel ranks behind its url, each with events one port further."""
    scheme: str = ""
    """How it hashes blocks, as the router's `scheme`; empty: as the router does."""
    block_tokens: int = 0
    """Tokens of a block; 0: as the router has them."""
    prefill_tokens_per_s: float = 0.0
    max_running: int = 0
    """Most requests that it is sent at a time; 0: no limit."""
    pool: str = ""
    """Of a worker: the name of the pool that it stores in; empty: none, or no matter which."""
    capacity_bytes: float = 0.0
    """Of a pool: what prompts under way may take of it together; 0: no limit."""
    pool_socket: str = ""
    """The pool's daemon on its machine; empty: none."""
    instance: str = dataclasses.field(default_factory=lambda: secrets.token_hex(8))
    """Tells a process from an earlier one of the name, whose cache is gone."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, wanted = getattr(self, field.name), _type_of(field)
            fits = isinstance(value, wanted) or (wanted is float and type(value) is int)
            if not fits or isinstance(value, bool):
                raise BadMember(f"{field.name} is a {wanted.__name__}, not {value!r}")
            if isinstance(value, str) and not _is_text(value):
                raise BadMember(f"{field.name} is no text: {value!r}")
        if not self.name or "/" in self.name:
            raise BadMember(f"name is a text without '/', not {self.name!r}")
        if self.role not in ROLES:
            raise BadMember(f"role is one of {', '.join(ROLES)}, not {self.role!r}")
        if self.is_pool:
            if self.url or not self.events:
                raise BadMember("a pool has events and no url: it computes nothing")
        elif not self.url.startswith(("http://", "https://")):
            raise BadMember(f"url is such as 'http://host:8000', not {self.url!r}")
        if self.ranks < 1 or (self.ranks > 1 and not has_ports(self.events, self.replay)):
            raise BadMember("ranks is 1 or more; several have events as at 'tcp://host:5557'")
        amounts = ("block_tokens", "prefill_tokens_per_s", "max_running", "capacity_bytes")
        if not all(_is_amount(getattr(self, amount)) for amount in amounts):
            raise BadMember(
                f"{', '.join(amounts[:-1])} and {amounts[-1]} are 0 or more, and below 2**63"
            )
        if max(self.block_tokens, self.max_running, self.ranks) >= 1 << 32:
            raise BadMember("block_tokens, max_running and ranks are below 2**32")

    @property
    def is_pool(self) -> bool:
        """Whether it computes nothing, and holds blocks for all workers."""
        return self.role == "pool"

    def document(self) -> str:
        """What etcd keeps; read_member() has it back."""
        return json.dumps(dataclasses.asdict(self))


def read_member(name: str, document: str) -> Member:
    """A member out of its key's last part and its document. BadMember for nonsense.

    Keys that are not known are left out: a later version may have written them.
    """
    try:
        table: Any = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise BadMember(f"its value is no JSON: {error}") from error
    if not isinstance(table, dict):
        raise BadMember("its value is no JSON object")
    known = {field.name for field in dataclasses.fields(Member)}
    missing = {"name", "instance"} - table.keys()
    if missing:
        raise BadMember(f"it has no {' and no '.join(sorted(missing))}")
    member = Member(**{key: value for key, value in table.items() if key in known})
    if member.name != name:
        raise BadMember(f"it says that it is {member.name!r}")
    return member


def has_ports(*endpoints: str) -> bool:
    """Whether those that are not empty are of TCP: ranks have theirs at the ports behind."""
    return all(
        each.startswith("tcp://") and each.rpartition(":")[2].isdecimal()
        for each in filter(None, endpoints)
    )


def _is_text(value: str) -> bool:
    """JSON may have halves of surrogate pairs, which no socket takes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_amount(value: float) -> bool:
    """Also of integers that no float is as large as."""
    return 0 <= value < 1 << 63


def _type_of(field: dataclasses.Field[Any]) -> type:
    assert isinstance(field.type, type)
    return field.type
