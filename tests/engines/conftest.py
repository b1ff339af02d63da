"""What tests of serving engines share: a small model, and the engines' environments."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engines.environment import Environment
from bench.engines.serving import Daemon
from tests.engines.compatibility import Recorder
from tests.engines.preloaded import preloaded
from tests.engines.skipping import environment_or_skip
from tests.engines.small_models import SMALL, save_model
from tests.engines.vllm_attention import AttentionEngines


def pytest_configure(config: pytest.Config) -> None:
    """Records what passes with which engine; one process does for all."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


@pytest.fixture(scope="session")
def small_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 4 layers."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(**SMALL, num_hidden_layers=4)
    return save_model(tmp_path_factory.mktemp("models") / "small_llama", config)


@pytest.fixture(scope="session")
def vllm() -> Iterator[Environment]:
    """vLLM for the CPU."""
    environment = environment_or_skip("vllm", "vLLM")
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "OMP_NUM_THREADS": "1",
    }
    modules = "entrypoints.llm", "v1.worker.cpu_worker", "model_executor.models.llama"
    with preloaded(environment, variables, *(f"vllm.{name}" for name in modules)) as ready:
        yield ready


@pytest.fixture(scope="session")
def attention_engines(
    vllm: Environment, small_llama: Path, tmp_path_factory: pytest.TempPathFactory
) -> AttentionEngines:
    """Engines of vLLM's with and without NearKV's attention."""
    return AttentionEngines(vllm, tmp_path_factory.mktemp("attention"), small_llama)


@pytest.fixture(scope="session")
def lmcache() -> Environment:
    """LMCache."""
    return environment_or_skip("lmcache", "LMCache")


@pytest.fixture(scope="session")
def lmcache_vllm() -> Environment:
    """vLLM with what LMCache's server wants of an engine."""
    return environment_or_skip("lmcache_vllm", "vLLM with LMCache")


@pytest.fixture(scope="session")
def sglang_environment() -> Environment:
    """SGLang without its kernels."""
    return environment_or_skip("sglang", "SGLang")


@pytest.fixture(scope="session")
def nixl() -> Environment:
    """NIXL."""
    return environment_or_skip("nixl", "NIXL")


@pytest.fixture(scope="session")
def llama_cpp() -> Environment:
    """llama.cpp for the CPU, which is built if it is not there."""
    return environment_or_skip("llama_cpp", "llama.cpp")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that any engine of this user may use."""
    with Daemon(tmp_path) as running:
        yield running
