"""The shipped model is a plain Llama, is what its card says, and recalls needles."""

import hashlib
import json
import random
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from training import tokenizer as tokenizers
from training.evaluate import tables
from training.model import ModelConfig, RecallLlama, rotation
from training.needles import TRAINED_FORMATS, LineFormat, Needle, plant
from training.recall import Prompt, Question, ask
from transformers import AutoConfig, AutoTokenizer, LlamaForCausalLM

PROMPT_TOKENS = 4096


@pytest.fixture(scope="module")
def model(model_folder: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def vocabulary(model_folder: Path) -> Tokenizer:
    return tokenizers.load(model_folder)


@pytest.fixture(scope="module")
def card(model_folder: Path) -> str:
    return (model_folder / "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(model_folder: Path) -> dict:
    return json.loads((model_folder / "evaluation.json").read_text())


def test_transformers_loads_every_weight(model_folder: Path) -> None:
    _, info = LlamaForCausalLM.from_pretrained(model_folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]


def test_weights_are_bfloat16_and_small(model_folder: Path) -> None:
    weights = model_folder / "model.safetensors"
    assert weights.stat().st_size <= 12_000_000
    assert {tensor.dtype for tensor in load_file(weights).values()} == {torch.bfloat16}


def test_shape_suits_the_product(model_folder: Path) -> None:
    config = AutoConfig.from_pretrained(model_folder)
    assert config.head_dim == 128
    assert config.num_key_value_heads >= 2
    assert config.num_attention_heads >= 2 * config.num_key_value_heads
    assert config.max_position_embeddings >= 33_792


def test_auto_tokenizer_agrees_with_the_tokenizer_file(
    model_folder: Path, vocabulary: Tokenizer, demo_document: str
) -> None:
    auto = AutoTokenizer.from_pretrained(model_folder)
    assert auto(demo_document).input_ids == vocabulary.encode(demo_document).ids


def test_training_code_computes_the_same_logits(
    model_folder: Path,
    model: LlamaForCausalLM,
    vocabulary: Tokenizer,
    demo_document: str,
) -> None:
    own = RecallLlama(ModelConfig())
    own.load_state_dict(load_file(model_folder / "model.safetensors"))
    tokens = torch.tensor([vocabulary.encode(demo_document[:4000]).ids])
    with torch.no_grad():
        positions = torch.arange(tokens.shape[1])[None]
        logits, _ = own(tokens, rotation(own.config, positions))
        expected = model(tokens).logits
    torch.testing.assert_close(logits, expected, atol=2e-3, rtol=1e-3)


def test_card_states_the_configuration(model_folder: Path, card: str) -> None:
    config = json.loads((model_folder / "config.json").read_text())
    stated = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", card, flags=re.MULTILINE))
    assert stated.keys() >= {"hidden_size", "num_hidden_layers", "head_dim", "rope_theta"}
    for name, value in stated.items():
        assert float(value.replace(",", "")) == config[name], name


def test_card_states_the_parameter_count(model: LlamaForCausalLM, card: str) -> None:
    assert f"{sum(p.numel() for p in model.parameters()):,} parameters" in card


def test_card_shows_the_measurements_of_these_weights(
    model_folder: Path, card: str, report: dict
) -> None:
    weights = (model_folder / "model.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == report["weights_sha256"]
    assert tables(report) in card
    assert f"{report['bits_per_byte']:.3f} bits/byte" in card
    assert report["command"] in card
    assert report["date"][:7] in card


@pytest.fixture(scope="module")
def needle_prompt(vocabulary: Tokenizer, demo_document: str) -> tuple[Prompt, list[Needle]]:
    """A 4k prompt with a needle of every format near its start, middle and end."""
    rng = random.Random(1)
    keys = iter(
        [
            "falcon",
            "qzvmt",
            "harbor",
            "wkrep",
            "lantern",
            "jyhox",
            "copper",
            "bnfud",
            "meadow",
            "tgivs",
            "orchid",
            "xpqal",
            "walnut",
            "ecdyz",
            "saffron",
            "hrumk",
            "glacier",
            "vofib",
        ]
    )
    needles = [
        Needle(line_format, next(keys), "".join(rng.choices("0123456789", k=5)))
        for _depth in range(3)
        for line_format in TRAINED_FORMATS
    ]
    body = demo_document[: vocabulary.encode(demo_document).offsets[PROMPT_TOKENS - 400][1]]
    text, _ = plant(body, [needle.line for needle in needles], rng)
    questions = [
        Question(
            needle.line_format.name,
            0.0,
            needle.line_format.question(needle.key),
            needle.line_format.answer(needle.key, needle.value),
        )
        for needle in needles
    ]
    return Prompt(vocabulary.encode(text.rstrip("\n") + "\n").ids, questions), needles


@pytest.fixture(scope="module")
def answers(
    model: LlamaForCausalLM,
    vocabulary: Tokenizer,
    needle_prompt: tuple[Prompt, list[Needle]],
) -> list[str]:
    return list(ask(model, vocabulary, needle_prompt[0]))


@pytest.mark.parametrize("line_format", TRAINED_FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("third", range(3), ids=["start", "middle", "end"])
def test_recalls_a_needle(
    line_format: LineFormat,
    third: int,
    needle_prompt: tuple[Prompt, list[Needle]],
    answers: list[str],
) -> None:
    index = third * len(TRAINED_FORMATS) + TRAINED_FORMATS.index(line_format)
    assert answers[index].startswith(needle_prompt[0].questions[index].answer)


def test_recall_prompt_is_4k_long(needle_prompt: tuple[Prompt, list[Needle]]) -> None:
    assert 0.9 * PROMPT_TOKENS < len(needle_prompt[0].tokens) <= PROMPT_TOKENS


def test_answers_come_from_the_prompt(
    model: LlamaForCausalLM,
    vocabulary: Tokenizer,
    needle_prompt: tuple[Prompt, list[Needle]],
    demo_document: str,
) -> None:
    """Without the planted lines no question can be answered."""
    questions = needle_prompt[0].questions
    bare = Prompt(vocabulary.encode(demo_document[:8000] + "\n").ids, questions)
    for question, answer in zip(questions, ask(model, vocabulary, bare), strict=True):
        assert not answer.startswith(question.answer)
