"""LMCache's server over a NearKV store, for vLLM's engines: each process by itself, on the CPU."""

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from os import environ
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import Environment
from bench.engines.serving import Daemon
from nearkv.store import ObjectStore
from tests.engines.readme import commands
from tests.engines.vllm_engines import PROMPTS, Engines

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
CHUNK_TOKENS = 64
# All whole chunks but for what follows them: the last token has to be computed.
CACHED = [(len(prompt) - 1) // CHUNK_TOKENS * CHUNK_TOKENS for prompt in PROMPTS]
CHUNKS = sum(CACHED) // CHUNK_TOKENS
# 4 layers, 2 KV heads of 64 channels, K and V, in float32; before them what their layout is.
LAYOUT_BYTES = 16
CHUNK_BYTES = LAYOUT_BYTES + CHUNK_TOKENS * 4 * 2 * 64 * 2 * 4


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def until(condition: Any, seconds: float) -> bool:
    end_s = time.monotonic() + seconds
    while not (done := condition()) and time.monotonic() < end_s:
        time.sleep(0.1)
    return bool(done)


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://localhost:{port}/healthcheck", timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def serving(lmcache: Environment, daemon: Daemon) -> Iterator[dict[str, Any]]:
    """The README's L2 adapter to a daemon, in a server; and what engines are told of it.

    The server is killed in the end.
    """
    [[*_, config]] = commands("lmcache", "vllm serve MODEL")
    config = json.loads(config)
    [words] = commands("lmcache", "lmcache server")
    adapter = json.loads(words.pop())
    adapter["adapter_params"] = {"socket": daemon.socket}
    port, http_port = free_port(), free_port()
    config["kv_connector_extra_config"] |= {"lmcache.mp.port": port}
    options = {
        "--supported-transfer-mode": "engine_driven",
        "--l1-size-gb": 1,
        "--l1-init-size-gb": 1,
        "--chunk-size": CHUNK_TOKENS,
        "--port": port,
        "--http-port": http_port,
    }
    words += [json.dumps(adapter), "--disable-observability"]
    # Of what is said twice the latter counts.
    words += [str(word) for option in options.items() for word in option]
    command = [lmcache.python, "-m", "lmcache.cli.main", *words[1:]]
    with subprocess.Popen(command, env=environ | lmcache.variables) as server:
        try:
            assert until(lambda: server.poll() is not None or is_healthy(http_port), 120)
            assert server.poll() is None
            # In one process what LMCache imports gets in the way of vLLM 0.32's start on a CPU.
            yield {"kv_transfer_config": config, "own_process": True}
        finally:
            server.kill()


def test_an_engine_finds_what_another_one_stored_through_another_server(
    lmcache: Environment, lmcache_vllm: Environment, small_llama: Path, daemon: Daemon
):
    engines = Engines(lmcache_vllm, small_llama)
    [plain] = engines.run({})
    assert plain["cached"] == [0, 0, 0]
    store = ObjectStore.connect(daemon.socket)
    with serving(lmcache, daemon) as connected:
        [first] = engines.run(connected)
        assert first == plain
        assert until(lambda: len(list(store.objects())) >= CHUNKS, 30)
        assert {info.bytes for info in store.objects()} == {CHUNK_BYTES}
    with serving(lmcache, daemon) as connected:
        [later] = engines.run(connected)
    assert later == {"tokens": plain["tokens"], "cached": CACHED}
