"""Models of transformers, small and random, with a NearKVCache and without."""

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Gemma2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import AttendMode, Device, Status  # noqa: E402
from nearkv.transformers import ATTENTION, FarAttention, NearKVCache, make_pool  # noqa: E402

pytestmark = pytest.mark.default

SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "head_dim": 16,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
WINDOWED = {"use_sliding_window": True, "sliding_window": 90, "max_window_layers": 1}
CONFIGS = {
    "llama, a KV head per head": LlamaConfig(**SMALL, num_key_value_heads=8),
    "llama, groups of 2": LlamaConfig(**SMALL, num_key_value_heads=4),
    "qwen3, groups of 4": Qwen3Config(**SMALL, num_key_value_heads=2),
    "mistral, one KV head, window 100": MistralConfig(
        **SMALL, num_key_value_heads=1, sliding_window=100
    ),
    "mistral, window shorter than what stays here": MistralConfig(
        **SMALL, num_key_value_heads=2, sliding_window=30
    ),
    "qwen2, some layers windowed": Qwen2Config(
        **{key: value for key, value in SMALL.items() if key != "head_dim"} | {"hidden_size": 128},
        num_key_value_heads=4,
        **WINDOWED,
    ),
    "gemma2, soft cap and windows": Gemma2Config(
        **SMALL, num_key_value_heads=4, sliding_window=80, attn_logit_softcapping=5.0
    ),
}


def make_model(config: PreTrainedConfig, dtype: torch.dtype = torch.bfloat16) -> torch.nn.Module:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).to(dtype).eval()
    for name, weight in model.named_parameters():
        if "q_proj.weight" in name or "k_proj.weight" in name:
            weight.data *= 8  # Peaked attention, so that a missing token shows.
    return model


def near_cache(model: torch.nn.Module, device: str = "cpu:?memory=64MiB", **options) -> NearKVCache:
    return NearKVCache(make_pool(model.config, device, dtype=model.dtype), **options)


def run_logits(model, cache, attention: str, tokens: torch.Tensor, steps: list[int], mask=None):
    """Logits of every token, `steps` tokens at a time."""
    model.set_attn_implementation(attention)
    logits, begin = [], 0
    with torch.no_grad():
        for count in steps:
            end = begin + count
            seen = {} if mask is None else {"attention_mask": mask[:, :end]}
            result = model(tokens[:, begin:end], past_key_values=cache, use_cache=True, **seen)
            logits.append(result.logits.float())
            begin = end
    return torch.cat(logits, 1)


def random_tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(1, 97, (batch, length), generator=torch.Generator().manual_seed(4))


def assert_as_good(near: torch.Tensor, plain: torch.Tensor, exact: torch.Tensor) -> None:
    """NearKV's logits lie no further from those of fp32 than the plain run's own rounding."""
    rounding = (plain - exact).abs()
    assert (near - exact).abs().max() <= 1.5 * rounding.max() + 1e-3
    assert (near - exact).abs().mean() <= 1.2 * rounding.mean() + 1e-4


@pytest.mark.parametrize("device", ["cpu:?memory=64MiB", "model:?memory=64MiB"])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_as_good_as_plain(name: str, device: str) -> None:
    model = make_model(CONFIGS[name])
    exact_model = make_model(CONFIGS[name]).float()
    plain_attention = "eager" if "soft cap" in name else "sdpa"
    tokens = random_tokens(1, 300)
    steps = [240, 1, 1, 7, 1, *[10] * 5]
    cache = near_cache(model, device, window_tokens=64)
    near = run_logits(model, cache, ATTENTION, tokens, steps)
    plain = run_logits(model, DynamicCache(config=model.config), plain_attention, tokens, steps)
    exact = run_logits(
        exact_model, DynamicCache(config=model.config), plain_attention, tokens, steps
    )
    assert cache.pool.usage().pages > 0
    asks_pool = "shorter than what stays" not in name
    assert (cache.pool.stats().commands > 3 * len(steps)) == asks_pool
    assert_as_good(near, plain, exact)


def test_batches_of_different_lengths() -> None:
    config = CONFIGS["llama, groups of 2"]
    model, exact_model = make_model(config), make_model(config).float()
    tokens = random_tokens(3, 300)
    mask = torch.ones_like(tokens)
    mask[1, :5] = 0
    mask[2, :130] = 0
    steps = [250, 1, 9, *[10] * 4]
    cache = near_cache(model, window_tokens=64)
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


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": False},
        {"do_sample": False, "batch": 2},
        {"do_sample": False, "num_beams": 3},
        {"do_sample": False, "prompt_lookup_num_tokens": 4},
    ],
)
def test_generate_gives_the_same_tokens(options) -> None:
    # In fp16 and not bf16, whose rounding makes ties, and ties are broken by chance.
    model = make_model(CONFIGS["llama, groups of 2"], torch.float16)
    cache = near_cache(model, window_tokens=64)
    near = generate(model, cache, ATTENTION, **options)
    assert cache.pool.stats().commands > 0
    assert near == generate(model, DynamicCache(), "sdpa", **options)


@pytest.mark.parametrize(
    "far",
    [
        FarAttention(mode=AttendMode.TAIL, top_k=64),
        FarAttention(mode=AttendMode.BOUNDED, error=0.02),
    ],
)
def test_modes_come_close(far: FarAttention) -> None:
    model = make_model(CONFIGS["qwen3, groups of 4"])
    tokens = random_tokens(1, 400)
    steps = [390, *[1] * 10]
    near = run_logits(model, near_cache(model, far=far), ATTENTION, tokens, steps)
    plain = run_logits(model, DynamicCache(), "sdpa", tokens, steps)
    difference = (near - plain)[:, 390:].norm() / plain[:, 390:].norm()
    assert 0 < difference < 0.1


def test_a_float32_model_may_round_its_cache() -> None:
    model = make_model(CONFIGS["llama, groups of 2"]).float()
    tokens = random_tokens(1, 300)
    steps = [250, *[1] * 50]
    pool = make_pool(model.config, "cpu:?memory=64MiB", dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="rounded=True"):
        run_logits(model, NearKVCache(pool), ATTENTION, tokens, steps)
    near = run_logits(model, NearKVCache(pool, rounded=True), ATTENTION, tokens, steps)
    plain = run_logits(model, DynamicCache(), "sdpa", tokens, steps)
    difference = (near - plain).norm() / plain.norm()
    assert 0 < difference < 0.02


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
    with pytest.raises(RuntimeError, match="set_attn_implementation"):
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
