"""The scheduler's side of vLLM's connector: what it finds, keeps, and has stored."""

from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import Environment

PROGRAM = Path(__file__).parent / "vllm_manager_program.py"
FOUR_OF_SIX = [True] * 4 + [False] * 2


@pytest.fixture(scope="module")
def told(vllm: Environment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return vllm.run(PROGRAM, str(tmp_path_factory.mktemp("daemon")), timeout_s=120)


def test_chunks_of_each_group_are_found_in_their_own(told):
    assert told["contents"]
    assert not told["other_group"]
    assert told["found"] == FOUR_OF_SIX


def test_what_is_found_stays_until_it_is_loaded_or_the_step_ends(told):
    assert (told["kept_in_the_step"], told["kept_for_the_load"]) == (4, 4)
    assert told["leases_after_the_load"] == 0
    assert told["leases_after_a_step_without_a_load"] == 0


def test_what_failed_to_load_is_a_miss_and_stored_again(told):
    assert told["found_after_a_failure"] == [False, *FOUR_OF_SIX[1:]]
    assert told["to_store"] == [0, 4, 5]
    assert told["to_store_at_once_again"] == 0


def test_a_reset_leaves_nothing_or_says_so(told):
    assert told["left_after_a_reset"] == [0, ""]
    left, said = told["left_by_a_daemon"]
    assert (left, "permission admin" in said) == (2, True), said


def test_each_group_goes_on_from_its_own_chunk_before(told):
    assert told["parents"] == [{}, {"0": 1}, {"0": 0, "1": 2}]


def test_an_adapter_that_was_replaced_under_its_name_is_another_one(told):
    adapters = told["adapters"]
    first, other = adapters["first"], adapters["loaded_anew"]
    assert first != other
    assert (adapters["still_loaded"], adapters["put_back"]) == (first, first)
    assert adapters["in_place"] == other


def test_blocks_that_amx_packed_are_not_shared_with_machines_without_it(told):
    without, with_amx = told["layouts"]["bfloat16"]
    assert without != with_amx
    without, with_amx = told["layouts"]["float32"]
    assert without == with_amx
