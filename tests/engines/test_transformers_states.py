"""Models of transformers with recurrent states: Mamba, Jamba, RWKV, linear attention and others."""

import multiprocessing
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache

pytest.importorskip("nearkv.core", exc_type=ImportError)
from bench.engines.serving import Daemon
from nearkv.store import ObjectStore
from nearkv.transformers import ATTENTION, NearKVCache, PrefixStates, make_pool
from tests.engines.transformers_models import (
    HYBRIDS,
    RECURRENT,
    RoundingCache,
    make_model,
    near_cache,
    random_tokens,
    run_logits,
)

MODELS = HYBRIDS | RECURRENT
PROMPT, MORE = 200, 30


def empty_cache(model):
    """Of what a model keeps: states alone, or with pages."""
    if model.config.model_type == "rwkv":
        return []
    if model.config.model_type in ("mamba", "falcon_mamba", "mamba2"):
        return DynamicCache(config=model.config)
    model.set_attn_implementation(ATTENTION)
    return near_cache(model, window_tokens=64, rounded=True)


def step(model, cache, token: int) -> torch.Tensor:
    """Logits after one token more."""
    with torch.no_grad():
        if isinstance(cache, list):
            output = model(torch.tensor([[token]]), state=cache, use_cache=True)
            cache[:] = output.state
        else:
            name = "past_key_values" if isinstance(cache, NearKVCache) else "cache_params"
            output = model(torch.tensor([[token]]), use_cache=True, **{name: cache})
    return output.logits[0, -1]


def go_on(model, cache, logits: torch.Tensor, count: int) -> tuple[list[int], torch.Tensor]:
    """The next tokens, greedily, and all logits."""
    tokens, every = [], [logits]
    for _ in range(count):
        tokens.append(int(every[-1].argmax()))
        every.append(step(model, cache, tokens[-1]))
    return tokens, torch.stack(every)


@pytest.mark.parametrize("name", HYBRIDS)
def test_logits_are_those_of_transformers_own_cache(name: str) -> None:
    """In float32, with K and V rounded alike."""
    model = make_model(HYBRIDS[name], torch.float32)
    tokens, steps = random_tokens(1, 300), [280, *[1] * 20]
    own = RoundingCache(config=model.config)
    plain = run_logits(model, own, "sdpa", tokens, steps)
    with near_cache(model, window_tokens=64, rounded=True) as cache:
        near = run_logits(model, cache, ATTENTION, tokens, steps)
        assert cache.pool.usage().pages > 0
        assert cache.pool.stats().commands > 0
    assert (near - plain).abs().max() < 2e-4


@pytest.mark.parametrize("name", MODELS)
def test_a_prefix_from_the_store_gives_the_same_tokens(name: str) -> None:
    """Bit for bit those of a run that computed the prefix."""
    model = make_model(MODELS[name], torch.float32)
    prompt = random_tokens(1, PROMPT + 2)[0].tolist()
    with ObjectStore.create("cpu:?memory=64MiB") as store:
        prefixes = PrefixStates(store.namespace(name), model.config)
        first = prefixes.prefill(model, prompt[:PROMPT], empty_cache(model))
        assert first.reused_tokens == 0
        runs = []
        for space in (name, "nothing is here"):
            prefixes = PrefixStates(store.namespace(space), model.config)
            cache = empty_cache(model)
            if space != name:
                prefixes.prefill(model, prompt[:PROMPT], cache)
                logits = [step(model, cache, token) for token in prompt[PROMPT:]][-1]
            else:
                filled = prefixes.prefill(model, prompt, cache)
                assert filled.reused_tokens == PROMPT
                logits = filled.logits
            runs.append(go_on(model, cache, logits, MORE))
    assert runs[0][0] == runs[1][0]
    # Two tokens at once or one after the other: another order of additions.
    assert (runs[0][1] - runs[1][1]).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["jamba, mamba and attention", "lfm2, convolutions and attention"])
def test_prompts_that_begin_alike_share_what_they_can(name: str) -> None:
    """Of three, each goes on where the longest snapshot on its way ends."""
    model = make_model(MODELS[name], torch.float32)
    head = random_tokens(1, 150)[0].tolist()
    with ObjectStore.create("cpu:?memory=64MiB") as store:
        prefixes = PrefixStates(store.namespace(name), model.config)
        reused = [
            prefixes.prefill(model, head + tail, empty_cache(model), every_tokens=100).reused_tokens
            for tail in ([1] * 60, [2] * 60, [1] * 60 + [3], [1] * 60 + [3] * 41)
        ]
        blocks = sum(info.key.startswith(b"rows ") for info in store.objects())
    assert reused == [0, 100, 210, 211]
    assert blocks == 3 + 1  # Of 64 tokens: three of the first prompt, the third of the second.


@pytest.mark.parametrize("name", HYBRIDS)
def test_forks_go_on_alone(name: str) -> None:
    model = make_model(HYBRIDS[name], torch.float32)
    model.set_attn_implementation(ATTENTION)
    prompt = random_tokens(1, PROMPT)
    with near_cache(model, window_tokens=64, rounded=True) as cache:
        with torch.no_grad():
            logits = model(prompt, past_key_values=cache).logits[0, -1]
        pages = cache.pool.usage().pages
        forks = [cache.fork() for _ in range(3)]
        assert cache.pool.usage().pages == pages
        places = [state_places(one) for one in (cache, *forks)]
        assert all(place == places[0] for place in places)
        # The first takes other tokens, and the others must not notice.
        with forks[0] as other:
            go_on(model, other, torch.randn_like(logits), MORE)
        ahead = go_on(model, forks[1], logits, MORE)
        assert state_places(forks[2]) == places[0]
        for again in (forks[2], cache):
            assert torch.equal(go_on(model, again, logits, MORE)[1], ahead[1])
        for fork in forks:
            fork.close()
    assert (cache.pool.usage().pages, cache.pool.usage().sequences) == (0, 0)


@pytest.mark.parametrize(
    "name", ["falcon h1, mamba 2 beside attention", "qwen3 next, gated delta rule"]
)
def test_a_prompt_may_come_from_another_cache(name: str) -> None:
    model = make_model(HYBRIDS[name], torch.float32)
    tokens, prompt = random_tokens(1, 300), RoundingCache(config=HYBRIDS[name])
    run_logits(model, prompt, "sdpa", tokens[:, :290], [290])
    with near_cache(model, window_tokens=64, rounded=True) as cache:
        cache.take(prompt)
        assert cache.pool.usage().pages > 0
        near = run_logits(model, cache, ATTENTION, tokens[:, 290:], [1] * 10)
    plain = run_logits(model, prompt, "sdpa", tokens[:, 290:], [1] * 10)
    assert (near - plain).abs().max() < 2e-4


def state_places(cache: NearKVCache) -> list[int]:
    """Where its states lie."""
    return [
        state.data_ptr()
        for layer in cache.layers
        for states in (getattr(layer, "conv_states", {}), getattr(layer, "recurrent_states", {}))
        for state in states.values()
        if state is not None
    ]


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"batch": 2}])
@pytest.mark.parametrize(
    "name", ["jamba, mamba and attention", "falcon h1, mamba 2 beside attention"]
)
def test_generate_gives_the_same_tokens(name: str, options) -> None:
    model = make_model(HYBRIDS[name], torch.float32)
    tokens = random_tokens(options.get("batch", 1), 200)
    asked = {"max_new_tokens": 40, "do_sample": False, "num_beams": options.get("num_beams", 1)}
    asked["attention_mask"] = torch.ones_like(tokens)
    plain = model.generate(tokens, past_key_values=RoundingCache(config=model.config), **asked)
    model.set_attn_implementation(ATTENTION)
    with near_cache(model, window_tokens=64, rounded=True) as cache:
        near = model.generate(tokens, past_key_values=cache, **asked)
        assert cache.pool.stats().commands > 0
    assert torch.equal(near, plain)


def continue_from(uri: str, name: str, prompt: list[int], answer) -> None:
    """What a second process does."""
    torch.set_num_threads(1)
    model = make_model(MODELS[name], torch.float32)
    with ObjectStore.open(uri) as store:
        prefixes = PrefixStates(store.namespace(name), model.config)
        cache = empty_cache(model)
        filled = prefixes.prefill(model, prompt, cache)
        answer.put((filled.reused_tokens, go_on(model, cache, filled.logits, MORE)[0]))


@pytest.mark.parametrize("name", ["jamba, mamba and attention", "rwkv"])
def test_another_process_goes_on_from_the_store(name: str, tmp_path: Path) -> None:
    uri = f"cpu:{tmp_path / 'states'}?memory=64MiB"
    model = make_model(MODELS[name], torch.float32)
    prompt = random_tokens(1, PROMPT)[0].tolist()
    with ObjectStore.create(uri) as store:
        prefixes = PrefixStates(store.namespace(name), model.config)
        cache = empty_cache(model)
        prefixes.prefill(model, prompt, cache)
        logits = step(model, cache, 5)
        expected = go_on(model, cache, logits, MORE)[0]
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    child = context.Process(target=continue_from, args=(uri, name, [*prompt, 5], answer))
    child.start()
    assert answer.get(timeout=100) == (PROMPT, expected)
    child.join()


def test_a_daemon_that_is_killed_costs_time_and_no_tokens(daemon: Daemon) -> None:
    name = "lfm2, convolutions and attention"
    model = make_model(MODELS[name], torch.float32)
    prompt, runs = random_tokens(1, PROMPT)[0].tolist(), []
    with ObjectStore.connect(daemon.socket, patience_s=0.5) as store:
        prefixes = PrefixStates(store.namespace(name), model.config)
        for tokens, reused in ((prompt, 0), ([*prompt, 5], PROMPT)):
            cache = empty_cache(model)
            filled = prefixes.prefill(model, tokens, cache)
            assert filled.reused_tokens == reused
        runs.append(go_on(model, cache, filled.logits, MORE)[0])
        daemon.kill()
        cache = empty_cache(model)
        filled = prefixes.prefill(model, [*prompt, 5], cache)
        assert filled.reused_tokens == 0
        runs.append(go_on(model, cache, filled.logits, MORE)[0])
    assert runs[0] == runs[1]


def test_a_cache_for_recurrent_layers_refuses_what_it_cannot_do() -> None:
    config = HYBRIDS["jamba, mamba and attention"]
    model = make_model(config, torch.float32)
    with near_cache(model, rounded=True) as cache:
        run_logits(model, cache, ATTENTION, random_tokens(1, 20), [20])
        with pytest.raises(ValueError, match="fork\\(\\) before"):
            cache.crop(-1)
    pool = make_pool(config, "cpu:?memory=64MiB")
    with pytest.raises(ValueError, match="max_tokens is for"):
        NearKVCache(pool, config=config, max_tokens=100)
    other = HYBRIDS["zamba 2, mamba 2 and shared attention"]
    with pytest.raises(ValueError, match="1 layers that attend, the pool 2"):
        NearKVCache(pool, config=other)
