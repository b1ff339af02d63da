"""Training runs, resumes, is interruptible, and exports what it trained."""

import os
import random
import signal
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from training import tokenizer as tokenizers
from training import trainer as trainers
from training.export import export
from training.model import ModelConfig, RecallLlama, rotation
from training.schedule import Phase, Schedule
from training.trainer import Trainer
from transformers import LlamaForCausalLM

SCHEDULE = Schedule(
    (
        Phase(2, batch=3, length=128, mix=(1, 1, 1)),
        Phase(1, batch=2, length=256, mix=(0, 1, 1), dilution=3.0, offset_margin=1.0),
    ),
    warmup_steps=2,
)


@pytest.fixture(scope="module")
def text() -> str:
    """Synthetic prose: random words on lines of random length."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(400)]
    lines = (" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(3000))
    return "\n".join(lines)


@pytest.fixture(scope="module")
def vocabulary(text: str) -> Tokenizer:
    return tokenizers.train(text)


def make_trainer(vocabulary: Tokenizer, text: str) -> Trainer:
    config = ModelConfig(
        vocab_size=vocabulary.get_vocab_size(),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        max_position_embeddings=2048,
    )
    return Trainer(config, vocabulary, text, SCHEDULE, compiled=False)


def test_losses_are_finite_and_weights_move(vocabulary: Tokenizer, text: str) -> None:
    trainer = make_trainer(vocabulary, text)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    for _ in range(SCHEDULE.steps):
        losses = trainer.step()
        assert losses
        assert all(torch.tensor(list(losses.values())).isfinite())
    for name, value in trainer.model.state_dict().items():
        assert value.isfinite().all(), name
        assert not torch.equal(value, before[name]), name


def test_resumed_run_equals_uninterrupted_run(
    vocabulary: Tokenizer, text: str, tmp_path: Path
) -> None:
    whole, first = make_trainer(vocabulary, text), make_trainer(vocabulary, text)
    for _ in range(SCHEDULE.steps):
        whole.step()
    first.step()
    first.save(tmp_path / "checkpoint.pt")
    assert make_trainer(vocabulary, text).run(tmp_path)
    resumed = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["model"]
    for name, value in whole.model.state_dict().items():
        torch.testing.assert_close(resumed[name], value, msg=name)


def test_interrupt_finishes_the_step_and_saves(
    vocabulary: Tokenizer,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = make_trainer(vocabulary, text)
    step = trainer.step

    def interrupted_step() -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGINT)
        return step()

    monkeypatch.setattr(trainer, "step", interrupted_step)
    handler = signal.getsignal(signal.SIGINT)
    assert not trainer.run(tmp_path)
    assert signal.getsignal(signal.SIGINT) == handler
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["step"] == 1


def test_export_reloads_in_transformers_with_the_same_logits(
    vocabulary: Tokenizer, text: str, tmp_path: Path
) -> None:
    trainer = make_trainer(vocabulary, text)
    for _ in range(SCHEDULE.steps):
        trainer.step()
    export(trainer.model, vocabulary, tmp_path, dtype=torch.float32)
    reloaded = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokens = torch.tensor([vocabulary.encode(text[:2000]).ids])
    with torch.no_grad():
        by = rotation(trainer.config, torch.arange(tokens.shape[1])[None])
        logits, _ = trainer.model(tokens, by)
        torch.testing.assert_close(reloaded(tokens).logits, logits, atol=1e-4, rtol=1e-4)
    assert reloaded.config.eos_token_id == vocabulary.token_to_id(tokenizers.EOS)


def test_untrained_offset_heads_look_back(vocabulary: Tokenizer, text: str) -> None:
    """Head h of layer 0 starts with most of its attention h + 1 tokens back."""
    model: RecallLlama = make_trainer(vocabulary, text).model
    config = model.config
    tokens = torch.tensor([vocabulary.encode(text[:1500]).ids[:200]])
    with torch.no_grad():
        _, attention = model(tokens, rotation(config, torch.arange(200)[None]))
    for head in range(config.num_attention_heads):
        queries = attention[0].queries[0, head]
        logits = queries @ attention[0].keys[0, head // config.group_size].T
        causal = logits.masked_fill(torch.ones(200, 200).triu(1).bool(), float("-inf"))
        nearest = torch.arange(20, 200) - causal[20:].argmax(dim=1)
        assert (nearest == head + 1).float().mean() > 0.5


def test_learning_rate_warms_up_and_decays() -> None:
    rates = [SCHEDULE.rate_at(step) for step in range(SCHEDULE.steps)]
    assert rates[0] == 0.5
    assert rates[1] == 1.0
    assert 0 < rates[2] < 1.0
    assert trainers.OFFSET_HEAD_RATE_FACTOR < 1
