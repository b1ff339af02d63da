"""The shipped model is a plain Llama, is what its card says, and recalls needles."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from evaluation.needles import draw_needles, plant
from evaluation.recall import Prompt, answers, make_prompt, outcomes
from evaluation.report import sha256, table, wilson_interval
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from nearkv.demo.prompt import Needle

# Below the interval in evaluation.json for 2,048 tokens.
LEAST_RECALL_AT_2K = 0.9
# Where 95 % is the rule, 16 or fewer of 20 are seen once in 60 times.
LEAST_RIGHT_OF_20_AT_16K = 16


@pytest.fixture(scope="module")
def model(model_folder: Path) -> LlamaForCausalLM:
    return AutoModelForCausalLM.from_pretrained(model_folder).eval()


@pytest.fixture(scope="module")
def card(model_folder: Path) -> str:
    return (model_folder / "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(model_folder: Path) -> dict:
    return json.loads((model_folder / "evaluation.json").read_text())


@pytest.mark.default
def test_transformers_loads_it_without_network_and_without_a_warning(model_folder: Path) -> None:
    program = (
        "import sys; from transformers import AutoModelForCausalLM, AutoTokenizer;"
        "model = AutoModelForCausalLM.from_pretrained(sys.argv[1]);"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1]);"
        "prompt = tokenizer('@falcon=', return_tensors='pt');"
        "model.generate(**prompt, max_new_tokens=1); print(type(model).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(model_folder)],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "LlamaForCausalLM"
    said = re.sub(r"Loading weights: .*", "", done.stderr)
    assert not said.strip()


@pytest.mark.quick
def test_transformers_loads_every_weight(model_folder: Path) -> None:
    _, info = AutoModelForCausalLM.from_pretrained(model_folder, output_loading_info=True)
    assert not any(info.values()), info


@pytest.mark.quick
def test_weights_are_bfloat16_and_small(model_folder: Path) -> None:
    weights = model_folder / "model.safetensors"
    assert weights.stat().st_size <= 12_000_000
    assert {tensor.dtype for tensor in load_file(weights).values()} == {torch.bfloat16}


@pytest.mark.quick
def test_auto_tokenizer_agrees_with_the_tokenizer_file(
    model_folder: Path, vocabulary: Tokenizer, demo_document: str
) -> None:
    auto = AutoTokenizer.from_pretrained(model_folder)
    assert auto(demo_document).input_ids == vocabulary.encode(demo_document).ids


@pytest.mark.quick
def test_card_states_the_configuration(
    model_folder: Path, model: LlamaForCausalLM, card: str
) -> None:
    config = AutoConfig.from_pretrained(model_folder).to_dict()
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    stated = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", card, flags=re.MULTILINE))
    assert stated.keys() >= {"hidden_size", "num_hidden_layers", "head_dim", "rope_theta"}
    for name, value in stated.items():
        assert float(value.replace(",", "")) == config[name], name
    assert f"{model.num_parameters():,} parameters" in card


@pytest.mark.quick
def test_card_shows_the_measurements_of_these_weights(
    model_folder: Path, card: str, report: dict
) -> None:
    assert sha256(model_folder / "model.safetensors") == report["weights_sha256"]
    assert table(report) in card
    assert f"{report['bits_per_byte']:.3f} bits/byte" in card
    assert report["date"] in card


@pytest.mark.quick
def test_wilson_interval() -> None:
    low, high = wilson_interval(right=9, of=10)
    assert (low, high) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert wilson_interval(right=10, of=10)[1] == pytest.approx(1.0)


@pytest.mark.default
def test_recall_at_2k(model: LlamaForCausalLM, vocabulary: Tokenizer, demo_document: str) -> None:
    """Twenty needles in each of three prompts, the last digit included."""
    results = []
    for seed in range(3):
        prompt = make_prompt(vocabulary, demo_document, 2048, 20, random.Random(seed))
        assert 1900 < len(prompt.tokens) < 2048
        results += outcomes(model, vocabulary, 2048, prompt)
    assert sum(outcome.correct for outcome in results) / len(results) > LEAST_RECALL_AT_2K


@pytest.mark.default
def test_answers_come_from_the_prompt(
    model: LlamaForCausalLM, vocabulary: Tokenizer, demo_document: str
) -> None:
    """Without its line no needle can be recalled."""
    needles = draw_needles(10, (5,), random.Random(0))
    bare = Prompt(vocabulary.encode(demo_document[:4000] + "\n").ids, needles, [0.0] * 10)
    for needle, answer in zip(needles, answers(model, vocabulary, bare), strict=True):
        assert answer != needle.answer


@pytest.mark.long
def test_recall_at_16k(model: LlamaForCausalLM, vocabulary: Tokenizer, demo_document: str) -> None:
    offsets = vocabulary.encode(demo_document).offsets
    needles = draw_needles(20, (5,), random.Random(0))
    text, spans = plant(demo_document[: offsets[16_384][0]], needles, random.Random(0))
    depths = [start / len(text) for start, _ in spans]
    prompt = Prompt(vocabulary.encode(text).ids, needles, depths)
    results = outcomes(model, vocabulary, 16_384, prompt)
    assert sum(outcome.correct for outcome in results) > LEAST_RIGHT_OF_20_AT_16K


@pytest.mark.default
def test_generate_finds_a_needle_in_16k_tokens_of_the_document(
    model: LlamaForCausalLM, model_folder: Path, demo_document: str
) -> None:
    """As the demo does it: one needle, `generate`, greedy."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    needle = Needle("falcon", "48213")
    offsets = tokenizer(demo_document, return_offsets_mapping=True).offset_mapping
    document = demo_document[: offsets[16_384][0]]
    at = document.index("\n", len(document) // 2) + 1
    text = f"{document[:at]}{needle.line}\n{document[at:]}\n{needle.question}"
    prompt = tokenizer(text, return_tensors="pt")
    assert prompt.input_ids.shape[1] > 16_384
    output = model.generate(**prompt, max_new_tokens=6)
    assert tokenizer.decode(output[0, prompt.input_ids.shape[1] :]) == needle.answer
