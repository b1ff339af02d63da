"""What the quality bench claims of models of other shapes than the shipped one."""

from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteMoeHybridConfig,
    GraniteMoeHybridForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    T5Config,
)

pytest.importorskip("nearkv.core", exc_type=ImportError)

from bench import Context, quality
from bench.kept.budgeted import budgeted
from bench.kept.costs import CostMeter
from bench.kept.keepers import PolicyKeeper, SelectKeeper
from bench.kept.measure import Dense, Quality, measure_briefly
from bench.kept.methods import METHODS
from bench.kept.picked import PickedReading
from bench.kept.shapes import PICKING, SHAPES, SOME_METHODS, ShapesPlan, measure_shapes
from bench.kept.tasks import NEEDLES, Tasks
from nearkv.demo.runs import load_model
from nearkv.results import Result

MODEL = Path(__file__).parents[2] / "engine_integration" / "models" / "recall_3m"
WINDOW = 16
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def windowed(vocabulary: int, kinds: list[str]) -> PreTrainedModel:
    config = Qwen2Config(
        **SHAPE,
        vocab_size=vocabulary,
        head_dim=32,
        use_sliding_window=True,
        sliding_window=WINDOW,
        layer_types=kinds,
    )
    return Qwen2ForCausalLM(config)


def latent(vocabulary: int) -> PreTrainedModel:
    config = DeepseekV3Config(
        **SHAPE | {"num_key_value_heads": 4},
        vocab_size=vocabulary,
        q_lora_rank=None,
        kv_lora_rank=32,
        qk_rope_head_dim=16,
        qk_nope_head_dim=16,
        v_head_dim=32,
        first_k_dense_replace=3,
    )
    return DeepseekV3ForCausalLM(config)


def recurrent(vocabulary: int) -> PreTrainedModel:
    config = GraniteMoeHybridConfig(
        **SHAPE,
        vocab_size=vocabulary,
        layer_types=["linear_attention", "full_attention", "full_attention"],
        position_embedding_type="rope",
        shared_intermediate_size=64,
        num_local_experts=0,
        num_experts_per_tok=0,
        mamba_n_heads=4,
        mamba_d_state=16,
    )
    return GraniteMoeHybridForCausalLM(config)


MAKERS = {
    "local_global": lambda size: windowed(
        size, ["sliding_attention", "full_attention", "sliding_attention"]
    ),
    "mla": latent,
    "hybrid": recurrent,
}
BUDGETED = {"local_global": (1,), "mla": (0, 1, 2), "hybrid": (1, 2)}


@pytest.fixture(scope="module")
def tasks() -> Tasks:
    return Tasks(load_model(MODEL, "float32")[1])


@pytest.fixture(scope="module", params=MAKERS)
def shape(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def dense(shape: str, tasks: Tasks) -> Dense:
    """Random weights, large enough that tokens far back matter."""
    torch.manual_seed(1)
    model = MAKERS[shape](2048).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    return Dense(model, tasks.draw(0, 300), 1)


def divergence(dense: Dense, name: str, budget: float) -> float:
    quality_of = Quality()
    measure_briefly(dense, METHODS[name], budget, quality_of)
    return quality_of.divergences[0]


def test_layers_that_attend_to_all_tokens_have_a_budget_and_no_others(shape, dense):
    assert dense.budgeted.layers == BUDGETED[shape]
    assert len(dense.watcher.seen) == len(BUDGETED[shape])
    keeper = PolicyKeeper(METHODS["h2o"], 0.1, dense.watcher)
    keeper.decide()
    assert len(keeper.kept) == len(BUDGETED[shape])


def test_dense_attention_is_the_models_own(dense):
    model, task = dense.model, dense.task
    model.set_attn_implementation("eager")
    with torch.no_grad():
        logits = model(torch.tensor([task.prompt + task.continued]), use_cache=False).logits[0]
    model.set_attn_implementation("kept")
    wanted = logits[len(task.prompt) :].log_softmax(-1)
    torch.testing.assert_close(dense.log_shares, wanted, atol=2e-3, rtol=0)


def test_nothing_of_a_run_stays(dense):
    again = dense.run(dense.watcher.fork(), dense.task.continued)
    assert torch.equal(again, dense.log_shares)


@pytest.mark.parametrize("name", ["streaming_llm", "h2o", "top_k"])
def test_a_budget_of_all_tokens_is_dense_attention_and_a_small_one_is_not(dense, name):
    # Of a selection's budget each of the four query rows of a KV head chooses a part.
    assert divergence(dense, name, 4.0 if name == "top_k" else 1.0) < 1e-4
    assert divergence(dense, name, 0.05) > 1e-3


def test_a_latent_is_one_head_whose_values_are_its_leading_channels(tasks):
    torch.manual_seed(1)
    dense = Dense(latent(2048).eval(), tasks.draw(0, 300), 1)
    keys, values = dense.budgeted.rows_of(dense.cache, 1)
    assert keys.shape == (1, len(dense.task.prompt), 48)
    assert torch.equal(values, keys[..., :32])
    assert SelectKeeper(METHODS["tail"], 0.1, dense.watcher).tokens == len(dense.task.prompt)


def test_layers_with_a_window_keep_that_much(tasks):
    dense = Dense(MAKERS["local_global"](2048).eval(), tasks.draw(0, 300), 1)
    kept = [layer.keys.shape[2] for layer in dense.cache.layers]
    assert kept == [WINDOW - 1, len(dense.task.prompt), WINDOW - 1]


def test_a_step_costs_what_its_layers_with_a_budget_read(dense):
    costs = CostMeter(dense, "cpu:")
    every, few = costs.of(None, 1.0), costs.of(METHODS["streaming_llm"], 0.2)
    assert every.near_bytes > few.near_bytes > 0
    row_channels = {"local_global": 2 * 2 * 32, "mla": 3 * 48, "hybrid": 2 * 2 * 2 * 16}
    tokens = len(dense.task.prompt) // 64 * 64
    (name,) = [key for key in BUDGETED if BUDGETED[key] == dense.budgeted.layers]
    assert every.moved_bytes == 2 * tokens * row_channels[name]


def test_models_that_no_budget_can_cut_are_refused():
    with pytest.raises(ValueError, match="sliding_attention alone"):
        budgeted(windowed(64, ["sliding_attention"] * 3).config)
    with pytest.raises(ValueError, match="cross-attention"):
        budgeted(T5Config(d_model=64, num_layers=1, num_heads=2, d_kv=32))


def test_attention_that_does_more_than_this_one_is_refused(tasks):
    config = Gemma2Config(**SHAPE, vocab_size=2048, head_dim=32)
    with pytest.raises(ValueError, match="softcap"):
        Dense(Gemma2ForCausalLM(config).eval(), tasks.draw(0, 300), 1)


@pytest.fixture(scope="module")
def tiny() -> dict[str, Result]:
    plan = ShapesPlan(256, 1, (0.10, 0.20), ("streaming_llm", "tail"))
    return {one.name: one for one in measure_shapes(Context(), plan)}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shipped_shape_is_measured_beside_its_own_dense_attention(tiny, name):
    for figure in ("loss", "divergence", "agreement", "recall", "recall_asked"):
        dense = tiny[f"quality/shapes/{name}/dense/{figure}"]
        result = tiny[f"quality/shapes/{name}/tail/{figure}"]
        assert result.extra["curve"]["x"] == [10, 20]
        assert result.extra["curve"]["plot"] == f"shapes/{name}/{figure} by budget"
        if dense.value:
            assert (result.peer, result.peer_value) == ("dense", dense.value)
    assert tiny[f"quality/shapes/{name}/dense/recall"].value >= 6 / NEEDLES


@pytest.mark.parametrize("name", SHAPES)
def test_a_tail_keeps_what_a_window_loses_on_every_shape(tiny, name):
    tail, window = (
        tiny[f"quality/shapes/{name}/{method}/recall"].value for method in ("tail", "streaming_llm")
    )
    assert tail > window


def test_an_indexer_that_picks_all_is_the_models_own_attention(tasks):
    """But for latents in the store's bfloat16."""
    task = tasks.draw(0, 300)
    model = AutoModelForCausalLM.from_pretrained(PICKING, dtype=torch.float32).eval()
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.indexer.index_topk = 1000
        logits = model(torch.tensor([task.prompt + task.continued]), use_cache=False).logits[0]
        model.set_attn_implementation("nearkv")
        said = [PickedReading(model, task, picks).run(task.continued) for picks in (1000, 10)]
    wanted = logits[len(task.prompt) :].log_softmax(-1)
    assert (said[0] - wanted).abs().mean() < 0.02
    assert (said[1] - wanted).abs().mean() > 0.1


def test_what_an_indexer_picks_is_measured_beside_all_tokens(tiny):
    for figure in ("loss", "divergence", "agreement", "recall"):
        dense = tiny[f"quality/shapes/dsa/dense/{figure}"]
        result = tiny[f"quality/shapes/dsa/indexer/{figure}"]
        assert result.extra["curve"]["x"] == [10, 20]
        assert "DSA" in result.extra["paper"]
        if dense.value:
            assert (result.peer, result.peer_value) == ("dense", dense.value)
    coarse, fine = tiny["quality/shapes/dsa/indexer/divergence"].extra["curve"]["y"]
    assert coarse > fine > 0
    assert tiny["quality/shapes/dsa/indexer/recall"].value >= 6 / NEEDLES


@pytest.mark.parametrize("name", ["local_global", "mla", "hybrid"])
def test_a_checkpoint_of_such_a_shape_is_measured_like_any_other(name, tmp_path):
    torch.manual_seed(1)
    MAKERS[name](2048).save_pretrained(tmp_path)
    load_model(MODEL, "float32")[1].save_pretrained(tmp_path)
    names = {one.name for one in quality.run(Context(tiny=True, model=tmp_path))}
    assert {f"quality/{method}/recall" for method in METHODS} <= names
    assert ("quality/pool_int4/recall" in names) == (name == "mla")
    assert not any(one.startswith("quality/shapes/") for one in names)


def test_the_methods_measured_are_among_the_benchs():
    assert set(SOME_METHODS) <= set(METHODS)
