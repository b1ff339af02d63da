"""One thread per test: they are small, and run beside each other. Coroutines run in asyncio."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import torch

from engine_integration.tests.etcd_server import EtcdServer

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def one_loop() -> AsyncIterator[None]:
    """One event loop for the tests that follow: gRPC tells a loop what comes after its test."""
    yield


@pytest.fixture
def store() -> Iterator:
    module = pytest.importorskip("nearkv.store", exc_type=ImportError)
    with module.ObjectStore.create("cpu:?memory=64MiB") as made:
        yield made


@pytest.fixture
def blocks(store):
    return store.namespace("llama", "bf16", "LBHNC")


@pytest.fixture(scope="module")
def running_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def server(running_etcd: EtcdServer) -> EtcdServer:
    """One that other tests of the file have used; it holds nothing."""
    running_etcd.clear()
    return running_etcd


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EtcdServer]:
    """One that may be killed."""
    with EtcdServer(tmp_path) as server:
        yield server
