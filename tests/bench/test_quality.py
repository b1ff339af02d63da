"""What the quality bench claims of methods that keep part of a cache."""

from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

pytest.importorskip("nearkv.core", exc_type=ImportError)

from bench import Context, quality
from bench.kept.agents import measure_agents
from bench.kept.attention import page_means, planes_of
from bench.kept.claims import CLAIMS
from bench.kept.costs import CostMeter
from bench.kept.figures import FIGURES
from bench.kept.keepers import PolicyKeeper
from bench.kept.measure import Dense, Quality, measure
from bench.kept.methods import METHODS, Method
from bench.kept.pooled import CODECS
from bench.kept.prefetch import prefetch
from bench.kept.selections import by_page, by_score, by_sign, chosen
from bench.kept.tasks import HOPS, NEEDLES, Tasks
from nearkv.core import PAGE_TOKENS
from nearkv.demo import DemoError
from nearkv.demo.runs import load_model
from nearkv.retention import Kept, retention_budgets, retention_policies

MODEL = Path(__file__).parents[2] / "engine_integration" / "models" / "recall_3m"
GENERATED = 48


@pytest.fixture(scope="module")
def tasks() -> Tasks:
    return Tasks(load_model(MODEL, "float32")[1])


@pytest.fixture(scope="module")
def dense(tasks: Tasks) -> Dense:
    return Dense(load_model(MODEL, "float32")[0], tasks.draw(0, 400), GENERATED)


def quality_of(dense: Dense, method: Method | None, budget: float) -> Quality:
    measured = Quality()
    measure(dense, method, budget, measured)
    return measured


def test_dense_attention_recalls_every_needle(dense):
    measured = quality_of(dense, None, 1.0)
    assert measured.recalled == measured.recalled_asked == [[True] * NEEDLES]
    assert measured.divergences == [pytest.approx(0, abs=1e-6)]
    assert measured.hops == [[True] * HOPS]
    assert measured.same_tokens == [GENERATED]
    assert measured.drifts == [pytest.approx(0, abs=1e-6)]


@pytest.mark.parametrize("name", ["streaming_llm", "h2o", "r_kv", "flexicache"])
def test_a_budget_of_all_tokens_is_dense_attention(dense, name):
    measured = quality_of(dense, METHODS[name], 1.0)
    assert measured.divergences == [pytest.approx(0, abs=1e-6)]
    assert measured.recalled == [[True] * NEEDLES]


def test_what_a_window_has_left_behind_is_not_recalled(dense):
    measured = quality_of(dense, METHODS["streaming_llm"], 0.2)
    assert not any(measured.recalled[0][: NEEDLES // 2])


def test_selection_by_query_recalls_at_a_budget_at_which_eviction_does_not(dense):
    selected = quality_of(dense, METHODS["top_k"], 0.1)
    evicted = quality_of(dense, METHODS["h2o"], 0.1)
    assert all(selected.recalled[0])
    assert sum(evicted.recalled[0]) < NEEDLES / 2
    assert selected.divergences[0] < evicted.divergences[0]


def test_a_window_loses_the_thread_where_the_tail_keeps_it(dense):
    window = quality_of(dense, METHODS["streaming_llm"], 0.1)
    tail = quality_of(dense, METHODS["tail"], 0.1)
    assert window.hops == [[False] * HOPS]
    assert tail.hops == [[True] * HOPS]
    assert tail.divergences[0] < window.divergences[0]
    assert tail.same_tokens[0] >= window.same_tokens[0]


def test_each_answer_of_a_chain_spells_the_next_key(tasks):
    decode = load_model(MODEL, "float32")[1].decode
    task = tasks.draw(3, 600)
    for first, second in zip(task.chain, task.chain[1:], strict=False):
        digits = decode(first.answer).removesuffix(";")
        key = "".join("abcdefghij"[int(digit)] for digit in digits)
        assert decode(second.asked) == f"\n@{key}="
    text = decode(task.prompt)
    for question in (*task.questions, *task.chain):
        assert decode([*question.asked, *question.answer]) in text
        assert 0 <= question.depth < 1
    assert len(task.prompt) == pytest.approx(600, abs=60)
    with pytest.raises(ValueError, match="but"):
        tasks.draw(0, 10**6)


def test_a_step_reads_less_with_fewer_tokens_and_counts_what_it_learns_from(dense):
    costs = CostMeter(dense, "cpu:")
    all_tokens = costs.of(None, 1.0)
    assert all_tokens.near_bytes > costs.of(METHODS["streaming_llm"], 0.5).near_bytes
    window, h2o = (costs.of(METHODS[name], 0.2) for name in ("streaming_llm", "h2o"))
    assert window.near_bytes < h2o.near_bytes
    assert window.link_bytes < h2o.link_bytes < all_tokens.moved_bytes
    for name, method in METHODS.items():
        assert method.has_commands == (name not in ("quest", "sign"))
        assert not method.has_commands or costs.of(method, 0.2).seconds > 0


def test_a_prefetch_of_every_page_misses_none(dense):
    pages = len(dense.task.prompt) // PAGE_TOKENS + 2
    assert prefetch(dense, pages, 1).coverage > 0.9
    few = prefetch(dense, 1, 4)
    assert 0 < few.coverage <= 0.25 and few.accuracy > few.coverage


def test_the_bench_measures_every_policy_budget_and_claim(tmp_path):
    results = {one.name: one for one in quality.run(Context(tiny=True))}
    for method, one in METHODS.items():
        costs = ("near", "link", "time") if one.has_commands else ()
        for figure in (*FIGURES, *costs):
            curve = results[f"quality/{method}/{figure}"].extra["curve"]
            assert len(curve["x"]) == len(curve["y"]) == 1
    assert results["quality/tail/recall"].value >= results["quality/streaming_llm/recall"].value
    for codec in CODECS:
        assert results[f"quality/pool_{codec.name.lower()}/page_bytes"].value < 1
    assert 0 < results["quality/prefetch/top_4_accuracy"].value <= 1
    assert results["quality/claims/h2o_20/recall"].peer == "the paper"
    assert {claim.budget for claim in CLAIMS} >= {0.10, 0.16, 0.20}


def test_a_checkpoint_of_the_users_is_measured_and_a_folder_without_one_refused(tmp_path):
    _, tokenizer = load_model(MODEL, "float32")
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 32}
    shape |= {"num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": len(tokenizer)}
    torch.manual_seed(1)
    Qwen2ForCausalLM(Qwen2Config(**shape)).save_pretrained(tmp_path / "dense")
    tokenizer.save_pretrained(tmp_path / "dense")
    results = list(quality.run(Context(tiny=True, model=tmp_path / "dense")))
    assert results[0].extra["model"] == "dense"
    with pytest.raises(DemoError, match="no model"):
        list(quality.run(Context(tiny=True, model=tmp_path)))


def test_every_policy_that_ships_is_measured():
    assert {method.policy for method in METHODS.values()} == set(retention_policies())
    rules = {method.rule for method in METHODS.values()}
    assert rules | {"workflow"} == set(retention_budgets())


def test_the_agent_that_runs_next_recalls_more_than_one_that_waits(dense, tasks):
    agents = [dense, Dense(dense.model, tasks.draw(1, 400), 1)]
    in_turn = measure_agents(agents, "workflow", 0.4)
    alike = measure_agents(agents, "uniform", 0.4)
    assert alike.next == alike.early
    assert in_turn.next > in_turn.early
    assert in_turn.next >= alike.next


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


def test_a_row_reads_the_best_of_what_an_estimate_leaves():
    random = torch.Generator().manual_seed(2)
    queries = torch.randn(2, 3, 16, generator=random)
    keys = torch.randn(2, 4 * PAGE_TOKENS, 16, generator=random)
    scores = queries @ keys.mT
    best = chosen(by_score, queries, keys, 20)
    assert (scores[best].view(2, 3, 20).amin(-1) == scores.topk(20).values[..., -1]).all()
    for estimate, least in ((by_sign, 0.3), (by_page, 0.1)):
        found = chosen(estimate, queries, keys, 20)
        assert (found.sum(-1) == 20).all()
        assert (found & best).sum() > least * best.sum()
    # A page's bound is never below a score in it; signs tell two sides of a channel apart.
    assert (by_page(queries, keys) >= scores - 1e-4).all()
    assert len(by_sign(torch.eye(16)[None, :1], keys[:1])[0, 0, :PAGE_TOKENS].unique()) == 2
    pages = chosen(by_page, queries, keys, PAGE_TOKENS).unflatten(-1, (4, PAGE_TOKENS)).sum(-1)
    assert (pages.sort(-1).values == torch.tensor([0, 0, 0, PAGE_TOKENS])).all()
    assert chosen(by_score, queries, keys, 10**6).all()
