"""Worlds of ranks that tests share: processes are started once for each file."""

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
from bench.ranks.world import World


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Four ranks; World.run takes the first two or three of them as well."""
    with World(4) as running:
        yield running


@pytest.fixture(scope="module")
def large_world() -> Iterator[World]:
    """Eight ranks."""
    with World(8) as running:
        yield running
