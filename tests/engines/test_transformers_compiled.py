"""Models of transformers that are compiled, over a NearKVCache of fixed shapes."""

import pytest
import torch
from transformers import CompileConfig, DynamicCache

pytest.importorskip("nearkv.core", exc_type=ImportError)
from torch._dynamo.utils import counters

from nearkv.transformers import ATTENTION
from tests.engines.transformers_models import (
    CONFIGS,
    RoundingCache,
    make_model,
    near_cache,
    plain_attention,
    random_tokens,
    run_logits,
)

TOKENS = 320
# A prompt, and decoding over a border of pages, in both rows.
STEPS = [230, *[1] * 40]
MASK = torch.ones(2, sum(STEPS), dtype=torch.long)
MASK[1, :130] = 0


def forget_graphs() -> None:
    torch._dynamo.reset()
    counters.clear()


def graphs() -> int:
    return counters["stats"]["unique_graphs"]


def check_decoding(name: str, compiler: str, caches: int) -> None:
    """Decodes by one graph, with one cache after the other, and compares logits with plain ones."""
    forget_graphs()
    model = make_model(CONFIGS[name], torch.float32)
    tokens = random_tokens(*MASK.shape)
    attention = plain_attention(CONFIGS[name])
    plain = run_logits(model, RoundingCache(), attention, tokens, STEPS, MASK)
    decode = torch.compile(model.forward, fullgraph=True, backend=compiler)
    mask = Whole(torch.nn.functional.pad(MASK, (0, TOKENS - MASK.shape[1])))
    for _ in range(caches):
        with near_cache(model, window_tokens=64, max_tokens=TOKENS, rounded=True) as cache:
            near = run_logits(model, cache, ATTENTION, tokens, STEPS, mask, decode=decode)
            assert cache.layers[-1].stored == [192, 64]
        assert (near - plain).abs()[MASK.bool()].max() < 2e-4
    assert graphs() == 1


class Whole:
    """A mask that is given to every step whole, as its shape is not to change."""

    def __init__(self, mask: torch.Tensor) -> None:
        self._mask = mask

    def __getitem__(self, _: object) -> torch.Tensor:
        return self._mask


@pytest.mark.parametrize(
    ("name", "caches"),
    [("llama, groups of 2", 2), ("gemma2, soft cap and windows", 1), ("deepseek v3, latents", 1)],
)
def test_decoding_is_one_graph_that_is_compiled_once(name: str, caches: int) -> None:
    check_decoding(name, "aot_eager", caches)


# The one in whose graph a layer's two operators were turned around, and, in long tests, the others.
LATENTS = "deepseek v3, latents"
EACH = [LATENTS, *(pytest.param(one, marks=pytest.mark.long) for one in CONFIGS if one != LATENTS)]


@pytest.mark.parametrize("name", EACH)
def test_inductor_compiles_each_model(name: str) -> None:
    check_decoding(name, "inductor", 1)


def test_generate_compiles_by_itself() -> None:
    model = make_model(CONFIGS["llama, groups of 2"], torch.float16)
    tokens = random_tokens(1, 200)
    options = {"attention_mask": torch.ones_like(tokens), "max_new_tokens": 40, "do_sample": False}
    plain = model.generate(tokens, past_key_values=DynamicCache(), **options)
    how = CompileConfig(fullgraph=True, backend="aot_eager", mode=None)
    how._compile_all_devices = True  # Without, transformers compiles for accelerators alone.
    model.set_attn_implementation(ATTENTION)
    forget_graphs()
    with near_cache(model, window_tokens=64, max_tokens=TOKENS) as cache:
        near = model.generate(tokens, past_key_values=cache, compile_config=how, **options)
        assert cache.pool.stats().commands > 0
    assert torch.equal(near, plain)
    assert graphs() == 1


def test_a_cache_that_grows_works_too_but_breaks_the_graph() -> None:
    forget_graphs()
    model = make_model(CONFIGS["llama, groups of 2"], torch.float32)
    tokens, steps = random_tokens(1, 300), [290, *[1] * 10]
    plain = run_logits(model, RoundingCache(), "sdpa", tokens, steps)
    decode = torch.compile(model.forward, backend="eager")
    with near_cache(model, window_tokens=64, rounded=True) as cache:
        near = run_logits(model, cache, ATTENTION, tokens, steps, decode=decode)
    assert (near - plain).abs().max() < 2e-4


def test_more_tokens_than_a_cache_was_made_for_are_refused() -> None:
    forget_graphs()
    model = make_model(CONFIGS["llama, groups of 2"])
    tokens = random_tokens(1, 300)
    decode = torch.compile(model.forward, fullgraph=True, backend="aot_eager")
    with near_cache(model, max_tokens=299) as cache, pytest.raises(ValueError, match="max_tokens"):
        run_logits(model, cache, ATTENTION, tokens, [300])
    with near_cache(model, max_tokens=299) as cache:
        with pytest.raises(ValueError, match="max_tokens"):
            run_logits(model, cache, ATTENTION, tokens, [298, 1, 1], decode=decode)
        with pytest.raises(RuntimeError, match="reset"):
            run_logits(model, cache, ATTENTION, tokens, [1], decode=decode)
