"""Models of transformers with sparse attention (DSA): latents and indexer keys lie in pools."""

import copy
from collections.abc import Callable

import pytest
import torch
from transformers import DeepseekV32Config, DynamicCache

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import Error, Status  # noqa: E402
from nearkv.transformers import (  # noqa: E402
    ATTENTION,
    NearKVSparseCache,
    make_sparse_latents,
)
from nearkv.transformers.indexer import IndexerQuery, KeysElsewhere  # noqa: E402
from tests.engines.transformers_models import (  # noqa: E402
    CONFIGS,
    INDEXED,
    SPARSE,
    RoundingCache,
    make_model,
    random_tokens,
    run_logits,
)

STEPS = [240, 1, 1, 7, 1, *[10] * 5]
V32 = SPARSE["deepseek v3.2"]
POOL = "cpu:?memory=64MiB"


def sparse_cache(model, device: str = POOL, **options) -> NearKVSparseCache:
    rounded = model.dtype == torch.float32
    store = make_sparse_latents(
        model.config, device, device, dtype=torch.bfloat16 if rounded else model.dtype
    )
    return NearKVSparseCache(store, rounded=rounded, **options)


def plain_cache(model) -> RoundingCache:
    return RoundingCache(config=model.config)


def run_alike(
    model, near: Callable[[], torch.Tensor], plain: Callable[[], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """What both runs give, the plain one on what NearKV picked, which it judges by its own scores.

    Each with its own picks they would part where two scores lie within the rounding of float32.
    """
    indexers = [layer.self_attn.indexer for layer in model.model.layers]
    picks: list[torch.Tensor] = []
    scores: list[torch.Tensor] = []
    topk = torch.Tensor.topk

    def noting(self, *arguments, **options):
        scores.append(self)
        return topk(self, *arguments, **options)

    def hooked(run, hook):
        handles = [each.register_forward_hook(hook) for each in indexers if each is not None]
        try:
            return run()
        finally:
            [handle.remove() for handle in handles]

    near_logits = hooked(near, lambda *call: picks.append(call[-1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "topk", noting)
        plain_logits = hooked(plain, lambda *_: judged(picks.pop(0), scores.pop()))
    assert not picks
    return near_logits, plain_logits


def judged(picks: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Columns [batch, queries, k] that are there, once each, as many as are seen, and the best."""
    seen = scores > -torch.inf
    chosen = torch.zeros(*scores.shape[:2], scores.shape[2] + 1, dtype=torch.int)
    ones = torch.ones_like(picks, dtype=torch.int)
    places = picks.long().masked_fill(picks < 0, scores.shape[2])
    chosen = chosen.scatter_add(-1, places, ones)[..., :-1] * seen
    assert chosen.max() <= 1
    assert torch.equal(chosen.sum(-1), seen.sum(-1).clamp(max=picks.shape[-1]))
    worst = scores.masked_fill(chosen == 0, torch.inf).amin(-1)
    missed = scores.masked_fill(chosen == 1, -torch.inf).amax(-1)
    most = scores.masked_fill(~seen, 0).abs().amax(-1)
    assert (missed - worst <= 2e-3 * most).all()
    # Where fewer are seen, one that is picked stands for what is missing.
    return torch.where(picks < 0, picks[..., :1].clamp(min=0), picks)


def commands(cache: NearKVSparseCache) -> int:
    return cache.store.keys.stats().commands


@pytest.mark.parametrize("device", [POOL, "model:?memory=64MiB"])
@pytest.mark.parametrize("name", SPARSE)
def test_logits_are_those_of_transformers_own_attention(name: str, device: str) -> None:
    """In float32, of rows rounded alike: within 2e-4 (absolute; the largest are about 1)."""
    model = make_model(SPARSE[name], torch.float32)
    tokens = random_tokens(1, 300)
    with sparse_cache(model, device) as cache:
        near, plain = run_alike(
            model,
            lambda: run_logits(model, cache, ATTENTION, tokens, STEPS),
            lambda: run_logits(model, plain_cache(model), "sdpa", tokens, STEPS),
        )
        indexers = sum(kind != "shared" for kind in getattr(model.config, "indexer_types", "fff"))
        assert commands(cache) >= indexers * (300 - 240)  # One TOPK for each later token.
    assert (near - plain).abs().max() < 2e-4
    assert cache.store.latents.usage().pages == cache.store.keys.usage().pages == 0


def test_what_is_picked_matters() -> None:
    """Else the tests here would pass without an indexer."""
    tokens = random_tokens(1, 300)
    logits = []
    for picks in (40, 4096):
        model = make_model(DeepseekV32Config(**INDEXED | {"index_topk": picks}), torch.float32)
        with sparse_cache(model) as cache:
            logits.append(run_logits(model, cache, ATTENTION, tokens, STEPS))
    assert (logits[0] - logits[1])[:, 240:].abs().max() > 0.01


@pytest.mark.parametrize("picks", [1, 64, 4096])
@pytest.mark.parametrize("steps", [[1] * 40, [63, 1, 1], [20, 30, 1], [64, 64, 2]])
def test_short_sequences_and_few_or_more_picks_than_tokens(picks: int, steps: list[int]) -> None:
    model = make_model(DeepseekV32Config(**INDEXED | {"index_topk": picks}), torch.float32)
    tokens = random_tokens(1, sum(steps))
    with sparse_cache(model) as cache:
        near, plain = run_alike(
            model,
            lambda: run_logits(model, cache, ATTENTION, tokens, steps),
            lambda: run_logits(model, plain_cache(model), "sdpa", tokens, steps),
        )
        if picks >= sum(steps):
            # All tokens are picked without a question; APPEND is the only command.
            pages = cache.store.keys.usage().pages
            assert commands(cache) == pages
    # Of tokens whose scores are equal, as all that have none, any may be picked.
    differences = (near - plain).abs().amax(-1).flatten().sort().values
    assert differences[: -len(differences) // 5].max() < 2e-4
    assert differences.max() < 1e-2


@pytest.mark.parametrize("steps", [[250, 1, 9, *[10] * 4], [100, 100, *[20] * 5]])
@pytest.mark.parametrize("name", SPARSE)
def test_batches_of_different_lengths(name: str, steps: list[int]) -> None:
    """A prompt at once, and in parts, the first of which is all padding in a row."""
    model = make_model(SPARSE[name], torch.float32)
    tokens = random_tokens(3, 300)
    mask = torch.ones_like(tokens)
    mask[1, :5] = 0
    mask[2, :130] = 0
    with sparse_cache(model) as cache:
        near, plain = run_alike(
            model,
            lambda: run_logits(model, cache, ATTENTION, tokens, steps, mask),
            lambda: run_logits(model, plain_cache(model), "sdpa", tokens, steps, mask),
        )
        assert cache.store.latents.usage().sequences == 3
    assert (near - plain)[mask.bool()].abs().max() < 2e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_good_as_plain(dtype: torch.dtype) -> None:
    """No further from float32 than its rounding, which changes what is picked, too."""
    model, exact_model = make_model(V32, dtype), make_model(V32, dtype).float()
    tokens = random_tokens(1, 300)
    with sparse_cache(model) as cache:
        near = run_logits(model, cache, ATTENTION, tokens, STEPS)
    plain = run_logits(model, DynamicCache(config=V32), "sdpa", tokens, STEPS)
    exact = run_logits(exact_model, DynamicCache(config=V32), "sdpa", tokens, STEPS)
    rounding = (plain - exact).abs()[:, 240:]
    assert (near - exact).abs()[:, 240:].mean() <= 1.5 * rounding.mean() + 1e-4


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch": 2},
        {"num_beams": 3},
        {"prompt_lookup_num_tokens": 4},
        {"prefill_chunk_size": 70},
    ],
)
def test_generate_gives_the_same_tokens(options: dict[str, int]) -> None:
    model = make_model(V32, torch.float32)
    tokens = random_tokens(options.pop("batch", 1), 200)
    options |= {"attention_mask": torch.ones_like(tokens), "max_new_tokens": 60, "do_sample": False}
    with sparse_cache(model) as cache:
        model.set_attn_implementation(ATTENTION)
        near = model.generate(tokens, past_key_values=cache, **options)
        assert commands(cache) > 0
    model.set_attn_implementation("sdpa")
    plain = model.generate(tokens, past_key_values=plain_cache(model), **options)
    assert torch.equal(near, plain)
    assert cache.store.latents.usage().sequences == 0


def test_beams_share_the_pages_of_what_they_have_in_common() -> None:
    model = make_model(V32, torch.float32)
    tokens = random_tokens(1, 200)
    with sparse_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens, [200])
        pages = cache.store.latents.usage().pages
        cache.batch_repeat_interleave(4)
        assert cache.store.latents.usage().pages == pages == 3 * 3
        assert cache.store.latents.usage().sequences == 4


@pytest.mark.parametrize("length", [40, 200])
def test_forks_go_on_alone(length: int) -> None:
    model = make_model(V32, torch.float32)
    tokens, others = random_tokens(1, 300), random_tokens(2, 300)[1:]
    others = torch.cat([tokens[:, :length], others[:, length:]], 1)
    steps = [1] * 30 + [40]
    with sparse_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens[:, : length - 2], [length - 2])
        run_logits(model, cache, ATTENTION, tokens[:, length - 2 : length], [1, 1])
        with copy.deepcopy(cache) as fork:
            for one, text in ((cache, tokens), (fork, others)):
                known, after = text[:, :length], text[:, length : length + 70]
                other = plain_cache(model)
                run_logits(model, other, "sdpa", known, [length])
                near, plain = run_alike(
                    model,
                    lambda one=one, after=after: run_logits(model, one, ATTENTION, after, steps),
                    lambda other=other, after=after: run_logits(model, other, "sdpa", after, steps),
                )
                assert (near - plain).abs().max() < 2e-4


@pytest.mark.parametrize("removed", [1, 30, 64, 150, 199])
def test_what_is_cropped_is_forgotten(removed: int) -> None:
    """Rows of different lengths, and other tokens in the place of those that were taken back."""
    model = make_model(V32, torch.float32)
    tokens, others = random_tokens(2, 300), random_tokens(4, 300)[2:]
    mask = torch.ones_like(tokens)
    mask[1, :40] = 0
    kept = 210 - removed
    text = torch.cat([tokens[:, :kept], others[:, kept:]], 1)

    def go_on(cache, attention: str) -> torch.Tensor:
        model.set_attn_implementation(attention)
        ends, logits = [kept + 50, *range(kept + 51, kept + 61)], []
        with torch.no_grad():
            for begin, end in zip([kept, *ends], ends, strict=False):
                seen = {"attention_mask": mask[:, :end], "past_key_values": cache}
                logits.append(model(text[:, begin:end], use_cache=True, **seen).logits)
        return torch.cat(logits, 1)

    with sparse_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens[:, :210], [190, *[1] * 20], mask[:, :210])
        cache.crop(-removed)
        assert cache.get_seq_length() == kept
        other = plain_cache(model)
        run_logits(model, other, "sdpa", text[:, :kept], [kept], mask)
        near, plain = run_alike(
            model, lambda: go_on(cache, ATTENTION), lambda: go_on(other, "sdpa")
        )
        cache.crop(-1000)
        assert cache.get_seq_length() == cache.store.latents.usage().pages == 0
    assert (near - plain)[mask[:, kept : kept + 60].bool()].abs().max() < 2e-4


def test_fewer_resident_rows_than_picks_change_nothing() -> None:
    model = make_model(V32, torch.float32)
    tokens = random_tokens(1, 300)
    logits = []
    for resident_tokens in (1, 50, 4096):
        with sparse_cache(model, resident_tokens=resident_tokens) as cache:
            logits.append(run_logits(model, cache, ATTENTION, tokens, STEPS))
    assert torch.equal(logits[0], logits[1]) and torch.equal(logits[1], logits[2])
    with pytest.raises(ValueError, match="resident_tokens is 0"):
        sparse_cache(model, resident_tokens=0)


def test_a_decoding_step_moves_a_fraction_of_the_indexers_keys() -> None:
    """An indexer and latents of DeepSeek V3.2's size, in one layer, after 4,096 tokens."""
    config = DeepseekV32Config(
        **INDEXED
        | {
            "num_hidden_layers": 1,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "index_topk": 512,
            "index_head_dim": 128,
            "index_n_heads": 64,
            "max_position_embeddings": 8192,
        }
    )
    model, context, steps = make_model(config), 4096, 16
    tokens = random_tokens(1, context + steps)
    with sparse_cache(model, "cpu:?memory=128MiB") as cache:
        run_logits(model, cache, ATTENTION, tokens[:, :context], [context])
        pools = {"select": cache.store.keys, "gather": cache.store.latents}
        for pool in pools.values():
            pool.reset_stats()
        run_logits(model, cache, ATTENTION, tokens[:, context:], [1] * steps)
        moved = {
            name: (pool.stats().link_to_device_bytes + pool.stats().link_from_device_bytes) / steps
            for name, pool in pools.items()
        }
    whole_keys = context * 128 * 2
    print(
        f"over the link, a layer and decoded token after {context} tokens: to select "
        f"{moved['select']:.0f} bytes, all indexer keys {whole_keys}; to gather latents "
        f"{moved['gather']:.0f}, all latents {context * 576 * 2}"
    )
    # Queries in bf16 and weights go down, ids and scores come back, and the commands.
    assert moved["select"] < 64 * (128 * 2 + 4) + 512 * 8 + 1024
    assert moved["select"] < 0.03 * whole_keys
    assert 0 < moved["gather"] <= 512 * (576 * 2 + 4) + 1024


def test_without_a_cache_of_its_own_it_is_sdpa() -> None:
    model = make_model(V32, torch.float32)
    tokens = random_tokens(1, 100)
    runs = [
        run_logits(model, DynamicCache(config=V32), name, tokens, [90, *[1] * 10])
        for name in (ATTENTION, "sdpa")
    ]
    assert torch.equal(*runs)


def test_another_attention_is_noticed() -> None:
    model = make_model(V32, torch.float32)
    tokens = random_tokens(1, 60)
    with pytest.raises(RuntimeError, match="set_attn_implementation"):
        run_logits(model, sparse_cache(model), "sdpa", tokens, [50, 1, 1])
    with pytest.raises(RuntimeError, match="set_attn_implementation"):
        run_logits(model, sparse_cache(model), "eager", tokens, [50])


def test_what_does_not_fit_is_refused() -> None:
    model = make_model(V32, torch.float32)
    tokens = random_tokens(2, 100)
    store = make_sparse_latents(V32, POOL, POOL)
    with pytest.raises(ValueError, match="rounded=True"):
        run_logits(model, NearKVSparseCache(store), ATTENTION, tokens, [100])
    with pytest.raises(ValueError, match="has no indexer"):
        make_sparse_latents(CONFIGS["deepseek v3, latents"], POOL, POOL)
    with pytest.raises(ValueError, match="bfloat16 or float16"):
        make_sparse_latents(V32, POOL, POOL, dtype=torch.float32)
    with sparse_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens[:, :90], [90])
        with pytest.raises(ValueError, match="holds 2 sequences, the input 1"):
            run_logits(model, cache, ATTENTION, tokens[:1, 90:], [1])
        with pytest.raises(ValueError, match="positive"):
            cache.crop(1)
    holes = torch.ones_like(tokens)
    holes[0, 20] = 0
    with pytest.raises(ValueError, match="padding must be on the left"):
        run_logits(model, sparse_cache(model), ATTENTION, tokens, [90, 10], holes)


def test_a_hole_in_what_a_later_token_sees_is_refused() -> None:
    model = make_model(V32, torch.float32)
    tokens = random_tokens(1, 100)
    mask = torch.ones_like(tokens)
    with sparse_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens[:, :90], [90], mask)
        mask[0, 20] = 0
        with torch.no_grad(), pytest.raises(ValueError, match="hides tokens in the middle"):
            model(tokens[:, 90:91], attention_mask=mask[:, :91], past_key_values=cache)


def test_a_full_pool_says_so() -> None:
    model = make_model(DeepseekV32Config(**INDEXED | {"kv_lora_rank": 496}), torch.float32)
    store = make_sparse_latents(model.config, "cpu:?memory=4MiB", POOL, max_sequences=2)
    with pytest.raises(Error) as failure:
        cache = NearKVSparseCache(store, rounded=True)
        run_logits(model, cache, ATTENTION, random_tokens(1, 2000), [2000])
    assert failure.value.status == Status.POOL_FULL


def keys_of(formula):
    """Has an indexer's formula run on keys that are elsewhere: its picks, and what was asked."""
    asked: list[IndexerQuery] = []

    def answer(question: IndexerQuery) -> torch.Tensor:
        asked.append(question)
        return torch.zeros(1, 2, question.k)

    return formula(KeysElsewhere(10, answer)), asked


QUERIES, WEIGHTS = torch.ones(1, 2, 4, 16), torch.ones(1, 2, 1, 4)
HIDDEN = torch.zeros(1, 2, 10, dtype=torch.bool)


def scores_of(keys, scale=0.5, dims=(-1, -2), fill=-torch.inf):
    scores = torch.matmul(QUERIES, keys.transpose(*dims).float().unsqueeze(1)) * scale
    scores = torch.matmul(WEIGHTS, torch.nn.functional.relu(scores)).squeeze(-2)
    return scores.masked_fill(HIDDEN, fill)


def test_the_formula_of_an_indexer_is_noted() -> None:
    picked, (asked,) = keys_of(lambda keys: scores_of(keys).topk(3, dim=-1))
    assert picked.indices.shape == (1, 2, 3)
    assert (asked.queries is QUERIES, asked.weights is WEIGHTS, asked.scale) == (True, True, 0.5)
    assert keys_of(scores_of)[0].shape == (1, 2, 10)


@pytest.mark.parametrize(
    "formula",
    [
        lambda keys: keys[..., -1],
        lambda keys: keys.mean(1),
        lambda keys: scores_of(keys, dims=(1, 0)).topk(3, dim=-1),
        lambda keys: scores_of(keys, fill=0.0).topk(3, dim=-1),
        lambda keys: scores_of(keys).topk(3, dim=1),
        lambda keys: scores_of(keys).squeeze(-2).topk(3, dim=-1),
        lambda keys: keys.topk(3, dim=-1),
        lambda keys: torch.matmul(keys.transpose(-1, -2).float().unsqueeze(1), QUERIES),
        lambda keys: torch.nn.functional.gelu(keys),
    ],
)
def test_another_formula_is_refused(formula) -> None:
    with pytest.raises(RuntimeError, match="does not know"):
        keys_of(formula)


def test_a_prompts_picks_do_not_depend_on_how_many_are_computed_at_once(monkeypatch) -> None:
    torch.manual_seed(0)
    hidden = torch.ones(1, 30, 30, dtype=torch.bool).triu(1)
    question = IndexerQuery(torch.randn(1, 30, 16, 32), 0.2, torch.randn(1, 30, 1, 16), hidden, 5)
    keys = torch.randn(1, 30, 32)
    at_once = question.answer_here(keys)
    monkeypatch.setattr("nearkv.transformers.indexer._SCORES", 16 * 30 * 7)
    parts = question.answer_here(keys)
    assert torch.equal(at_once[:, 5:].sort(-1).values, parts[:, 5:].sort(-1).values)
