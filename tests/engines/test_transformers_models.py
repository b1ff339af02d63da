"""Models of transformers with a NearKVCache and without: Llama, Mistral, Qwen, Gemma, DeepSeek."""

import pytest
import torch
from transformers import DynamicCache, LlamaConfig

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import AttendMode, Device, Status  # noqa: E402
from nearkv.transformers import ATTENTION, FarAttention, NearKVCache, make_pool  # noqa: E402
from tests.engines.transformers_models import (  # noqa: E402
    CONFIGS,
    SMALL,
    RoundingCache,
    make_model,
    near_cache,
    plain_attention,
    random_tokens,
    run_logits,
)

STEPS = [240, 1, 1, 7, 1, *[10] * 5]
FIXED = {"max_tokens": 384}
"""Options of a cache of fixed shapes."""


def assert_as_good(near: torch.Tensor, plain: torch.Tensor, exact: torch.Tensor) -> None:
    """NearKV's logits lie no further from those of fp32 than the plain run's own rounding."""
    rounding = (plain - exact).abs()
    assert (near - exact).abs().max() <= 1.5 * rounding.max() + 1e-3
    assert (near - exact).abs().mean() <= 1.2 * rounding.mean() + 1e-4


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_those_of_transformers_own_attention(name: str) -> None:
    """In float32, of K and V rounded alike: within 2e-4 (absolute; the largest are about 1)."""
    model = make_model(CONFIGS[name], torch.float32)
    tokens = random_tokens(1, 300)
    plain = run_logits(model, RoundingCache(), plain_attention(CONFIGS[name]), tokens, STEPS)
    for options in ({}, FIXED):
        cache = near_cache(model, window_tokens=64, rounded=True, **options)
        near = run_logits(model, cache, ATTENTION, tokens, STEPS)
        assert cache.pool.usage().pages > 0
        asks_pool = "shorter than what stays" not in name
        assert (cache.pool.stats().commands > 3 * len(STEPS)) == asks_pool
        assert (near - plain).abs().max() < 2e-4


@pytest.mark.parametrize("device", ["cpu:?memory=64MiB", "model:?memory=64MiB"])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_as_good_as_plain(name: str, device: str) -> None:
    """In bfloat16."""
    model = make_model(CONFIGS[name])
    exact_model = make_model(CONFIGS[name]).float()
    tokens = random_tokens(1, 300)
    near = run_logits(model, near_cache(model, device, window_tokens=64), ATTENTION, tokens, STEPS)
    attention = plain_attention(CONFIGS[name])
    plain = run_logits(model, DynamicCache(), attention, tokens, STEPS)
    exact = run_logits(exact_model, DynamicCache(), attention, tokens, STEPS)
    assert_as_good(near, plain, exact)


@pytest.mark.parametrize("options", [{}, FIXED])
@pytest.mark.parametrize("name", ["llama, groups of 2", "deepseek v3, latents"])
def test_batches_of_different_lengths(name: str, options) -> None:
    config = CONFIGS[name]
    model, exact_model = make_model(config), make_model(config).float()
    tokens = random_tokens(3, 300)
    mask = torch.ones_like(tokens)
    mask[1, :5] = 0
    mask[2, :130] = 0
    steps = [250, 1, 9, *[10] * 4]
    cache = near_cache(model, window_tokens=64, **options)
    near = run_logits(model, cache, ATTENTION, tokens, steps, mask)
    plain = run_logits(model, DynamicCache(), "sdpa", tokens, steps, mask)
    exact = run_logits(exact_model, DynamicCache(), "sdpa", tokens, steps, mask)
    assert cache.pool.usage().sequences == 3
    real = mask.bool()
    assert_as_good(near[real], plain[real], exact[real])


def generate(model, cache, attention: str, **options) -> list[list[int]]:
    model.set_attn_implementation(attention)
    tokens = random_tokens(options.pop("batch", 1), 200)
    mask = torch.ones_like(tokens)
    return model.generate(
        tokens, attention_mask=mask, past_key_values=cache, max_new_tokens=80, **options
    ).tolist()


@pytest.mark.parametrize("fixed", [{}, FIXED])
@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": False},
        {"do_sample": False, "batch": 2},
        {"do_sample": False, "prompt_lookup_num_tokens": 4},
    ],
)
def test_generate_gives_the_same_tokens(options, fixed) -> None:
    # In fp16 and not bf16, whose rounding makes ties, and ties are broken by chance.
    model = make_model(CONFIGS["llama, groups of 2"], torch.float16)
    cache = near_cache(model, window_tokens=64, **fixed)
    near = generate(model, cache, ATTENTION, **options)
    assert cache.pool.stats().commands > 0
    assert near == generate(model, DynamicCache(), "sdpa", **options)


class CountingCache(NearKVCache):
    """Counts the pool's pages after each choice of beams."""

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.pages: list[int] = []

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        super().reorder_cache(beam_idx)
        self.pages.append(self.pool.usage().pages)


@pytest.mark.parametrize("fixed", [{}, FIXED])
def test_beams_share_the_pages_of_what_they_have_in_common(fixed) -> None:
    model = make_model(CONFIGS["llama, groups of 2"], torch.float16)
    pool = make_pool(model.config, "cpu:?memory=64MiB", dtype=torch.float16)
    cache = CountingCache(pool, window_tokens=64, **fixed)
    with cache:
        near = generate(model, cache, ATTENTION, do_sample=False, num_beams=4)
    assert near == generate(model, DynamicCache(), "sdpa", do_sample=False, num_beams=4)
    pages_per_block = pool.layers * pool.kv_heads
    # The prompt's two whole pages before the window once, not four times; then one more or two,
    # which beams that parted before they closed hold apart.
    assert cache.pages[0] == 2 * pages_per_block
    assert max(cache.pages) <= (2 + 4 * 2) * pages_per_block
    assert len(cache.pages) == 80
    assert (pool.usage().pages, pool.usage().sequences) == (0, 0)


@pytest.mark.parametrize(
    "far",
    [
        FarAttention(mode=AttendMode.TAIL, top_k=512),
        FarAttention(mode=AttendMode.BOUNDED, error=0.02),
    ],
)
def test_modes_come_close(far: FarAttention) -> None:
    model = make_model(CONFIGS["qwen3, groups of 4"])
    tokens = random_tokens(1, 2410)
    steps = [2400, *[1] * 10]
    near = run_logits(model, near_cache(model, far=far), ATTENTION, tokens, steps)
    plain = run_logits(model, DynamicCache(), "sdpa", tokens, steps)
    difference = (near - plain)[:, 2400:].norm() / plain[:, 2400:].norm()
    assert 0 < difference < 0.1


def test_a_prompt_may_come_from_another_cache() -> None:
    model = make_model(CONFIGS["llama, groups of 2"], torch.float16)
    tokens = random_tokens(1, 300)
    prompt = DynamicCache()
    run_logits(model, prompt, "sdpa", tokens[:, :290], [290])
    cache = near_cache(model)
    cache.take(prompt)
    assert cache.pool.usage().pages > 0
    near = run_logits(model, cache, ATTENTION, tokens[:, 290:], [1] * 10)
    plain = run_logits(model, prompt, "sdpa", tokens[:, 290:], [1] * 10)
    assert (near - plain).abs().max() < 0.02 * plain.abs().max()


def test_a_prompt_whose_cache_forgot_is_refused() -> None:
    model = make_model(CONFIGS["mistral, one KV head, window 100"])
    prompt = DynamicCache(config=model.config)
    run_logits(model, prompt, "sdpa", random_tokens(1, 300), [300])
    with pytest.raises(ValueError, match="forgotten"):
        near_cache(model).take(prompt)


def test_without_a_cache_of_its_own_it_is_sdpa() -> None:
    model = make_model(CONFIGS["llama, groups of 2"])
    tokens = random_tokens(1, 100)
    runs = [
        run_logits(model, DynamicCache(), name, tokens, [99, 1]) for name in (ATTENTION, "sdpa")
    ]
    assert torch.equal(*runs)


def test_another_attention_is_noticed() -> None:
    model = make_model(CONFIGS["llama, groups of 2"])
    with pytest.raises(RuntimeError, match='set_attn_implementation\\("nearkv"\\)'):
        run_logits(model, near_cache(model), "sdpa", random_tokens(1, 10), [9, 1])


@pytest.mark.parametrize(
    ("config", "dtype", "text"),
    [
        (CONFIGS["llama, groups of 2"], torch.float32, "not torch.float32: load the model so"),
        (LlamaConfig(**SMALL | {"head_dim": 24}), torch.bfloat16, "head_dim is 24"),
        (LlamaConfig(**SMALL | {"head_dim": 592}), torch.bfloat16, "up to 576"),
        (
            LlamaConfig(**SMALL, num_kv_shared_layers=1),
            torch.bfloat16,
            "share K and V",
        ),
    ],
)
def test_models_that_do_not_fit_are_refused(config, dtype, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_pool(config, dtype=dtype)


def test_a_full_pool_says_so() -> None:
    model = make_model(CONFIGS["llama, a KV head per head"])
    device = Device("cpu:?memory=4MiB")
    cache = NearKVCache(make_pool(model.config, device, max_sequences=2))
    with pytest.raises(core.Error, match="open a larger pool") as failure:
        run_logits(model, cache, ATTENTION, random_tokens(1, 4000), [4000])
    assert failure.value.status == Status.POOL_FULL
