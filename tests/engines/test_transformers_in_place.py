"""Models of transformers over a static cache: NearKV's kernels read it in place."""

import pytest
import torch
from transformers import StaticCache

pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.transformers import ATTENTION, attention
from tests.engines.transformers_models import (
    CONFIGS,
    make_model,
    plain_attention,
    random_tokens,
    run_logits,
)

STEPS = [240, *[1] * 20]
# K and V of latents have not the same channels; sdpa, which attends to prompts, has no soft cap.
ROWS = [name for name in CONFIGS if "latents" not in name and "soft cap" not in name]


@pytest.fixture
def plain_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many queries a sequence had, of each call that was left to torch's attention."""
    queries: list[int] = []
    own = attention.sdpa_attention_forward

    def counted(module, query, *arguments, **options):
        queries.append(query.shape[2])
        return own(module, query, *arguments, **options)

    monkeypatch.setattr(attention, "sdpa_attention_forward", counted)
    return queries


def static_cache(model, tokens: int = 320) -> StaticCache:
    return StaticCache(config=model.config, max_cache_len=tokens)


@pytest.mark.parametrize("name", ROWS)
def test_logits_are_those_of_transformers_own_attention(name: str, plain_calls) -> None:
    """In float32: within 2e-5 (absolute; the largest are about 1)."""
    model = make_model(CONFIGS[name], torch.float32)
    tokens = random_tokens(2, 260)
    own = plain_attention(CONFIGS[name])
    plain = run_logits(model, static_cache(model), own, tokens, STEPS)
    near = run_logits(model, static_cache(model), ATTENTION, tokens, STEPS)
    assert (near - plain).abs().max() < 2e-5
    # A window's layer keeps so many tokens: blocks of 16 or not.
    window = getattr(model.config, "sliding_window", None) or 0
    assert (1 in plain_calls) == (window % 16 > 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_good_as_plain(dtype: torch.dtype, plain_calls) -> None:
    config = CONFIGS["llama, groups of 2"]
    tokens = random_tokens(2, 260)
    exact = run_logits(
        exact_model := make_model(config, dtype).float(),
        static_cache(exact_model),
        "sdpa",
        tokens,
        STEPS,
    )
    model = make_model(config, dtype)
    plain, near = (
        run_logits(model, static_cache(model), how, tokens, STEPS) for how in ("sdpa", ATTENTION)
    )
    assert 1 not in plain_calls
    assert (near - exact).abs().max() <= 1.5 * (plain - exact).abs().max()
    assert (near - exact).abs().mean() <= 1.2 * (plain - exact).abs().mean()


def test_padding_on_the_left_is_not_seen(plain_calls) -> None:
    model = make_model(CONFIGS["qwen3, groups of 4"], torch.float32)
    tokens = random_tokens(3, 260)
    mask = torch.ones_like(tokens)
    mask[1, :37] = mask[2, :200] = 0
    plain, near = (
        run_logits(model, static_cache(model), how, tokens, STEPS, mask=mask)
        for how in ("sdpa", ATTENTION)
    )
    assert 1 not in plain_calls
    assert (near - plain)[:, 240:].abs().max() < 2e-5


def test_a_mask_with_holes_is_left_to_torch(plain_calls) -> None:
    model = make_model(CONFIGS["llama, groups of 2"], torch.float32)
    tokens = random_tokens(1, 260)
    mask = torch.ones_like(tokens)
    mask[0, 100:110] = 0
    plain, near = (
        run_logits(model, static_cache(model), how, tokens, STEPS, mask=mask)
        for how in ("sdpa", ATTENTION)
    )
    assert plain_calls.count(1) == 20 * model.config.num_hidden_layers
    assert (near - plain).abs().max() < 2e-5


def test_nothing_beyond_the_cache_is_read(plain_calls) -> None:
    """The last tokens of a cache whose size is no multiple of a block are left to torch."""
    model = make_model(CONFIGS["llama, groups of 2"], torch.float32)
    tokens = random_tokens(1, 260)
    plain, near = (
        run_logits(model, static_cache(model, 260), how, tokens, STEPS)
        for how in ("sdpa", ATTENTION)
    )
    assert plain_calls.count(1) == 4 * model.config.num_hidden_layers
    assert (near - plain).abs().max() < 2e-5


def test_a_mask_that_is_written_anew_is_read_anew(plain_calls) -> None:
    """The caller's own mask of the whole cache, one tensor for all steps."""
    model = make_model(CONFIGS["llama, groups of 2"], torch.float32)
    tokens = random_tokens(1, 260)
    answers = []
    for how in ("sdpa", ATTENTION):
        cache = static_cache(model)
        run_logits(model, cache, how, tokens[:, :240], [240])
        mask = torch.zeros(1, 1, 1, 320, dtype=torch.bool)
        with torch.inference_mode():
            for position in range(240, 260):
                mask[..., : position + 1] = True
                mask[..., : position - 200] = False
                token = tokens[:, position : position + 1]
                output = model(token, past_key_values=cache, attention_mask=mask)
        answers.append(output.logits)
    assert 1 not in plain_calls
    assert (answers[0] - answers[1]).abs().max() < 2e-5


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options) -> torch.Tensor:
    layer = torch.nn.Module()
    return attention.nearkv_attention_forward(layer, query, key, value, None, **options)[0]


def test_gradients_are_left_to_torch(plain_calls) -> None:
    query, key = torch.randn(1, 4, 1, 16), torch.randn(1, 4, 64, 16)
    value = torch.randn(1, 4, 64, 16, requires_grad=True)
    attend(query, key, value).sum().backward()
    assert plain_calls == [1]
    assert value.grad is not None and value.grad.any()
    with torch.no_grad():
        attend(query, key, value)
    assert plain_calls == [1]


@pytest.mark.parametrize(
    ("query", "rows"), [((1, 4, 1, 16), (1, 4, 0, 16)), ((1, 1, 1, 16), (1, 4, 64, 16))]
)
def test_odd_shapes_are_left_to_torch(query, rows, plain_calls) -> None:
    attend(torch.ones(query), torch.ones(rows), torch.ones(rows))
    assert plain_calls == [1]


def test_compiled_calls_are_plain_attention_in_one_graph() -> None:
    parts = torch.randn(1, 4, 1, 16), torch.randn(1, 4, 64, 16), torch.randn(1, 4, 64, 16)
    bias = torch.zeros(1, 4, 1, 64)
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(*parts, position_bias=bias), attend(*parts), atol=1e-6)
