"""Training starts from heads that look back, is reproducible, and exports what it trained."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from training.initial_weights import initialise
from training.long_context import diluted_causal_mask
from training.model import forward, llama_config, new_llama
from training.run import train_and_export
from training.schedule import RECALL_3M, Phase, Stage
from training.trainer import train_stage
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

STAGE = Stage(
    (
        Phase(2, batch=3, length=128, mix=(1, 1, 1)),
        Phase(1, batch=2, length=256, mix=(0, 1, 1)),
    ),
    dilution=3.0,
    offset_margin=1.0,
)


@pytest.fixture
def small_model(vocabulary: Tokenizer) -> LlamaForCausalLM:
    config = llama_config(
        vocab_size=vocabulary.get_vocab_size(),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        max_position_embeddings=2048,
    )
    model = new_llama(config)
    initialise(model, seed=0)
    return model


def causal_mask(length: int) -> torch.Tensor:
    return diluted_causal_mask(torch.zeros(1, length, dtype=torch.bool), torch.zeros(1))


@pytest.mark.quick
def test_losses_are_finite_and_weights_move(
    small_model: LlamaForCausalLM, vocabulary: Tokenizer, demo_document: str
) -> None:
    before = {name: value.clone() for name, value in small_model.state_dict().items()}
    for _, losses in train_stage(small_model, vocabulary, demo_document, STAGE, "0"):
        assert {"offset", "recall", "copy"} <= losses.keys()
        assert all(torch.tensor(list(losses.values())).isfinite())
    for name, value in small_model.state_dict().items():
        assert value.isfinite().all(), name
        assert not torch.equal(value, before[name]), name


@pytest.mark.quick
def test_untrained_offset_heads_look_back(
    small_model: LlamaForCausalLM, vocabulary: Tokenizer, demo_document: str
) -> None:
    """Head h of layer 0 starts with most of its attention h + 1 tokens back."""
    tokens = torch.tensor([vocabulary.encode(demo_document[:1500]).ids[:200]])
    mask = causal_mask(200)
    with torch.no_grad():
        _, attention = forward(small_model, tokens, torch.arange(200)[None], mask)
    queries, keys = attention[0].queries[0], attention[0].keys[0]
    for head in range(len(queries)):
        logits = queries[head] @ keys[head * len(keys) // len(queries)].T + mask[0, 0]
        nearest = torch.arange(20, 200) - logits[20:].argmax(dim=1)
        assert (nearest == head + 1).float().mean() > 0.5


@pytest.mark.quick
def test_the_mask_and_the_positions_reach_the_attention(
    small_model: LlamaForCausalLM, vocabulary: Tokenizer, demo_document: str
) -> None:
    """A jump in the position ids must not cut the sequence in two, as packed sequences are."""
    tokens = torch.tensor([vocabulary.encode(demo_document[:1500]).ids[:64]])
    jumped = torch.arange(64)[None] + 500 * (torch.arange(64) >= 32)
    hidden = causal_mask(64)
    hidden[..., 32:, :32] = float("-inf")
    with torch.no_grad():
        plain, _ = forward(small_model, tokens, torch.arange(64)[None], causal_mask(64))
        skipped, _ = forward(small_model, tokens, jumped, causal_mask(64))
        cut, _ = forward(small_model, tokens, jumped, hidden)
    assert torch.equal(plain[:, :32], skipped[:, :32])
    assert not torch.allclose(plain[:, 32:], skipped[:, 32:])
    assert not torch.allclose(skipped[:, 32:], cut[:, 32:])


@pytest.mark.quick
def test_learning_rate_warms_up_and_decays() -> None:
    stage = Stage((Phase(100, batch=1, length=10, mix=(1, 1, 1)),), rate=0.5)
    rates = [stage.rate_at(step, tokens_done=10 * step) for step in range(100)]
    assert rates[0] == 0.5 / 20
    assert rates[19] == rates[50] == 0.5
    assert rates[75] == pytest.approx(0.25)
    assert rates[99] == pytest.approx(0.02)


@pytest.mark.quick
def test_the_recipe_trains_on_six_million_tokens() -> None:
    assert sum(stage.tokens for stage in RECALL_3M) == pytest.approx(6.2e6, rel=0.02)


@pytest.mark.default
def test_a_few_steps_of_the_recipe_export_a_model_that_transformers_loads(
    demo_document: str, tmp_path: Path
) -> None:
    """The shipped shape, from text to a folder, twice: the same seed gives the same weights."""
    schedule = [Stage((Phase(3, batch=2, length=256, mix=(1, 1, 2)),), dilution=1)] * 2
    for name in ("first", "second"):
        train_and_export(demo_document, schedule, 5, tmp_path / name)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second")]
    assert weights[0] == weights[1]

    model, info = AutoModelForCausalLM.from_pretrained(tmp_path / "first", output_loading_info=True)
    assert not any(info.values())
    assert model.dtype == torch.bfloat16
    prompt = AutoTokenizer.from_pretrained(tmp_path / "first")("@falcon=", return_tensors="pt")
    assert model.generate(**prompt, max_new_tokens=4, min_new_tokens=4).shape == (
        1,
        prompt.input_ids.shape[1] + 4,
    )
