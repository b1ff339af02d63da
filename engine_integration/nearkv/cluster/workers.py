"""vLLM's API servers as a cluster's workers, and the daemon that they share a pool of."""

import json
import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearkv.cluster.processes import Process, answers, free_ports

BLOCK_TOKENS = 64
_LOOK_AT_POOL_S = 0.02
_START_S = 600.0
_SAMPLE = re.compile(r"^([\w:]+)(?:\{(.*)\})? (\S+)$")
_PROMPT_TOKENS = "vllm:prompt_tokens_by_source_total"


@dataclass(frozen=True)
class Engine:
    """How vLLM is started, whatever the worker's part."""

    python: Path
    """An interpreter that has vLLM, and finds nearkv."""
    model: Path
    options: tuple[str, ...] = ()
    """More words of its command line."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the interpreter has to be given, beside this process's environment."""

    @property
    def model_name(self) -> str:
        """What requests call it."""
        return self.model.name


SERVING_VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
"""Of a server among several on one small machine."""


def scheduling_words(policy: str) -> tuple[str, ...]:
    """Of vLLM's command line, that let a policy of NearKV's scheduler order its requests."""
    config = {"nearkv_scheduler": {"policy": policy}}
    return (
        *("--scheduler-cls", "nearkv.vllm.scheduler.NearKVScheduler"),
        *("--additional-config", json.dumps(config)),
    )


@dataclass(frozen=True)
class PoolUse:
    """The pool of a server: all load from it what any has stored."""

    socket: str
    hand_over: bool = False
    """Whether what others go on with is stored before the answer."""


def serving_command(
    engine: Engine, address: tuple[str, str], events: tuple[str, str], pool: PoolUse | None
) -> list[str]:
    """vLLM's OpenAI server at a host and a port, with KV events and their replay at endpoints.

    All of them are words, so that whoever starts it elsewhere may fill them in there.
    """
    host, port = address
    told = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": events[0],
        "replay_endpoint": events[1],
    }
    command = [
        *(str(engine.python), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(engine.model), "--served-model-name", engine.model_name),
        *("--host", host, "--port", port, "--max-num-seqs", "16"),
        *("--dtype", "float32", "--enforce-eager", "--block-size", str(BLOCK_TOKENS)),
        *("--kv-events-config", json.dumps(told)),
        *engine.options,
    ]
    if pool is not None:
        transfer = {
            "kv_connector": "NearKVConnector",
            "kv_connector_module_path": "nearkv.vllm",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"socket": pool.socket, "hand_over": pool.hand_over},
        }
        command += ["--kv-transfer-config", json.dumps(transfer)]
    return command


class Worker:
    """A server of vLLM's. `role`, as the router has it: both, or with a pool prefill or decode."""

    def __init__(
        self, name: str, engine: Engine, folder: Path, role: str, pool_socket: str | None
    ) -> None:
        """Starts it; it is ready after wait_until_ready()."""
        self.name = name
        self.role = role
        (self.port,) = free_ports(1)
        # Files: vLLM binds those, but connects to an address of TCP, where nobody would listen.
        self._events_endpoint = f"ipc://{folder}/{name}.events"
        self._replay_endpoint = f"ipc://{folder}/{name}.replay"
        command = serving_command(
            engine,
            ("127.0.0.1", str(self.port)),
            (self._events_endpoint, self._replay_endpoint),
            None if pool_socket is None else PoolUse(pool_socket, hand_over=role == "prefill"),
        )
        self.process = Process(name, command, folder, SERVING_VARIABLES | engine.variables)

    def wait_until_ready(self) -> None:
        """ClusterError if it does not come up."""
        self.process.wait_until(lambda: answers(f"{self.url}/health"), _START_S)

    @property
    def url(self) -> str:
        """Of its API."""
        return f"http://127.0.0.1:{self.port}"

    def place(self) -> Iterator[tuple[str, str]]:
        """Keys and values of the router's configuration."""
        yield "name", self.name
        yield "url", self.url
        yield "role", self.role
        yield "events", self._events_endpoint
        yield "replay", self._replay_endpoint

    def counters(self) -> dict[str, float]:
        """Tokens of prompts by where they came from: `local_compute` and so on."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        counts: dict[str, float] = defaultdict(float)
        for line in text.splitlines():
            found = _SAMPLE.match(line)
            if found is None or found[1] != _PROMPT_TOKENS:
                continue
            if source := re.search(r'source="(\w+)"', found[2] or ""):
                counts[source[1]] += float(found[3])
        return dict(counts)


@dataclass(frozen=True)
class Pool:
    """What workers share: a daemon, and a publisher of what it holds, for the router."""

    daemon: Process
    publisher: Process
    socket: str
    events: str
    replay: str

    def place(self) -> Iterator[tuple[str, str]]:
        """Keys and values of the router's configuration."""
        yield "name", "pool"
        yield "events", self.events
        yield "replay", self.replay


def start_daemon(program: Path, folder: Path, size: str) -> tuple[Process, str]:
    """`nearkv serve` on a pool in the folder, which may be there already, ready; its socket."""
    socket = folder / "nearkv.sock"
    socket.unlink(missing_ok=True)  # Of one that was killed.
    command = [str(program), "serve", "--pool", str(folder / "pool"), "--size", size]
    daemon = Process("pool", [*command, "--socket", str(socket)], folder, {})
    daemon.wait_until(socket.exists, 30)
    return daemon, str(socket)


def start_pool(engine: Engine, program: Path, folder: Path, size: str) -> Pool:
    """A daemon on a pool in the folder; and `python -m nearkv.kv_events` on that."""
    daemon, socket = start_daemon(program, folder, size)
    events, replay = f"ipc://{folder}/pool-events", f"ipc://{folder}/pool-replay"
    command = [
        *(str(engine.python), "-P", "-m", "nearkv.kv_events", "--socket", socket),
        *("--model", str(engine.model), "--layout", "vllm-", "--hashes", "vllm"),
        *("--block-size", str(BLOCK_TOKENS), "--interval-s", str(_LOOK_AT_POOL_S)),
        *("--endpoint", events, "--replay-endpoint", replay),
    ]
    publisher = Process("pool-events", command, folder, engine.variables)
    return Pool(daemon, publisher, socket, events, replay)


def start_router(
    engine: Engine, workers: Sequence[Worker], pool: Pool | None, prefill_from: int, folder: Path
) -> tuple[Process, int]:
    """A router before the workers, ready; and its port."""
    (port,) = free_ports(1)
    config = folder / "router.toml"
    config.write_text(_router_config(engine, workers, pool, prefill_from, port), encoding="utf-8")
    command = [str(engine.python), "-P", "-m", "nearkv.router", str(config), "--verbose"]
    process = Process("router", command, folder, engine.variables)
    process.wait_until(lambda: answers(f"http://127.0.0.1:{port}/health"), _START_S)
    return process, port


def _router_config(
    engine: Engine, workers: Sequence[Worker], pool: Pool | None, prefill_from: int, port: int
) -> str:
    lines = [
        f"listen = {json.dumps(f'127.0.0.1:{port}')}",
        f"block_tokens = {BLOCK_TOKENS}",
        f"tokenizer = {json.dumps(str(engine.model))}",
        f"prefill_from_tokens = {prefill_from}",
    ]
    places = [("worker", worker) for worker in workers] + ([("pool", pool)] if pool else [])
    for kind, of in places:
        lines += [f"[[{kind}]]", *(f"{key} = {json.dumps(text)}" for key, text in of.place())]
    return "\n".join(lines) + "\n"
