"""Retention policies fed by what a pool's commands returned."""

import numpy as np
import pytest

pytest.importorskip("nearkv.core", exc_type=ImportError)

from nearkv.core import PAGE_TOKENS, Device, Dtype, Error, Pool, RowForm, Status
from nearkv.retention import (
    HeadDemand,
    HeadStatistics,
    Kept,
    RetentionPolicy,
    key_sketches,
    masses,
    next_pages,
    retain,
    retention_budgets,
    retention_policies,
    share,
)

pytestmark = pytest.mark.quick

TOKENS, DIM, ROWS, TOP_K = 4 * PAGE_TOKENS, 32, 2, 16


@pytest.fixture
def keys():
    return np.random.default_rng(1).standard_normal((TOKENS, DIM), np.float32)


@pytest.fixture
def pool(keys):
    forms = {"k_form": RowForm.RAW, "v_form": RowForm.RAW}
    pool = Pool.create(
        Device("cpu:?memory=64MiB"), layers=1, kv_heads=1, head_dim=DIM, dtype=Dtype.FP16, **forms
    )
    pool.create_sequence(1)
    rows = keys.astype(np.float16)[None]
    pool.append(1, 0, rows, rows)
    return pool


def ask(pool, query, scale):
    """What a TOPK and an ATTEND over the same tokens tell of a query [rows, DIM]."""
    ids, scores, counts = pool.top_k(1, 0, 0, query, TOP_K, scale=scale)
    _, lse = pool.attend(1, 0, query[None], scale=scale)
    return ids, masses(scores, np.asarray(lse).reshape(-1), counts), counts


def test_masses_are_the_softmax_of_all_tokens(pool, keys):
    query = np.random.default_rng(2).standard_normal((ROWS, DIM)).astype(np.float16)
    ids, mass, counts = ask(pool, query, scale=0.5)
    scores = 0.5 * query.astype(float) @ keys.astype(np.float16).astype(float).T
    softmax = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    assert counts.tolist() == [TOP_K] * ROWS
    for row in range(ROWS):
        assert mass[row] == pytest.approx(softmax[row][ids[row]], rel=1e-3)


@pytest.mark.parametrize("name", retention_policies())
def test_each_policy_keeps_what_queries_ask_for(pool, keys, name):
    """A token to which every query points stays; the window alone does not know of it."""
    policy, statistics = RetentionPolicy(name), HeadStatistics(PAGE_TOKENS)
    policy.append(TOKENS, key_sketches(keys) if policy.needs_key_sketches else None)
    wanted = 77
    query = np.repeat(keys[wanted : wanted + 1], ROWS, 0).astype(np.float16)
    for _ in range(4):
        ids, mass, counts = ask(pool, query, scale=1.0)
        policy.observe(statistics, TOKENS - 1, ids, mass, counts)
    kept, beyond = retain(policy.worth(), exact_tokens=16, sinks=1, recent=4)
    assert beyond == 0
    assert np.count_nonzero(kept == Kept.EXACT.value) == 16
    assert (kept[wanted] == Kept.EXACT.value) == (name != "sliding_window")
    assert statistics.stability == 1
    if name != "sliding_window":
        assert wanted // PAGE_TOKENS in next_pages(policy.worth() - policy.worth().min(), 64, 1)


def test_a_fork_and_a_restart_go_on(keys):
    policy = RetentionPolicy("heavy_hitters", {"decay": 0.5})
    policy.append(8)
    ids, mass = np.array([[3, 5]], np.uint32), np.array([[0.5, 0.25]], np.float32)
    policy.observe(None, 7, ids, mass)
    child, again = policy.fork(4), RetentionPolicy("heavy_hitters", {"decay": 0.5})
    again.restore(policy.save())
    assert child.worth().tolist() == [0, 0, 0, 0.5]
    assert again.worth().tolist() == policy.worth().tolist()


def test_heads_share_a_budget():
    heads = [HeadDemand(tokens=100, stability=0.9), HeadDemand(tokens=100)]
    assert share("uniform", heads, 80) == [40, 40]
    assert share("stable_heads", heads, 80, times=3) == [20, 60]
    assert set(retention_budgets()) == {"uniform", "stable_heads", "workflow"}


@pytest.mark.parametrize(
    ("wrong", "status", "text"),
    [
        (lambda: RetentionPolicy("h20"), Status.BAD_ARGUMENT, "heavy_hitters"),
        (lambda: RetentionPolicy("heavy_hitters", {"fade": 1}), Status.BAD_ARGUMENT, "decay"),
        (lambda: RetentionPolicy("redundancy").append(3), Status.UNSUPPORTED, "sketches"),
        (lambda: RetentionPolicy("heavy_hitters").restore(b"x"), Status.BAD_ARGUMENT, "saved"),
        (lambda: share("cake", [], 1), Status.BAD_ARGUMENT, "stable_heads"),
        (
            lambda: retain(np.ones(3, np.float32), exact_tokens=1, pinned=[3]),
            Status.BAD_ARGUMENT,
            "pinned",
        ),
    ],
)
def test_what_is_wrong_is_named(wrong, status, text):
    with pytest.raises(Error, match=text) as raised:
        wrong()
    assert raised.value.status == status
