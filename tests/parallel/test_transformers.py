"""Models of transformers whose tokens are spread over ranks: the tokens that one process gives."""

from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
from transformers import DynamicCache, PreTrainedConfig

from bench.ranks.world import World
from nearkv.parallel import Hybrid, Links, Ring, Sharding, TokenRing, Ulysses
from tests.engines.transformers_models import (
    CONFIGS,
    make_model,
    plain_attention,
    random_tokens,
)

MODELS = [name for name in CONFIGS if "latents" not in name]
PROMPT, GENERATED = 150, 12


def algorithm_of(name: str, links: Links, config: PreTrainedConfig) -> Any:
    heads = config.num_attention_heads
    return {
        "ring": lambda: Ring(links),
        "token_ring": lambda: TokenRing(links),
        "ulysses": lambda: Ulysses(links, heads=heads),
        "hybrid": lambda: Hybrid(links, heads=heads, ulysses=2, ring=TokenRing),
    }[name]()


def generate(links: Links, model_name: str, algorithm: str, uri: str, ranks: int) -> Any:
    """Tokens beside those of one process, and the worst difference of logits."""
    from nearkv.parallel.transformers import spread

    config = CONFIGS[model_name]
    # float32, for greedy tokens would turn on the last bit of bf16; what a pool rounds is rounded
    # for both.
    model = make_model(config, torch.bfloat16 if uri else torch.float32)
    prompt = random_tokens(2, PROMPT)
    inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    options = {"max_new_tokens": GENERATED, "do_sample": False, "return_dict_in_generate": True}
    options |= {"output_logits": True}
    model.set_attn_implementation(plain_attention(config))
    plain = model.generate(**inputs, **options, past_key_values=DynamicCache())
    pool = None
    if uri and links.rank == links.size - 1:
        from nearkv.transformers import make_pool

        pool = make_pool(config, uri)
    with spread(model, algorithm_of(algorithm, links, config), pool=pool) as cache:
        ours = model.generate(**inputs, **options, past_key_values=cache)
        held = cache.layers[0].kept
        stored = pool.usage().pages if pool else 0
    assert model.config._attn_implementation == plain_attention(config)
    pairs = zip(plain.logits, ours.logits, strict=True)
    return {
        "tokens": ours.sequences.tolist(),
        "plain": plain.sequences.tolist(),
        "difference": max(float((a - b).abs().max() / a.abs().max()) for a, b in pairs),
        "held": held.sharding.counts,
        "pages": stored,
        "left": pool.usage().pages if pool else 0,
    }


def check(answers: list[dict[str, Any]], tolerance: float) -> None:
    assert all(answer["tokens"] == answers[0]["tokens"] for answer in answers)
    assert answers[0]["tokens"] == answers[0]["plain"]
    assert max(answer["difference"] for answer in answers) < tolerance


@pytest.mark.parametrize("algorithm", ["ring", "token_ring", "ulysses", "hybrid"])
@pytest.mark.parametrize("model", MODELS)
def test_the_same_tokens(world: World, model: str, algorithm: str) -> None:
    answers = world.run(generate, model, algorithm, "", 4)
    check(answers, 1e-4)
    if "ring" in algorithm:
        # The prompt, and generated tokens but the last, as even as they can be.
        held = answers[0]["held"]
        assert sum(held) == PROMPT + GENERATED - 1
        assert max(held) - min(held) <= 1


@pytest.mark.parametrize("ranks", [1, 3])
def test_other_numbers_of_ranks(world: World, ranks: int) -> None:
    check(world.run(generate, MODELS[1], "token_ring", "", ranks, ranks=ranks), 1e-4)


@pytest.mark.parametrize("uri", ["cpu:?memory=64MiB", "model:?memory=64MiB"])
def test_a_rank_keeps_k_and_v_in_a_pool(world: World, uri: str) -> None:
    pytest.importorskip("nearkv.core", exc_type=ImportError)
    answers = world.run(generate, MODELS[1], "token_ring", uri, 2, ranks=2)
    assert answers[1]["pages"] > 0
    assert answers[1]["left"] == 0
    # bf16 rounds at every layer, here and there at other places.
    assert max(answer["difference"] for answer in answers) < 0.05
    assert answers[0]["tokens"] == answers[1]["tokens"]


def all_logits(links: Links) -> float:
    """Without logits_to_keep, in two calls: every rank has all logits, in order."""
    from nearkv.parallel.transformers import spread

    model = make_model(CONFIGS[MODELS[1]], torch.float32)
    tokens = random_tokens(2, 60)
    with torch.no_grad():
        plain = model(input_ids=tokens).logits
        with spread(model, Ring(links), split=Sharding.striped) as cache:
            parts = [
                model(input_ids=tokens[:, part], past_key_values=cache).logits
                for part in (slice(0, 37), slice(37, 60))
            ]
    return float((torch.cat(parts, 1) - plain).abs().max() / plain.abs().max())


def test_all_logits_in_chunks(world: World) -> None:
    assert max(world.run(all_logits)) < 1e-4


def refusals(links: Links) -> list[str]:
    from nearkv.parallel.transformers import spread

    model = make_model(CONFIGS[MODELS[1]], torch.float32)
    tokens = random_tokens(1, 20)
    mask = torch.ones_like(tokens)
    mask[:, 0] = 0
    said = []
    with spread(model, Ring(links)) as cache:
        for inputs in (
            {"input_ids": tokens},
            {"input_ids": tokens, "past_key_values": cache, "attention_mask": mask},
            {"input_ids": tokens, "past_key_values": cache, "labels": tokens},
            {"input_ids": tokens, "past_key_values": cache},
        ):
            try:
                model(**inputs)
            except (ValueError, RuntimeError) as error:
                said.append(str(error))
    latents = make_model(CONFIGS["deepseek v2, latents"], torch.float32)
    try:
        with spread(latents, Ring(links)):
            pass
    except ValueError as error:
        said.append(str(error))
    return said


def test_what_it_cannot_do_is_refused(world: World) -> None:
    (said,) = world.run(refusals, ranks=1)
    wanted = ["name all inputs", "without padding", "without labels", "without gradients"]
    for text, part in zip(said, [*wanted, "caches latents"], strict=True):
        assert part in text
