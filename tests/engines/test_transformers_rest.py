"""Caches of transformers that rest: 4 bits per number in the pool between two turns."""

import pytest
import torch
from transformers import DeepseekV3Config, JambaConfig, LlamaConfig

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import Codec, Error, Status  # noqa: E402
from nearkv.transformers import ATTENTION  # noqa: E402
from tests.engines.transformers_models import (  # noqa: E402
    CONFIGS,
    HYBRIDS,
    LATENT,
    SMALL,
    make_model,
    near_cache,
    random_tokens,
    run_logits,
)

# Most bytes of a page, of those of one at work. Rows of random weights have little to compress but
# exponents, of which a page at work has some bits less, too.
LOSSLESS = {Codec.PLANES_LZ4: 1.1, Codec.PLANES_ZSTD: 1.05}
# With the most distance of logits, of their norm.
LOSSY = {Codec.INT8: (0.85, 0.02), Codec.INT4: (0.45, 0.2), Codec.FP8: (0.85, 0.1)}
# Rows so wide that a page is many grains of the pool: only then do codecs' bytes show.
MODELS = {
    "llama, groups of 2": LlamaConfig(**SMALL | {"head_dim": 64}, num_key_value_heads=4),
    "deepseek v3, latents": DeepseekV3Config(
        **LATENT | {"kv_lora_rank": 192, "qk_rope_head_dim": 64}, q_lora_rank=32
    ),
    "jamba, mamba and attention": JambaConfig(
        **HYBRIDS["jamba, mamba and attention"].to_dict()
        | {"num_attention_heads": 1, "num_key_value_heads": 1}
    ),
}


def turns(model, codec: Codec | None, tokens: torch.Tensor, **options) -> tuple[torch.Tensor, dict]:
    """Logits of a second turn after a rest, and the bytes of pages before it and in it."""
    with near_cache(model, window_tokens=64, rounded=True, **options) as cache:
        run_logits(model, cache, ATTENTION, tokens[:, :500], [500])
        held = {"warm": cache.pool.usage().page_bytes}
        if codec is not None:
            cache.rest(codec)
            held["cold"] = cache.pool.usage().page_bytes
        logits = run_logits(model, cache, ATTENTION, tokens[:, 500:], [1] * 10)
        assert cache.pool.usage().page_bytes == held["warm"]  # It wakes by itself.
    return logits, held


@pytest.mark.parametrize("name", MODELS)
def test_a_rest_costs_what_its_codec_says(name: str) -> None:
    model = make_model(MODELS[name], torch.float32)
    tokens = random_tokens(1, 510)
    plain, _ = turns(model, None, tokens)
    for codec, most_bytes in LOSSLESS.items():
        logits, held = turns(model, codec, tokens)
        print(f"{name}, {codec.name}: {held['cold'] / held['warm']:.3f} of the bytes")
        assert torch.equal(logits, plain)
        assert held["cold"] < most_bytes * held["warm"]
    for codec, (most_bytes, most_error) in LOSSY.items():
        logits, held = turns(model, codec, tokens)
        error = float((logits - plain).norm() / plain.norm())
        print(f"{name}, {codec.name}: {held['cold'] / held['warm']:.3f} of the bytes, {error:.4f}")
        assert 0 < error < most_error
        assert held["cold"] < most_bytes * held["warm"]


@pytest.mark.parametrize("options", [{}, {"max_tokens": 600}])
def test_forks_rest_together_and_wake_alone(options) -> None:
    model = make_model(CONFIGS["llama, groups of 2"], torch.float32)
    tokens = random_tokens(1, 510)
    with near_cache(model, window_tokens=64, rounded=True, **options) as cache:
        run_logits(model, cache, ATTENTION, tokens[:, :500], [500])
        other = cache.fork()
        cache.rest(Codec.INT4)
        cache.rest(Codec.INT4)  # What rests already stays as it is.
        first, second = (
            run_logits(model, one, ATTENTION, tokens[:, 500:], [1] * 10) for one in (other, cache)
        )
        assert torch.equal(first, second)
        cache.rest(Codec.INT4)
        cache.crop(-200)  # Reads back what no whole page holds.
        assert cache.get_seq_length() == 310
        other.close()


def test_more_rests_round_again_but_little() -> None:
    """A group's scale is rounded up each time, so that what lies on its grid moves a bit."""
    model = make_model(CONFIGS["llama, groups of 2"], torch.float32)
    with near_cache(model, window_tokens=64, rounded=True) as cache:
        run_logits(model, cache, ATTENTION, random_tokens(1, 500), [500])
        exact = cache.layers[0].rows(0, 384)
        errors = []
        for _ in range(5):
            cache.rest(Codec.INT4)
            rows = cache.layers[0].rows(0, 384)
            off = [(one.float() - two.float()).norm() for one, two in zip(exact, rows, strict=True)]
            errors.append([float(o / e.float().norm()) for o, e in zip(off, exact, strict=True)])
    print("relative error of K and V after each rest:", [[f"{e:.4f}" for e in es] for es in errors])
    for first, last in zip(errors[0], errors[-1], strict=True):
        assert 0 < last < 1.5 * first


def test_a_pool_of_fp16_says_that_it_cannot() -> None:
    model = make_model(CONFIGS["llama, groups of 2"], torch.float16)
    with near_cache(model, window_tokens=64) as cache:
        run_logits(model, cache, ATTENTION, random_tokens(1, 300), [300])
        with pytest.raises(Error) as failure:
            cache.rest(Codec.INT4)
        assert failure.value.status in (Status.BAD_PAGE, Status.UNSUPPORTED)
        run_logits(model, cache, ATTENTION, random_tokens(1, 10), [1] * 10)
