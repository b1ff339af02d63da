"""A vLLM server that Ray places, over a pool: its node fails, and what it had is still there."""

import json
import os
import signal
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.engines.environment import ROOT, Environment
from bench.engines.serving import Daemon
from engine_integration.tests.etcd_server import EtcdServer
from nearkv.cluster.workers import (
    BLOCK_TOKENS,
    SERVING_VARIABLES,
    Engine,
    PoolUse,
    serving_command,
)
from tests.engines.placing import (
    Placement,
    completion,
    raylet_of,
    routing,
    wait_gone,
    wait_served,
)
from tests.engines.skipping import environment_or_skip

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
MODEL = ROOT / "engine_integration" / "models" / "recall_3m"
DOCUMENT = ROOT / "engine_integration" / "models" / "documents"
PROMPT = (DOCUMENT / "postgresql-high-availability.txt").read_text()[:6000]


@pytest.fixture(scope="module")
def ray() -> Environment:
    return environment_or_skip("ray", "Ray")


@pytest.fixture(scope="module")
def newest_vllm() -> Environment:
    return environment_or_skip("vllm", "vLLM")


def write_plan(folder: Path, etcd: EtcdServer, vllm: Environment, daemon: Daemon) -> Path:
    engine = Engine(vllm.python, MODEL)
    endpoints = "tcp://*:{events_port}", "tcp://*:{replay_port}"
    command = serving_command(engine, ("{host}", "{port}"), endpoints, PoolUse(daemon.socket))
    # Ray's own processes do not find our packages.
    variables = SERVING_VARIABLES | vllm.variables
    texts = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
    plan = folder / "plan.toml"
    plan.write_text(
        f'cluster = "test"\netcd = "{etcd.endpoint}"\nttl_s = 2\nlogs = "{folder}/logs"\n'
        f'scheme = "vllm-sha256"\nblock_tokens = {BLOCK_TOKENS}\n'
        f'pool_socket = "{daemon.socket}"\n[[group]]\nrole = "both"\ncount = 1\n'
        f"resources = {{ CPU = 1, nearkv_pool = 1 }}\nvariables = {{ {texts} }}\n"
        # Its answers on /health wait for the machine that all of this shares.
        f"command = {json.dumps(command)}\n[patience]\nhealth_s = 60\n"
    )
    return plan


def pool_tokens(url: str) -> float:
    """Tokens of prompts that a server had from the pool."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("vllm:prompt_tokens_by_source_total")
        and 'source="external_kv_transfer"' in line
    )


def test_a_server_comes_up_elsewhere_and_finds_its_blocks_in_the_pool(
    ray: Environment, newest_vllm: Environment, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdServer(tmp_path))
        daemon = stack.enter_context(Daemon(tmp_path))
        plan = write_plan(tmp_path, etcd, newest_vllm, daemon)
        placement = stack.enter_context(Placement(ray, plan, "--local-nodes", "2"))
        first = placement.until_all_serve(1)["both-0"]
        router = {"block_tokens": BLOCK_TOKENS, "tokenizer": str(MODEL)}
        port = stack.enter_context(routing(tmp_path, etcd, **router))
        body = {"model": MODEL.name, "prompt": PROMPT, "max_tokens": 16}
        text = completion(port, body)
        os.kill(raylet_of(first), signal.SIGKILL)
        placement.until(lambda told: told["both-0"]["node"] not in ("", first["node"]))
        second = placement.until_all_serve(1)["both-0"]
        wait_gone([first["state"]["process_id"]])
        wait_served(port)
        assert completion(port, body) == text
        assert pool_tokens(second["state"]["url"]) >= BLOCK_TOKENS
