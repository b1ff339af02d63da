"""The host library's suites as applications of the emulated engine: side by side, and killed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from .emulation import BUILD, Card, require_emulation
from .processes import (
    children_of,
    ends_soon,
    simulator_of,
    stop_beside_its_simulator,
    wait_for_line,
)

pytestmark = pytest.mark.timeout(900)

_SUITE = "host/host_pool_test"


@pytest.fixture
def card() -> Card:
    """The engine's, which comes with the library."""
    require_emulation()
    if not (BUILD / "tests" / _SUITE).exists():
        pytest.skip(f"{_SUITE} is not built (./nearkv test xrt builds it)")
    return Card(BUILD / "lib" / "xrt")


def settings(device: str = "xrt:0") -> dict[str, str]:
    """Of a suite."""
    return {"NEARKV_TEST_DEVICES": f"{device}?memory=32MiB", "GTEST_FILTER": "Devices/*"}


def test_suites_on_two_cards_of_a_machine(card: Card, tmp_path: Path) -> None:
    machine = json.loads((card.folder / "emconfig.json").read_text())
    cards = machine["Platform"]["Boards"][0]["Devices"]
    cards.append(cards[0])
    (tmp_path / "emconfig.json").write_text(json.dumps(machine))
    runs = [
        card.start(tmp_path, _SUITE, **settings(f"xrt:{number}"), EMCONFIG_PATH=str(tmp_path))
        for number in range(2)
    ]
    texts = [run.communicate(timeout=600)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], texts


@pytest.mark.parametrize("pause_s", [0, 0.5], ids=["as_it_opens", "at_work"])
def test_a_killed_suite_leaves_nothing_and_disturbs_none(
    card: Card, tmp_path: Path, pause_s: float
) -> None:
    killed = card.start(tmp_path, _SUITE, **settings(), GTEST_REPEAT="-1")
    other = card.start(tmp_path, _SUITE, **settings())
    wait_for_line(killed, "       OK ]")  # The next test opens the card again.
    simulator_of(killed.pid)
    time.sleep(pause_s)
    stop_beside_its_simulator(killed.pid)
    children = children_of(killed.pid)
    killed.kill()
    killed.wait(timeout=10)
    assert all(ends_soon(child) for child in children)
    text, _ = other.communicate(timeout=600)
    assert other.returncode == 0, text
