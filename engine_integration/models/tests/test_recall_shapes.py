"""Models of other shapes: what transformers loads of them, how small they are, their cards."""

import json
import random
from pathlib import Path

import pytest
import torch
from evaluation.recall import make_prompt, outcomes
from evaluation.report import sha256, table, weight_files
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

SHIPPED = ["mha", "mqa", "local_global", "mla", "dsa", "hybrid"]
OWN_WEIGHTS = "own.safetensors"
LEAST_RECALL_AT_1K = 0.8
MOST_OWN_BYTES = 4_000_000
MOST_BYTES = 14_000_000


@pytest.fixture(params=SHIPPED)
def folder(request: pytest.FixtureRequest, model_folder: Path) -> Path:
    return model_folder.parent / "shapes" / request.param


@pytest.mark.quick
def test_every_shape_ships(model_folder: Path) -> None:
    shapes = model_folder.parent / "shapes"
    assert {one.name for one in shapes.iterdir() if one.is_dir()} == set(SHIPPED)
    assert sum(file.stat().st_size for file in shapes.rglob("*")) <= MOST_BYTES


@pytest.mark.quick
def test_transformers_loads_it_with_the_shipped_models_weights(folder: Path) -> None:
    """What is not used of the shipped model's file is what this shape has in another form."""
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"]
    assert all(".self_attn." in key or ".mlp." in key for key in info["unexpected_keys"])
    assert model.dtype == torch.bfloat16
    tensors = {}
    for file in weight_files(folder):
        tensors |= load_file(file)
    for key, value in model.state_dict().items():
        if key != "lm_head.weight":
            assert torch.equal(value, tensors[key]), key


@pytest.mark.quick
def test_its_own_weights_are_few(folder: Path) -> None:
    own = folder / OWN_WEIGHTS
    if not own.exists():
        assert folder.name == "local_global"
        return
    assert own.stat().st_size <= MOST_OWN_BYTES
    assert {tensor.dtype for tensor in load_file(own).values()} == {torch.bfloat16}


@pytest.mark.quick
def test_its_card_says_what_it_is(folder: Path) -> None:
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    (kind,) = json.loads((folder / "config.json").read_text())["architectures"]
    assert f"`{kind}`" in card
    own = folder / OWN_WEIGHTS
    said = f"{own.stat().st_size / 1e6:.1f} MB here" if own.exists() else "all weights in"
    assert said in card


@pytest.mark.quick
def test_its_card_shows_the_measurements_of_these_weights(folder: Path) -> None:
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    report = json.loads((folder / "evaluation.json").read_text())
    assert sha256(*weight_files(folder)) == report["weights_sha256"]
    assert table(report) in card
    assert f"{report['bits_per_byte']:.3f} bits/byte" in card
    assert report["date"] in card


@pytest.mark.default
def test_it_recalls_at_1k(folder: Path, vocabulary: Tokenizer, demo_document: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    prompt = make_prompt(vocabulary, demo_document, 1024, 20, random.Random(0))
    results = outcomes(model, vocabulary, 1024, prompt)
    assert sum(outcome.correct for outcome in results) / len(results) >= LEAST_RECALL_AT_1K
