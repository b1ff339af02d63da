"""What is to be placed: a file of TOML, of which every key is checked."""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearkv.cluster import ClusterError
from nearkv.cluster.placement.server import ServerSpec
from nearkv.cluster.placement.supervisor import Patience

_ROLES = ("both", "prefill", "decode")


@dataclasses.dataclass(frozen=True)
class Group:
    """Workers that are alike, spread over as many nodes as there are."""

    role: str
    count: int
    command: tuple[str, ...]
    """See ServerSpec."""
    resources: Mapping[str, float] = dataclasses.field(default_factory=lambda: {"CPU": 1.0})
    """Of Ray's, that each needs of its node."""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Plan:
    """See README.md."""

    groups: tuple[Group, ...]
    cluster: str = "default"
    etcd: str = "http://127.0.0.1:2379"
    """Endpoints, separated by commas."""
    ttl_s: int = 10
    scheme: str = ""
    block_tokens: int = 0
    pool_socket: str = ""
    """The same on all nodes."""
    pool: str = ""
    """The name under which each node's is listed, with {host} in it."""
    logs: str = "/tmp/nearkv-placement"
    """A folder on each node, or one that all share."""
    patience: Patience = dataclasses.field(default_factory=Patience)

    @property
    def endpoints(self) -> list[str]:
        """What `etcd` says."""
        return self.etcd.split(",")

    def servers(self) -> list[tuple[Group, list[ServerSpec]]]:
        """The servers of each group; their names are role-0, role-1 and so on."""
        return [(group, self._servers(group)) for group in self.groups]

    def _servers(self, group: Group) -> list[ServerSpec]:
        return [
            ServerSpec(
                f"{group.role}-{number}",
                group.role,
                group.command,
                group.variables,
                scheme=self.scheme,
                block_tokens=self.block_tokens,
                pool_socket=self.pool_socket,
                pool=self.pool,
            )
            for number in range(group.count)
        ]


def read_plan(path: Path) -> Plan:
    """Reads a file. ClusterError for what is wrong in it; OSError if it cannot be read."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ClusterError(f"{path} is no TOML: {error}") from error
    return plan_of(table)


def plan_of(table: dict[str, Any]) -> Plan:
    """A plan out of a table. ClusterError."""
    rest = {key: table[key] for key in table if key not in ("group", "patience")}
    groups = table.get("group")
    if not isinstance(groups, list) or not groups:
        raise ClusterError("there is no [[group]]: name at least one with role, count and command")
    whole = {
        "groups": tuple(_group_of(group) for group in groups),
        "patience": _of(Patience, table.get("patience", {}), "[patience]"),
    }
    plan: Plan = _of(Plan, rest, "the file", whole)
    roles = [group.role for group in plan.groups]
    if len(set(roles)) < len(roles):
        raise ClusterError(f"a role has one [[group]]; these are {', '.join(roles)}")
    if not plan.cluster or "/" in plan.cluster:
        raise ClusterError(f"cluster is a name without '/', not {plan.cluster!r}")
    for endpoint in plan.endpoints:
        if not endpoint.startswith(("http://", "https://")):
            raise ClusterError(f"etcd is such as 'http://host:2379', not {endpoint!r}")
    if plan.ttl_s < 1:
        raise ClusterError(f"ttl_s is 1 or more, not {plan.ttl_s}")
    return plan


def _group_of(table: Any) -> Group:
    if isinstance(table, dict) and isinstance(table.get("command"), list):
        table = table | {"command": tuple(table["command"])}
    group: Group = _of(Group, table, "[[group]]")
    where = f"[[group]] {group.role!r}"
    if group.role not in _ROLES:
        raise ClusterError(f"{where}: role is one of {', '.join(_ROLES)}")
    if group.count < 1:
        raise ClusterError(f"{where}: count is 1 or more, not {group.count}")
    if not group.command or not all(isinstance(word, str) for word in group.command):
        raise ClusterError(f"{where}: command is a list of words")
    if not any("{port}" in word for word in group.command):
        raise ClusterError(f"{where}: command has to listen at {{port}}; it names none")
    for name, amount in group.resources.items():
        if not isinstance(amount, int | float) or isinstance(amount, bool) or amount <= 0:
            raise ClusterError(f"{where}: resources are above 0, and {name} is {amount!r}")
    if not all(isinstance(value, str) for value in group.variables.values()):
        raise ClusterError(f"{where}: variables are texts")
    return group


_KINDS: dict[Any, type] = {
    tuple[str, ...]: tuple,
    Mapping[str, float]: dict,
    Mapping[str, str]: dict,
}


def _of(kind: type[Any], table: Any, where: str, given: Mapping[str, Any] | None = None) -> Any:
    given = given or {}
    if not isinstance(table, dict):
        raise ClusterError(f"{where} is a table, not {table!r}")
    fields = {each.name: each for each in dataclasses.fields(kind) if each.name not in given}
    for key, value in table.items():
        if key not in fields:
            raise ClusterError(f"{where} has no key {key!r}; there are {', '.join(fields)}")
        wanted: Any = _KINDS.get(fields[key].type, fields[key].type)
        fits = isinstance(value, wanted) or (wanted is float and isinstance(value, int))
        if not fits or isinstance(value, bool):
            raise ClusterError(f"{where}: {key} is a {wanted.__name__}, not {value!r}")
    needed = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    if missing := sorted(needed - table.keys()):
        raise ClusterError(f"{where} needs {' and '.join(missing)}")
    return kind(**table, **given)
