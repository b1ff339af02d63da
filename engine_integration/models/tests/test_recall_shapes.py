"""Models of other shapes: what a Llama keeps when it becomes one, what it is taught, the files."""

import copy
import hashlib
import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from training.beside import OWN_WEIGHTS, save_beside, weight_files
from training.distil import attention_moments, match_layers, mixers
from training.evaluate import table
from training.indexers import all_picked, index_scores, match_indexers
from training.initial_weights import initialise
from training.latents import factored
from training.model import llama_config
from training.recall import make_prompt, outcomes
from training.schedule import Phase, Stage
from training.shapes import SHAPES, WINDOW_TOKENS, shaped
from transformers import AutoModelForCausalLM, LlamaForCausalLM

SHIPPED = ["mha", "mqa", "local_global", "mla", "dsa", "hybrid"]
LEAST_RECALL_AT_1K = 0.8
MOST_OWN_BYTES = 4_000_000
MOST_BYTES = 14_000_000
STAGE = Stage((Phase(6, batch=2, length=96, mix=(1, 1, 1)),), rate=0.5, dilution=1.0)


@pytest.fixture(scope="module")
def llama(vocabulary: Tokenizer) -> LlamaForCausalLM:
    """Untrained, in float32."""
    config = llama_config(
        vocab_size=vocabulary.get_vocab_size(),
        hidden_size=128,
        intermediate_size=96,
        max_position_embeddings=2048,
    )
    model = LlamaForCausalLM(config).eval()
    initialise(model, seed=0)
    return model


@pytest.fixture(scope="module")
def moments(llama: LlamaForCausalLM, vocabulary: Tokenizer, demo_document: str) -> torch.Tensor:
    return attention_moments(llama, vocabulary, demo_document, seed=0)


@pytest.fixture(scope="module")
def tokens(vocabulary: Tokenizer, demo_document: str) -> torch.Tensor:
    return torch.tensor([vocabulary.encode(demo_document[:4000]).ids[:200]])


@torch.no_grad()
def logits(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return model(tokens).logits


@pytest.mark.quick
def test_a_kv_head_for_each_query_head_computes_the_same(llama, moments, tokens) -> None:
    model = shaped(llama, SHAPES["mha"], moments)
    assert model.config.num_key_value_heads == llama.config.num_attention_heads
    torch.testing.assert_close(logits(model, tokens), logits(llama, tokens))


@pytest.mark.quick
def test_a_window_changes_nothing_before_it_is_full(llama, moments, tokens) -> None:
    model = shaped(llama, SHAPES["local_global"], moments)
    said, wanted = logits(model, tokens), logits(llama, tokens)
    torch.testing.assert_close(said[:, :WINDOW_TOKENS], wanted[:, :WINDOW_TOKENS])
    assert not torch.allclose(said[:, WINDOW_TOKENS:], wanted[:, WINDOW_TOKENS:], atol=1e-3)


@pytest.mark.quick
@pytest.mark.parametrize("name", SHAPES)
def test_all_but_what_mixes_tokens_stays_the_llamas(llama, moments, name: str) -> None:
    model = shaped(llama, SHAPES[name], moments)
    assert torch.equal(model.model.embed_tokens.weight, llama.model.embed_tokens.weight)
    given = torch.randn(1, 8, 128, generator=torch.Generator().manual_seed(1))
    for own, theirs in zip(model.model.layers, llama.model.layers, strict=True):
        mlp = getattr(own, "mlp", None) or own.shared_mlp
        torch.testing.assert_close(mlp(given), theirs.mlp(given))


@pytest.mark.quick
def test_a_latent_as_wide_as_the_model_loses_nothing(llama, moments) -> None:
    config, state = llama.config, dict(llama.state_dict())
    hidden, dim, rotated = config.hidden_size, config.head_dim, 64
    made = factored(dict(state), config, moments, hidden, rotated)
    for layer in range(config.num_hidden_layers):
        prefix = f"model.layers.{layer}.self_attn"
        down = made[f"{prefix}.kv_a_proj_with_mqa.weight"][:hidden]
        up = made[f"{prefix}.kv_b_proj.weight"].unflatten(0, (config.num_attention_heads, -1))
        keys, values = (up @ down).split([dim - rotated, dim], 1)
        heads = state[f"{prefix}.v_proj.weight"].unflatten(0, (config.num_key_value_heads, dim))
        torch.testing.assert_close(values, heads.repeat_interleave(2, 0), atol=1e-4, rtol=1e-3)
        slow = [*range(32, 64), *range(96, 128)]
        heads = state[f"{prefix}.k_proj.weight"].unflatten(0, (config.num_key_value_heads, dim))
        wanted = heads[:, slow].repeat_interleave(2, 0)
        torch.testing.assert_close(keys, wanted, atol=1e-4, rtol=1e-3)


@pytest.mark.default
@pytest.mark.parametrize("name", ["mqa", "mla", "hybrid"])
def test_teaching_brings_it_nearer_and_moves_nothing_else(
    llama, moments, vocabulary: Tokenizer, demo_document: str, name: str
) -> None:
    student = shaped(llama, SHAPES[name], moments)
    before = {key: value.clone() for key, value in student.state_dict().items()}
    twice = [
        list(
            match_layers(student, llama, SHAPES[name].taught, vocabulary, demo_document, STAGE, "0")
        ),
        list(
            match_layers(student, llama, SHAPES[name].taught, vocabulary, demo_document, STAGE, "0")
        ),
    ]
    assert sum(twice[1]) < sum(twice[0])
    moved = {
        key for key, value in student.state_dict().items() if not torch.equal(value, before[key])
    }
    mixing = {
        f"model.layers.{layer}.{'mamba' if name == 'hybrid' else 'self_attn'}"
        for layer in SHAPES[name].taught
    }
    assert moved and {".".join(key.split(".")[:4]) for key in moved} == mixing


@pytest.mark.quick
def test_latents_are_the_same_with_indexers_that_leave_nothing_out(llama, moments, tokens) -> None:
    """But for the norm of the queries' latent, which divides by each token's own mean square."""
    plain, indexed = (shaped(llama, SHAPES[name], moments) for name in ("mla", "dsa"))
    with all_picked(indexed):
        apart = (logits(indexed, tokens) - logits(plain, tokens)).abs().mean()
    few = (logits(indexed, tokens) - logits(plain, tokens)).abs().mean()
    assert apart < 0.05 * logits(plain, tokens).abs().mean()
    assert few > apart


@pytest.mark.quick
def test_an_indexer_is_taught_by_the_scores_that_it_picks_by(llama, moments) -> None:
    model = shaped(llama, SHAPES["dsa"], moments)
    attention = mixers(model)[1]
    attention.indexer.weights_proj.weight.data.normal_()
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(2, 300, llama.config.hidden_size, generator=generator)
    places = torch.arange(300).expand(2, -1)
    cos, sin = model.model.rotary_emb(hidden, places)
    visible = torch.ones(2, 300, 300, dtype=torch.bool).tril()
    latent = attention.q_a_layernorm(attention.q_a_proj(hidden))
    picked = attention.indexer(hidden, latent, (cos, sin), visible, places)
    scores = index_scores(attention, hidden, cos, sin).masked_fill(~visible, -torch.inf)
    rows = scores[:, 200:].gather(-1, picked[:, 200:].long())
    least = scores[:, 200:].topk(picked.shape[-1]).values[..., -1:]
    assert picked.shape[-1] == attention.indexer.index_topk < 200
    assert bool((rows >= least - 1e-4).all())


@pytest.mark.default
def test_indexers_learn_where_the_llama_looks_and_nothing_else_moves(
    llama, moments, vocabulary: Tokenizer, demo_document: str
) -> None:
    student, teacher = shaped(llama, SHAPES["dsa"], moments), copy.deepcopy(llama)
    teacher.set_attn_implementation("eager")
    before = {key: value.clone() for key, value in student.state_dict().items()}
    lesson = (student, teacher, vocabulary, demo_document, STAGE, "0")
    first, second = list(match_indexers(*lesson)), list(match_indexers(*lesson))
    assert sum(second) < sum(first)
    moved = {
        key for key, value in student.state_dict().items() if not torch.equal(value, before[key])
    }
    assert moved and all(".indexer." in key for key in moved)


@pytest.mark.quick
def test_only_what_differs_is_written_again(llama, moments, tmp_path: Path) -> None:
    base = tmp_path / "base"
    copy.deepcopy(llama).to(torch.bfloat16).save_pretrained(base)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (base / name).write_text("{}")
    model = shaped(
        AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), SHAPES["mqa"], moments
    )
    save_beside(model, tmp_path / "mqa", base)
    own = load_file(tmp_path / "mqa" / OWN_WEIGHTS)
    assert {key.split(".")[-2] for key in own} == {"k_proj", "v_proj"}
    loaded, info = AutoModelForCausalLM.from_pretrained(tmp_path / "mqa", output_loading_info=True)
    assert not any(info.values())
    for key, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key


@pytest.fixture(params=SHIPPED)
def folder(request: pytest.FixtureRequest, model_folder: Path) -> Path:
    return model_folder.parent / "shapes" / request.param


@pytest.mark.quick
def test_every_shape_ships(model_folder: Path) -> None:
    shapes = model_folder.parent / "shapes"
    assert {one.name for one in shapes.iterdir() if one.is_dir()} == set(SHIPPED) == set(SHAPES)
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
    weights = b"".join(file.read_bytes() for file in weight_files(folder))
    assert hashlib.sha256(weights).hexdigest() == report["weights_sha256"]
    assert table(report) in card
    assert f"{report['bits_per_byte']:.3f} bits/byte" in card
    assert report["date"] in card


@pytest.mark.default
def test_it_recalls_at_1k(folder: Path, vocabulary: Tokenizer, demo_document: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    prompt = make_prompt(vocabulary, demo_document, 1024, 20, random.Random(0))
    results = outcomes(model, vocabulary, 1024, prompt)
    assert sum(outcome.correct for outcome in results) / len(results) >= LEAST_RECALL_AT_1K
