"""What the quality bench claims of methods that keep part of a cache."""

import pytest
import torch

pytest.importorskip("nearkv.core", exc_type=ImportError)

from bench.kept.attention import page_means, planes_of
from bench.kept.keepers import PolicyKeeper
from bench.kept.measure import Dense, Quality, measure
from bench.kept.methods import METHODS, Method
from bench.kept.tasks import NEEDLES, Tasks
from nearkv.core import PAGE_TOKENS, Select
from nearkv.demo.runs import load_model
from nearkv.retention import Kept

MODEL = "engine_integration/models/recall_3m"


@pytest.fixture(scope="module")
def dense(pytestconfig) -> Dense:
    model, tokenizer = load_model(pytestconfig.rootpath / MODEL, "float32")
    return Dense(model, Tasks(tokenizer).draw(0, 400))


def quality_of(dense: Dense, method: Method | None, budget: float) -> Quality:
    quality = Quality()
    measure(dense, method, budget, quality)
    return quality


def test_dense_attention_recalls_every_needle(dense):
    quality = quality_of(dense, None, 1.0)
    assert quality.recalled == quality.recalled_asked == [[True] * NEEDLES]
    assert quality.divergences == [pytest.approx(0, abs=1e-6)]


@pytest.mark.parametrize("name", ["streaming_llm", "h2o", "cake", "flexicache"])
def test_a_budget_of_all_tokens_is_dense_attention(dense, name):
    quality = quality_of(dense, METHODS[name], 1.0)
    assert quality.divergences == [pytest.approx(0, abs=1e-6)]
    assert quality.recalled == [[True] * NEEDLES]


def test_what_a_window_has_left_behind_is_not_recalled(dense):
    quality = quality_of(dense, METHODS["streaming_llm"], 0.2)
    assert not any(quality.recalled[0][: NEEDLES // 2])


def test_selection_by_query_recalls_at_a_budget_at_which_eviction_does_not(dense):
    selected = quality_of(dense, METHODS["certified"], 0.1)
    evicted = quality_of(dense, METHODS["h2o"], 0.1)
    assert all(selected.recalled[0])
    assert sum(evicted.recalled[0]) < NEEDLES / 2
    assert selected.divergences[0] < evicted.divergences[0]


def test_heads_keep_no_more_than_the_budget_and_what_is_gone_stays_gone(dense):
    keeper = PolicyKeeper(METHODS["r_kv"], 0.1, dense.watcher)
    keeper.decide()
    before = [kept == Kept.ABSENT.value for layer in keeper.kept for kept in layer]
    assert keeper.kept_share() <= 0.1
    dense.run(keeper, dense.task.continued)
    after = [kept == Kept.ABSENT.value for layer in keeper.kept for kept in layer]
    assert keeper.kept_share() <= 0.1
    assert all((old <= new[: len(old)]).all() for old, new in zip(before, after, strict=True))


def test_what_is_demoted_may_come_back(dense):
    keeper = PolicyKeeper(METHODS["h2o_undone"], 0.1, dense.watcher)
    keeper.decide()
    before = [kept.copy() for layer in keeper.kept for kept in layer]
    dense.run(keeper, dense.task.continued)
    after = [kept for layer in keeper.kept for kept in layer]
    assert all((kept != Kept.ABSENT.value).all() for kept in after)
    assert any(
        (new[: len(old)][old == Kept.DEMOTED.value] == Kept.EXACT.value).any()
        for old, new in zip(before, after, strict=True)
    )


def test_planes_are_within_half_a_step_of_a_channels_range():
    rows = torch.randn(2, 3 * PAGE_TOKENS + 5, 8, generator=torch.Generator().manual_seed(1))
    for planes in (1, 2, 8):
        for page, coarse in zip(
            rows.split(PAGE_TOKENS, 1), planes_of(rows, planes).split(PAGE_TOKENS, 1), strict=True
        ):
            span = page.amax(1, keepdim=True) - page.amin(1, keepdim=True)
            assert ((page - coarse).abs() <= span / 2 ** (planes + 1) * 1.001 + 1e-6).all()
    first = rows[:, :PAGE_TOKENS]
    assert torch.allclose(page_means(rows)[:, 0], first.mean(1))


def test_every_selection_of_the_device_is_measured():
    assert {method.select for method in METHODS.values()} >= {
        Select.DIGEST,
        Select.SIGN,
        Select.CERTIFIED,
    }
