"""Prompts of chunks blended from a store, beside full prefills: shipped and small random models."""

import copy
import itertools
import re
import textwrap
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache

pytest.importorskip("nearkv.core", exc_type=ImportError)
import nearkv.blend
from nearkv.blend import ChunkBlender, Rule, UnsuitableModel
from nearkv.blend.selection import deviation, kept_share, share_of
from nearkv.store import ObjectStore
from nearkv.transformers import NearKVCache, make_pool

MODELS = Path(__file__).parents[1] / "models"
SHIPPED = MODELS / "recall_3m"
SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}


def scaled(kind: str, **more: object) -> dict[str, object]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, "factor": 4.0} | more}


LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
CONFIGS = {
    "llama": transformers.LlamaConfig(**SMALL),
    "llama3's rotation": transformers.LlamaConfig(**SMALL, **scaled("llama3", **LLAMA3)),
    "yarn, which scales": transformers.LlamaConfig(**SMALL, **scaled("yarn")),
    "qwen2": transformers.Qwen2Config(**SMALL),
    "qwen3, normed keys": transformers.Qwen3Config(**SMALL, head_dim=32),
    "cohere, pairs side by side": transformers.CohereConfig(**SMALL),
    "glm, half rotated": transformers.GlmConfig(**SMALL, head_dim=16),
    "granite, scaled embeddings": transformers.GraniteConfig(**SMALL, embedding_multiplier=3.0),
}
LENGTHS = (40, 25, 1, 33)


def make_model(config: transformers.PreTrainedConfig, dtype: torch.dtype = torch.float32):
    torch.manual_seed(0)
    config = copy.deepcopy(config)  # A model writes to its own.
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for name, weight in model.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            weight.data *= 8  # Peaked attention, so that what a token sees shows.
    return model.to(dtype)


def make_chunks(lengths=LENGTHS) -> list[list[int]]:
    random = torch.Generator().manual_seed(4)
    return [torch.randint(1, 97, (length,), generator=random).tolist() for length in lengths]


def joined(chunks: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(chunks))


@torch.no_grad()
def prefill(model, tokens: list[int], first: int = 0) -> DynamicCache:
    """What the model computes by itself, the first token at a position."""
    cache, place = DynamicCache(), torch.arange(first, first + len(tokens))[None]
    model(torch.tensor([tokens]), position_ids=place, past_key_values=cache)
    return cache


def pairs(cache: DynamicCache) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(layer.keys, layer.values) for layer in cache.layers]


def assert_close(cache: DynamicCache, other: DynamicCache) -> None:
    for layer, expected in zip(pairs(cache), pairs(other), strict=True):
        for ours, theirs in zip(layer, expected, strict=True):
            assert ours.shape == theirs.shape
            assert (ours - theirs).abs().max() < 2e-5 * theirs.abs().max()


@pytest.fixture
def llama():
    return make_model(CONFIGS["llama"])


@pytest.mark.parametrize("name", CONFIGS)
def test_all_computed_is_a_full_prefill(name: str, store) -> None:
    model, chunks = make_model(CONFIGS[name]), make_chunks()
    for rule in Rule:
        blend = ChunkBlender(model, store).blend(chunks, ratio=1, rule=rule)
        assert blend.computed_tokens == (59, 59, 59)
        assert_close(blend.cache, prefill(model, joined(chunks)))


@pytest.mark.parametrize("name", CONFIGS)
def test_none_computed_is_each_chunk_computed_alone_at_its_place(name: str, store) -> None:
    model, chunks = make_model(CONFIGS[name]), make_chunks()
    blend = ChunkBlender(model, store).blend(chunks, ratio=0)
    assert blend.computed_tokens == (0, 0, 0)
    first = 0
    for chunk in chunks:
        alone = prefill(model, chunk, first)
        part = DynamicCache()
        for number, (keys, values) in enumerate(pairs(blend.cache)):
            place = slice(first, first + len(chunk))
            part.update(keys[:, :, place], values[:, :, place], number)
        assert_close(part, alone)
        first += len(chunk)


def test_one_chunk_is_a_reused_prefix(llama, store) -> None:
    [chunk] = make_chunks([50])
    blender = ChunkBlender(llama, store)
    assert blender.add(chunk)
    blend = blender.blend([chunk])
    assert (blend.found_chunks, blend.computed_tokens) == (1, (0, 0, 0))
    for layer, expected in zip(pairs(blend.cache), pairs(prefill(llama, chunk)), strict=True):
        assert torch.equal(layer[0], expected[0]) and torch.equal(layer[1], expected[1])


def test_the_first_chunk_is_never_computed_again(llama, store) -> None:
    chunks = make_chunks()
    full = pairs(prefill(llama, joined(chunks)))
    for rule in Rule:
        blend = ChunkBlender(llama, store).blend(chunks, ratio=0.5, rule=rule)
        for (keys, _), (expected, _) in zip(pairs(blend.cache), full, strict=True):
            assert (keys[:, :, :40] - expected[:, :, :40]).abs().max() < 1e-5


def test_the_tokens_computed_are_those_that_deviate_most(llama, store) -> None:
    """In the second layer, beside a brute-force search; what they become shows in the third."""
    chunks = make_chunks()
    full = pairs(prefill(llama, joined(chunks)))
    blender = ChunkBlender(llama, store)
    as_stored = pairs(blender.blend(chunks, ratio=0).cache)
    blend = blender.blend(chunks, ratio=0.2)
    behind = slice(40, None)
    far = deviation(*([tensor[:, :, behind] for tensor in kv[1]] for kv in (full, as_stored)))
    expected = far.topk(share_of(kept_share(0.2, 1, 3), 59)).indices.sort().values + 40
    changed = (pairs(blend.cache)[2][0] != as_stored[2][0]).any(3).any(1)[0]
    assert changed.nonzero().flatten().tolist() == expected.tolist()
    first, second, third = blend.computed_tokens
    assert (first, second) == (59, len(expected)) and third < second


def test_more_computed_comes_closer(llama, store) -> None:
    chunks = make_chunks([60] * 5)
    blender = ChunkBlender(llama, store)
    full = pairs(prefill(llama, joined(chunks)))

    def off(ratio: float, rule: Rule) -> float:
        cache = blender.blend(chunks, ratio=ratio, rule=rule).cache
        last, expected = pairs(cache)[-1][1], full[-1][1]
        return float((last - expected).square().mean())

    for rule in Rule:
        steps = [off(ratio, rule) for ratio in (0, 0.3, 0.7, 1)]
        assert steps == sorted(steps, reverse=True)
    assert off(0.3, Rule.DEVIATION) < off(0.3, Rule.RANDOM)


def test_shares_fall_from_layer_to_layer_about_the_ratio() -> None:
    for ratio in (0, 0.05, 0.15, 0.6, 1):
        for layers in (2, 3, 32):
            shares = [kept_share(ratio, layer, layers) for layer in range(1, layers)]
            assert shares == sorted(shares, reverse=True)
            assert sum(shares) / len(shares) == pytest.approx(ratio)
    assert kept_share(1, 1, 32) == kept_share(1, 31, 32) == 1
    assert (share_of(0, 50), share_of(0.001, 50), share_of(1, 50)) == (0, 1, 50)


def test_what_comes_out_does_not_depend_on_what_was_stored(llama, tmp_path: Path) -> None:
    chunks = make_chunks()
    uri = f"cpu:{tmp_path}/chunks.pool?memory=64MiB"
    with ObjectStore.create(uri) as store:
        fresh = ChunkBlender(llama, store).blend(chunks)
    with ObjectStore.open(uri) as store:
        blender = ChunkBlender(make_model(CONFIGS["llama"]), store)
        again = blender.blend(chunks)
        other_order = blender.blend(chunks[::-1])
    assert (fresh.found_chunks, again.found_chunks, other_order.found_chunks) == (0, 4, 4)
    for layer, expected in zip(pairs(again.cache), pairs(fresh.cache), strict=True):
        assert torch.equal(layer[0], expected[0]) and torch.equal(layer[1], expected[1])


def test_a_chunk_that_is_lost_while_it_is_loaded_is_computed(llama, store, monkeypatch) -> None:
    chunks = make_chunks()
    blender = ChunkBlender(llama, store)
    expected = blender.blend(chunks)
    # Lost after it was seen: of one chunk the second layer, of another all.
    names = [blender._chunks.names(chunk) for chunk in chunks]
    held = type(blender._chunks).held

    def held_then_lost(self, asked):
        told = held(self, asked)
        self._space.erase([names[1][1], *names[3]])
        return told

    monkeypatch.setattr(type(blender._chunks), "held", held_then_lost)
    blend = blender.blend(chunks)
    assert blend.found_chunks == 2
    for layer, kept in zip(pairs(blend.cache), pairs(expected.cache), strict=True):
        assert torch.equal(layer[0], kept[0]) and torch.equal(layer[1], kept[1])


def test_a_store_that_takes_nothing_costs_time_alone(llama, store, caplog) -> None:
    chunks = make_chunks()
    expected = ChunkBlender(llama, store).blend(chunks)
    store.set_quota(7, 1000)
    blender = ChunkBlender(llama, store, tenant=7)
    assert not blender.add(chunks[0])
    assert "a chunk was not stored" in caplog.text
    for _ in range(2):
        blend = blender.blend(chunks)
        assert blend.found_chunks == 0
        assert torch.equal(blend.cache.layers[2].keys, expected.cache.layers[2].keys)


def test_chunks_of_others_are_never_found(llama, store) -> None:
    [chunk] = make_chunks([20])
    ChunkBlender(llama, store).add(chunk)
    tuned = make_model(CONFIGS["llama"])
    tuned.model.layers[1].mlp.up_proj.weight.data[0] += 1e-3
    rotated = make_model(CONFIGS["yarn, which scales"])
    for other in (tuned, rotated, make_model(CONFIGS["llama"], torch.bfloat16)):
        assert ChunkBlender(other, store).blend([chunk]).found_chunks == 0
    assert ChunkBlender(llama, store, salt=b"mine").blend([chunk]).found_chunks == 0
    assert ChunkBlender(llama, store, tenant=3).blend([chunk]).found_chunks == 0
    assert ChunkBlender(llama, store).blend([chunk]).found_chunks == 1


MLA = {"kv_lora_rank": 32, "q_lora_rank": None, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16}
LONG = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
UNSUITABLE = {
    "no rotary positions": transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=32, vocab_size=97, bos_token_id=None, eos_token_id=None
    ),
    "of the kind dynamic": transformers.LlamaConfig(**SMALL, **scaled("dynamic")),
    "of the kind longrope": transformers.Phi3Config(
        **SMALL, **scaled("longrope", **LONG), original_max_position_embeddings=64
    ),
    "windows, latents or states": transformers.MistralConfig(**SMALL, sliding_window=30),
    "latents or states": transformers.DeepseekV3Config(
        **SMALL | {"num_key_value_heads": 4}, **MLA, v_head_dim=16, first_k_dense_replace=3
    ),
}


@pytest.mark.parametrize("why", UNSUITABLE)
def test_models_that_cannot_be_blended_are_refused_by_name(why: str, store) -> None:
    config = UNSUITABLE[why]
    with pytest.raises(UnsuitableModel, match=why) as refusal:
        ChunkBlender(make_model(config), store)
    assert config.model_type in str(refusal.value)


def test_dtypes_and_attention_that_do_not_fit_are_refused(llama, store) -> None:
    with pytest.raises(UnsuitableModel, match=r"float64; load it with"):
        ChunkBlender(make_model(CONFIGS["llama"], torch.float64), store)
    blender = ChunkBlender(llama, store)
    llama.set_attn_implementation("eager")
    for use in (lambda: ChunkBlender(llama, store), lambda: blender.blend([[1]])):
        with pytest.raises(UnsuitableModel, match=r'set_attn_implementation\("sdpa"\)'):
            use()


def test_positions_that_are_no_rotation_are_noticed(llama, store) -> None:
    """Keys that a model shifts by their position besides."""
    rotary = llama.model.rotary_emb
    forward = rotary.forward

    def shifted(x, position_ids):
        cos, sin = forward(x, position_ids)
        return cos * (1 + position_ids[..., None] / 100), sin

    rotary.forward = shifted
    with pytest.raises(UnsuitableModel, match="more than a rotation"):
        ChunkBlender(llama, store)


@pytest.mark.parametrize(
    ("chunks", "options", "why"),
    [
        ([], {}, "no chunks"),
        ([[1, 2], []], {}, "1 to"),
        ([[1, 97]], {}, "0 to 96"),
        ([[-1]], {}, "0 to 96"),
        ([[[1, 2]]], {}, "a list of"),
        ([[1]], {"ratio": 1.5}, "share of tokens"),
        ([[1]], {"ratio": float("nan")}, "share of tokens"),
    ],
)
def test_wrong_prompts_are_refused(llama, store, chunks, options, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ChunkBlender(llama, store).blend(chunks, **options)


def test_a_chunk_too_long_for_an_object_is_to_be_split(llama, store) -> None:
    blender = ChunkBlender(llama, store)
    with pytest.raises(ValueError, match="split what is longer"):
        blender.add([1] * (blender._chunks.most_tokens + 1))


def test_a_model_that_failed_half_way_is_as_it_was(llama, store, monkeypatch) -> None:
    chunks = make_chunks()
    blender = ChunkBlender(llama, store)
    expected = blender.blend(chunks)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("nearkv.blend.in_place.deviation", fail)
    with pytest.raises(MemoryError):
        blender.blend(chunks)
    monkeypatch.undo()
    assert all(not layer._forward_pre_hooks for layer in llama.model.layers)
    assert torch.equal(blender.blend(chunks).cache.layers[2].keys, expected.cache.layers[2].keys)


def test_generate_goes_on_from_a_blend(llama, store) -> None:
    chunks, question = make_chunks(), torch.tensor([[5, 6, 7]])
    blend = ChunkBlender(llama, store).blend(chunks, ratio=1)
    prompt = torch.cat([blend.tokens, question], 1)
    options = {"max_new_tokens": 12, "do_sample": False}
    mask = torch.ones_like(prompt)
    plain = llama.generate(prompt, attention_mask=mask, **options)
    blended = llama.generate(prompt, attention_mask=mask, past_key_values=blend.cache, **options)
    assert torch.equal(blended, plain)


def test_a_pool_takes_a_blend_up(llama, store) -> None:
    chunks, question = make_chunks([200, 100]), torch.tensor([[5, 6, 7]])
    blend = ChunkBlender(llama, store).blend(chunks)
    prompt = torch.cat([blend.tokens, question], 1)
    options = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 8, "do_sample": False}
    pool = make_pool(llama.config, "cpu:?memory=64MiB")
    with NearKVCache(pool, window_tokens=64, rounded=True) as near:
        near.take(blend.cache)
        plain = llama.generate(prompt, past_key_values=blend.cache, **options)
        llama.set_attn_implementation("nearkv")
        assert torch.equal(llama.generate(prompt, past_key_values=near, **options), plain)
        assert pool.stats().commands > 0


def test_the_readmes_lines_find_a_needle_of_the_shipped_model() -> None:
    """Its chunks in another order than the document's, the needle in the last."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(SHIPPED)
    lines = (MODELS / "documents" / "postgresql-high-availability.txt").read_text().splitlines()

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False).input_ids

    texts = ["\n".join(lines[first : first + 20]) + "\n" for first in (60, 0, 30)]
    texts[2] += "@falcon=48213;\n"
    readme = (Path(nearkv.blend.__file__).parent / "README.md").read_text()
    blocks = re.findall(r"(?:^(?:    .*|)\n)+", readme, re.MULTILINE)
    [block] = [block for block in blocks if "import torch" in block]
    names = {
        "FOLDER": SHIPPED,
        "instructions": encode(texts[0]),
        "document": encode(texts[1]),
        "another": encode(texts[2]),
        "question": torch.tensor([encode("@falcon=")]),
    }
    exec(textwrap.dedent(block).replace("blend.cache)", "blend.cache, max_new_tokens=6)"), names)
    answer = tokenizer.decode(names["output"][0, names["prompt"].shape[1] :])
    assert answer.startswith("48213;")
    assert names["blend"].found_chunks == 0 and names["blend"].computed_tokens[2] > 0
