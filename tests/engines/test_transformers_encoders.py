"""Encoder-decoder models of transformers whose cross-attention reads a pool: T5, BART, others."""

import copy

import pytest
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    BartConfig,
    DynamicCache,
    EncoderDecoderCache,
    MarianConfig,
    PegasusConfig,
    PreTrainedConfig,
    T5Config,
)

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import AttendMode, Error, Status  # noqa: E402
from nearkv.transformers import (  # noqa: E402
    ATTENTION,
    FarAttention,
    NearKVCache,
    NearKVCrossCache,
    make_pool,
)
from tests.engines.transformers_models import RoundingCache, random_tokens  # noqa: E402

COMMON = {
    "vocab_size": 97,
    "d_model": 64,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
    "decoder_start_token_id": 0,
}
# The decoder's numbers differ from the encoder's, so that none is taken for the other.
STACKS = {
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "max_position_embeddings": 2560,
    "forced_eos_token_id": None,
}
ENCODERS = {
    "t5": T5Config(**COMMON, d_kv=16, d_ff=96, num_layers=1, num_decoder_layers=2, num_heads=4),
    "bart": BartConfig(**COMMON, **STACKS),
    "marian": MarianConfig(**COMMON, **STACKS),
    "pegasus": PegasusConfig(**COMMON, **STACKS),
}
_PEAKED = ("q_proj.weight", "k_proj.weight", "EncDecAttention.q.weight")


def make_model(config: PreTrainedConfig) -> torch.nn.Module:
    torch.manual_seed(0)
    model = AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32).eval()
    for name, weight in model.named_parameters():
        if name.endswith(_PEAKED):
            weight.data *= 8  # Peaked attention, so that a missing token shows.
    return model


def near_caches(model, memory: str = "64MiB", **options) -> EncoderDecoderCache:
    """The decoder's own part lies in the same pool, if its attention has no bias."""
    pool = make_pool(model.config, f"cpu:?memory={memory}", codes="far" in options)
    cross = NearKVCrossCache(pool, rounded=True, **options)
    is_t5 = model.config.model_type == "t5"
    own = RoundingCache() if is_t5 else NearKVCache(pool, window_tokens=64, rounded=True)
    return EncoderDecoderCache(own, cross)


def plain_caches() -> EncoderDecoderCache:
    return EncoderDecoderCache(RoundingCache(), RoundingCache())


def run(model, caches, attention: str, inputs, mask, decoded) -> torch.Tensor:
    """Logits of a first few decoded tokens, and of the others one by one."""
    model.set_attn_implementation(attention)
    steps = [decoded[:, :3], *decoded[:, 3:].split(1, 1)]
    with torch.no_grad():
        encoded = model.get_encoder()(inputs, attention_mask=mask)
        logits = [
            model(
                encoder_outputs=encoded,
                attention_mask=mask,
                decoder_input_ids=some,
                past_key_values=caches,
                use_cache=True,
            ).logits
            for some in steps
        ]
    return torch.cat(logits, 1)


@pytest.mark.parametrize("pads", ["none", "right", "left"])
@pytest.mark.parametrize("name", ENCODERS)
def test_logits_are_those_of_transformers_own_cache(name: str, pads: str) -> None:
    """Inputs of 300, 128 and 30 tokens: pages and a rest, pages alone, a rest alone."""
    model = make_model(ENCODERS[name])
    inputs, decoded = random_tokens(3, 300), random_tokens(3, 90)
    mask = torch.ones_like(inputs)
    if pads != "none":
        for row, length in ((1, 128), (2, 30)):
            hidden = slice(length, None) if pads == "right" else slice(0, 300 - length)
            mask[row, hidden] = 0
    plain = run(model, plain_caches(), "sdpa", inputs, mask, decoded)
    caches = near_caches(model)
    near = run(model, caches, ATTENTION, inputs, mask, decoded)
    cross = caches.cross_attention_cache
    stored = [256, 256, 256] if pads == "none" else [256, 128, 0]
    assert all(layer.stored == stored for layer in cross.layers)
    assert cross.layers[0].counts == ([44, 44, 44] if pads == "none" else [44, 0, 30])
    assert (near - plain).abs().max() < 2e-4 * max(1, plain.abs().max())


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_generate_gives_the_same_tokens_and_beams_share_the_input(name: str) -> None:
    model = make_model(ENCODERS[name])
    inputs = random_tokens(2, 200)
    options = {"max_new_tokens": 30, "do_sample": False, "attention_mask": torch.ones_like(inputs)}
    for beams in (1, 4):
        model.set_attn_implementation("sdpa")
        plain = model.generate(inputs, past_key_values=plain_caches(), num_beams=beams, **options)
        model.set_attn_implementation(ATTENTION)
        caches = near_caches(model)
        cross = caches.cross_attention_cache
        near = model.generate(inputs, past_key_values=caches, num_beams=beams, **options)
        assert torch.equal(near, plain)
        heads, layers = cross.pool.kv_heads, cross.pool.layers
        # 30 decoded tokens fill no page: all are the inputs', each once.
        assert cross.pool.usage().pages == 2 * 3 * heads * layers
        assert len(cross.layers[0].stored) == 2 * beams
        cross.close()
        assert cross.pool.usage().pages == 0


def test_copies_share_pages_and_go_on_alone() -> None:
    model = make_model(ENCODERS["bart"])
    inputs, decoded = random_tokens(1, 200), random_tokens(1, 20)
    mask = torch.ones_like(inputs)
    caches = near_caches(model)
    run(model, caches, ATTENTION, inputs, mask, decoded[:, :5])
    pages = caches.cross_attention_cache.pool.usage().pages
    other = copy.deepcopy(caches)
    assert other.cross_attention_cache.pool.usage().pages == pages
    logits = [run(model, one, ATTENTION, inputs, mask, decoded[:, 5:]) for one in (caches, other)]
    assert torch.equal(*logits)
    caches.cross_attention_cache.close()
    again = run(model, other, ATTENTION, inputs, mask, decoded[:, :4])
    assert again.isfinite().all()


def test_another_input_after_a_reset() -> None:
    model = make_model(ENCODERS["bart"])
    decoded = random_tokens(1, 6)
    caches = near_caches(model)
    for length in (200, 90):
        inputs = random_tokens(1, length)
        mask = torch.ones_like(inputs)
        near = run(model, caches, ATTENTION, inputs, mask, decoded)
        plain = run(model, plain_caches(), "sdpa", inputs, mask, decoded)
        assert (near - plain).abs().max() < 2e-4
        caches.reset()
        assert caches.cross_attention_cache.pool.usage().pages == 0


def test_less_may_be_read() -> None:
    model = make_model(ENCODERS["bart"])
    inputs, decoded = random_tokens(1, 2500), random_tokens(1, 10)
    mask, read, logits = torch.ones_like(inputs), [], []
    for far in (FarAttention(), FarAttention(mode=AttendMode.TAIL, top_k=16)):
        caches = near_caches(model, far=far)
        logits.append(run(model, caches, ATTENTION, inputs, mask, decoded))
        read.append(caches.cross_attention_cache.pool.stats().near_bytes)
    assert 0 < read[1] < read[0]
    assert 0 < (logits[1] - logits[0]).norm() / logits[0].norm() < 0.1


def test_what_it_cannot_do_is_refused() -> None:
    model = make_model(ENCODERS["bart"])
    inputs, decoded = random_tokens(1, 100), random_tokens(1, 4)
    mask = torch.ones_like(inputs)
    caches = near_caches(model)
    run(model, caches, ATTENTION, inputs, mask, decoded)
    shorter = mask.clone()
    shorter[:, 90:] = 0
    with pytest.raises(ValueError, match="mask of the encoder's input has changed"):
        run(model, caches, ATTENTION, inputs, shorter, decoded)
    holes = mask.clone()
    holes[:, 50:60] = 0
    with pytest.raises(ValueError, match="in the middle"):
        run(model, near_caches(model), ATTENTION, inputs, holes, decoded)
    with pytest.raises(RuntimeError, match="set_attn_implementation"):
        own = EncoderDecoderCache(DynamicCache(), near_caches(model).cross_attention_cache)
        run(model, own, "sdpa", inputs, mask, decoded)
    pool = make_pool(model.config, "cpu:?memory=64MiB")
    with pytest.raises(ValueError, match="rounded=True"):
        run(
            model,
            EncoderDecoderCache(DynamicCache(), NearKVCrossCache(pool)),
            ATTENTION,
            inputs,
            mask,
            decoded,
        )
    with pytest.raises(Error) as failure:
        run(
            model,
            near_caches(model, "4MiB"),
            ATTENTION,
            random_tokens(64, 500),
            torch.ones(64, 500, dtype=torch.long),
            random_tokens(64, 4),
        )
    assert failure.value.status == Status.POOL_FULL
