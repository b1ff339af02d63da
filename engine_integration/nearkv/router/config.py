"""What a front end is told: a file of TOML, of which every key is checked."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

from nearkv.membership import has_ports
from nearkv.router import costs
from nearkv.router.costs import Costs
from nearkv.router.tables import ConfigError, record_of, tables_at

ROLES = ("both", "prefill", "decode")
_OF_THEIR_OWN = ("workers", "discovery", "costs")  # Fields that are tables of the file.


@dataclasses.dataclass(frozen=True)
class WorkerConfig:
    """An engine, or with `url` empty a pool, whose blocks all engines can load."""

    name: str
    url: str = ""  # http://HOST:PORT, without /v1
    events: str = ""  # ZeroMQ endpoint of its KV events; empty: its cache is not known
    replay: str = ""  # where events that were missed are asked for
    role: str = "both"  # or prefill, or decode: they share a pool
    topic: str = ""
    ranks: int = 1  # data-parallel ones behind its url; each has events one port behind the last
    prefill_tokens_per_s: float = 0
    max_running: int = 0  # requests at a time; further ones wait in front. 0: no limit
    pool: str = ""  # of an engine: the one that it stores in
    capacity_bytes: float = 0  # of a pool: for prompts under way. 0: no limit


@dataclasses.dataclass(frozen=True)
class DiscoveryConfig:
    """Where workers and pools register: see nearkv/membership/README.md."""

    etcd: str = "http://127.0.0.1:2379"  # endpoints, separated by commas
    cluster: str = "default"

    @property
    def endpoints(self) -> list[str]:
        """What `etcd` says."""
        return self.etcd.split(",")


@dataclasses.dataclass(frozen=True)
class RouterConfig:
    """See proxy/README.md and gateway/README.md."""

    listen: str = "127.0.0.1:8080"
    policy: str = "least_ttft"
    scheme: str = "vllm-sha256"
    seed: str = ""  # the engines' PYTHONHASHSEED
    block_tokens: int = 16
    block_bytes: float = 2 << 20
    models: str = ""  # names of base models, with commas between; other names are adapters' (LoRA)
    tokenizer: str = ""  # a folder or name for transformers; empty: only prompts of token ids match
    index_limit_bytes: int = 1 << 30
    ttft_slo_s: float = float("inf")  # mooncake refuses what would be later
    connect_timeout_s: float = 5
    silence_timeout_s: float = 600  # an engine that sends nothing for so long has died
    prefill_from_tokens: int = 128  # fewer that are not cached are left to the engine that decodes
    suspend_s: float = 5  # for how long an engine that failed gets nothing new
    most_body_bytes: int = 64 << 20
    queue_length: int = 1024  # requests that wait at most, while all engines are at max_running,
    queue_timeout_s: float = 30  # and for how long
    queue_k: int = 8  # of k-LPM: 1 is first come, first served
    tenant_header: str = "x-gateway-inference-fairness-id"  # without it the API key tells tenants
    gateway_listen: str = "127.0.0.1:9002"  # where the endpoint picker's gRPC is,
    certificate: str = ""  # with TLS, if these two name files of PEM
    key: str = ""
    fallback_endpoints: int = 1  # picked beside the best one, for Envoy's retries
    workers: tuple[WorkerConfig, ...] = ()
    discovery: DiscoveryConfig | None = None  # others come from there
    costs: Costs = dataclasses.field(default_factory=Costs)  # that policies go by

    @property
    def address(self) -> tuple[str, int]:
        """What `listen` says."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


def read_config(path: Path) -> RouterConfig:
    """Reads a file. ConfigError for what is wrong in it; OSError if it cannot be read."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error
    return config_of(table)


def config_of(table: dict[str, Any]) -> RouterConfig:
    """A configuration out of a table. ConfigError."""
    workers = [record_of(WorkerConfig, each, "worker") for each in tables_at(table, "worker")]
    pools = [record_of(WorkerConfig, each, "pool") for each in tables_at(table, "pool")]
    others = ("worker", "pool", "discovery", *costs.TABLES)
    plain = {key: value for key, value in table.items() if key not in others}
    config = dataclasses.replace(
        record_of(RouterConfig, plain, "the file", but=_OF_THEIR_OWN),
        workers=(*workers, *pools),
        discovery=_discovery(table["discovery"]) if "discovery" in table else None,
        costs=Costs.parse(table),
    )
    is_whole = config.discovery is None
    if is_whole and not workers:
        raise ConfigError(
            "there is no [[worker]]: name at least one engine with its url, or a [discovery]"
        )
    for worker in workers:
        if not worker.url.startswith(("http://", "https://")):
            raise ConfigError(f"worker {worker.name!r} needs a url such as 'http://host:8000'")
        if worker.role not in ROLES:
            raise ConfigError(f"worker {worker.name!r}: role is one of {', '.join(ROLES)}")
        if worker.ranks < 1 or (worker.ranks > 1 and not has_ports(worker.events, worker.replay)):
            raise ConfigError(
                f"worker {worker.name!r}: ranks is 1 or more, and where they are several, events"
                " and replay are where rank 0 has them, such as 'tcp://host:5557'"
            )
    if is_whole and all(worker.role == "prefill" for worker in workers):
        raise ConfigError("no [[worker]] decodes: give one role = 'decode', or none")
    for pool in pools:
        if pool.url or not pool.events or pool.ranks != 1:
            raise ConfigError(
                f"pool {pool.name!r} has events, no url and no ranks: it computes nothing"
            )
        if not 0 <= pool.capacity_bytes < float("inf"):
            raise ConfigError(f"pool {pool.name!r}: capacity_bytes is 0, for no limit, or more")
    names = [worker.name for worker in config.workers]
    for worker in workers:
        if is_whole and worker.pool and worker.pool not in {pool.name for pool in pools}:
            raise ConfigError(f"worker {worker.name!r}: there is no [[pool]] {worker.pool!r}")
    if len(set(names)) < len(names):
        raise ConfigError(f"names of workers and pools differ from each other: {', '.join(names)}")
    for name in ("listen", "gateway_listen"):
        host, _, port = getattr(config, name).rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"{name} is 'HOST:PORT', not {getattr(config, name)!r}")
    if config.queue_length < 1 or config.queue_k < 1 or config.queue_timeout_s <= 0:
        raise ConfigError("queue_length and queue_k are at least 1, queue_timeout_s is above 0")
    if any(worker.max_running < 0 for worker in workers):
        raise ConfigError("max_running is a number of requests, or 0 for no limit")
    if bool(config.certificate) != bool(config.key):
        raise ConfigError("certificate and key are two files of PEM: name both or none")
    return config


def _discovery(table: Any) -> DiscoveryConfig:
    config: DiscoveryConfig = record_of(DiscoveryConfig, table, "[discovery]")
    for endpoint in config.endpoints:
        if not endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"[discovery]: etcd is such as 'http://host:2379', not {endpoint!r}")
    if not config.cluster or "/" in config.cluster:
        raise ConfigError(f"[discovery]: cluster is a name without '/', not {config.cluster!r}")
    return config
