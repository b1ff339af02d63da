"""The chart, rendered by Helm's SDK, against Kubernetes' schemas; no cluster was installed on."""

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)
pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")

from bench.engines.environment import ROOT, Environment
from nearkv.kubernetes.__main__ import parser
from nearkv.router.config import RouterConfig, config_of
from tests.engines.skipping import environment_or_skip

CHART = ROOT / "engine_integration" / "deploy" / "nearkv"
TOOL = ROOT / "build" / "release" / "bin" / "nearkv"
ALL = {"picker": {"enabled": True}, "engines": {"enabled": True}, "dashboards": {"enabled": True}}


@pytest.fixture(scope="module")
def environment() -> Environment:
    return environment_or_skip("helm", "Helm's SDK")


class Rendered:
    """Resources by kind and name; `wrong`: what Helm and the schemas have against them."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.refused, self.wrong, self.notes = answer["refused"], answer["wrong"], answer["notes"]
        self.by_name = {(r["kind"], r["metadata"]["name"]): r for r in answer["resources"]}
        self.kinds = {kind for kind, _ in self.by_name}

    def __getitem__(self, key: tuple[str, str]) -> Any:
        return self.by_name[key]

    def container(self, kind: str, name: str) -> Any:
        (found,) = self[kind, name]["spec"]["template"]["spec"]["containers"]
        return found

    def config(self, name: str) -> RouterConfig:
        return config_of(tomllib.loads(self["ConfigMap", name]["data"]["router.toml"]))


@pytest.fixture(scope="module")
def render(environment: Environment) -> Callable[..., Rendered]:
    def renders(kubernetes: str = "1.37", **values: Any) -> Rendered:
        question = {"path": str(CHART), "values": values, "kubernetes": kubernetes}
        program = Path(__file__).parent / "helm_program.py"
        return Rendered(environment.run(program, question, timeout_s=120))

    return renders


@pytest.fixture(scope="module")
def everything(render: Callable[..., Rendered]) -> Rendered:
    return render(**ALL)


@pytest.mark.parametrize("kubernetes", ["1.31", "1.37"])
def test_all_that_kubernetes_knows_fits_its_schemas(render: Any, kubernetes: str) -> None:
    rendered = render(kubernetes, **ALL)
    assert rendered.wrong == ["no schema for InferencePool"]  # It is the gateway's own.
    assert rendered.kinds == {
        *("ConfigMap", "DaemonSet", "Deployment", "InferencePool", "Service", "StatefulSet")
    }


def test_by_default_there_are_a_proxy_daemons_and_their_resource(render: Any) -> None:
    rendered = render()
    assert rendered.wrong == []
    assert {key for key in rendered.by_name if key[0] != "ConfigMap"} == {
        ("Deployment", "test-proxy"),
        ("Service", "test-proxy"),
        ("DaemonSet", "test-daemon"),
        ("DaemonSet", "test-device-plugin"),
    }
    assert "http://test-proxy.serving.svc:8080/v1" in rendered.notes
    assert "nearkv.io/pool-gib: 16" in rendered.notes


@pytest.mark.parametrize("name", ["test-proxy", "test-picker"])
def test_the_routers_file_is_one_and_knows_every_engine(everything: Rendered, name: str) -> None:
    config = everything.config(name)
    first, second = config.workers
    host = "test-engine-0.test-engine.serving.svc"
    assert (first.name, first.url) == ("test-engine-0", f"http://{host}:8000")
    assert (first.events, first.replay) == (f"tcp://{host}:5557", f"tcp://{host}:5558")
    assert (second.name, second.max_running) == ("test-engine-1", 64)
    assert (config.policy, config.block_tokens) == ("least_ttft", 16)
    service = everything["Service", "test-engine"]["spec"]
    assert (service["clusterIP"], len(service["ports"])) == ("None", 3)
    assert everything["StatefulSet", "test-engine"]["spec"]["serviceName"] == "test-engine"


def test_own_workers_and_settings_get_into_the_file(render: Any) -> None:
    rendered = render(
        router={
            "config": {
                **{"policy": "dynamo", "queue_timeout_s": 2.5, "tokenizer": 'a "b"'},
                "tiers": {"cxl": {"weight": 0.25, "bytes_per_s": 9e9}, "dram": {"weight": 0.5}},
                "discovery": {"etcd": "http://etcd:2379", "cluster": "chat"},
            },
            "workers": [{"name": "a", "url": "http://a:1", "max_running": 3}],
            "pools": [{"name": "p", "events": "tcp://p:1"}],
        }
    )
    config = rendered.config("test-proxy")
    assert (config.policy, config.queue_timeout_s, config.tokenizer) == ("dynamo", 2.5, 'a "b"')
    assert [worker.name for worker in config.workers] == ["a", "p"]
    dram, cxl = config.costs.model.tiers[1:3]
    assert (dram.weight, cxl.weight, cxl.bytes_per_s) == (0.5, 0.25, 9e9)
    assert config.discovery and config.discovery.cluster == "chat"
    assert rendered.wrong == []


def test_probes_and_services_name_ports_that_are_served(everything: Rendered) -> None:
    for name in ("test-proxy", "test-picker"):
        container, config = everything.container("Deployment", name), everything.config(name)
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports["http"] == config.address[1]
        assert ports.get("grpc", 9002) == int(config.gateway_listen.rpartition(":")[2])
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["port"] == "http"
    pool = everything["InferencePool", "test"]["spec"]
    assert pool["endpointPickerRef"]["name"] == "test-picker"
    assert pool["endpointPickerRef"]["port"]["number"] == 9002
    template = everything["StatefulSet", "test-engine"]["spec"]["template"]
    assert pool["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_engines_ask_for_units_and_find_the_daemon_where_the_plug_in_mounts_it(
    everything: Rendered,
) -> None:
    engine = everything.container("StatefulSet", "test-engine")
    assert engine["resources"]["limits"] == {"nvidia.com/gpu": 1, "nearkv.io/pool-gib": 16}
    arguments = dict(word.split("=", 1) for word in engine["args"])
    connector = json.loads(arguments["--kv-transfer-config"])
    assert connector["kv_connector_extra_config"] == {"socket": "/run/nearkv/nearkv.sock"}
    events = json.loads(arguments["--kv-events-config"])
    assert (events["endpoint"], events["replay_endpoint"]) == ("tcp://*:5557", "tcp://*:5558")
    assert arguments["--block-size"] == "16"
    plugin = everything.container("DaemonSet", "test-device-plugin")["command"]
    options = parser().parse_args(plugin[3:])
    assert (options.socket, options.unit) == ("/run/nearkv/nearkv.sock", 1 << 30)


def test_without_the_plug_in_the_socket_is_mounted_and_nothing_asked_for(render: Any) -> None:
    rendered = render(engines={"enabled": True}, devicePlugin={"enabled": False})
    engine = rendered.container("StatefulSet", "test-engine")
    assert {"name": "socket", "mountPath": "/run/nearkv"} in engine["volumeMounts"]
    assert engine["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert rendered.wrong == []


def test_only_who_opens_devices_is_privileged(render: Any, everything: Rendered) -> None:
    def privileged(rendered: Rendered) -> set[str]:
        names = [key for key in rendered.by_name if key[0] in ("Deployment", "DaemonSet")]
        return {
            name
            for kind, name in names
            if rendered.container(kind, name).get("securityContext", {}).get("privileged")
        }

    assert privileged(everything) == {"test-daemon"}
    in_files = {"pool": {"path": "/var/lib/nearkv/pool", "size": "1GiB"}}
    rendered = render(daemon=in_files, devicePlugin={"source": "cards"})
    assert rendered.wrong == []
    assert privileged(rendered) == {"test-device-plugin"}
    proxy = rendered.container("Deployment", "test-proxy")["securityContext"]
    assert (proxy["runAsNonRoot"], proxy["readOnlyRootFilesystem"]) == (True, True)


def test_certificates_are_where_the_pickers_file_says(render: Any) -> None:
    rendered = render(picker={"enabled": True, "tlsSecret": "tls"}, engines={"enabled": True})
    config = rendered.config("test-picker")
    mounts = rendered.container("Deployment", "test-picker")["volumeMounts"]
    assert (config.certificate, config.key) == ("/tls/tls.crt", "/tls/tls.key")
    assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in mounts


@pytest.mark.skipif(not TOOL.exists(), reason="the tool is not built")
def test_the_daemons_file_is_one(everything: Rendered, tmp_path: Path) -> None:
    file = tmp_path / "nearkv.toml"
    file.write_text(everything["ConfigMap", "test-daemon"]["data"]["nearkv.toml"])
    command = [TOOL, "serve", "--config", file, "--check-config"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_dashboards_are_whole(everything: Rendered) -> None:
    (text,) = everything["ConfigMap", "test-dashboards"]["data"].values()
    assert json.loads(text)["title"] == "NearKV router"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"devicePlugin": {"source": "gpus"}}, "source"),
        ({"proxy": {"port": 70000}}, "port"),
        ({"daemon": {"pool": {"path": "pool", "size": "1GiB"}}}, "path"),
        ({"daemon": {"pool": {"path": "/pool", "size": "1 gig"}}}, "size"),
        ({"router": {"config": {"listen": "0.0.0.0:1"}}}, "config"),
        ({"router": {"workers": [{"url": "http://a:1"}]}}, "name"),
    ],
)
def test_values_that_cannot_be_are_refused(render: Any, values: dict[str, Any], said: str) -> None:
    assert said in render(**values).refused
