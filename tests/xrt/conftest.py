"""What holds of every test on an emulated card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .processes import sockets_of_the_dead


@pytest.fixture(autouse=True)
def _leaves_nothing(tmp_path: Path) -> Iterator[None]:
    """Whatever a test does to its applications, no folder and no socket of theirs stays."""
    before = sockets_of_the_dead()
    yield
    assert not list(tmp_path.glob("**/.run"))
    assert sockets_of_the_dead() <= before
