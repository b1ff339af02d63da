"""One thread per test: they are small, and run beside each other."""

from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def store() -> Iterator:
    module = pytest.importorskip("nearkv.store", exc_type=ImportError)
    with module.ObjectStore.create("cpu:?memory=64MiB") as made:
        yield made


@pytest.fixture
def blocks(store):
    return store.namespace("llama", "bf16", "LBHNC")
