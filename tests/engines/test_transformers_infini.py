"""Infini-attention over a pool, against the paper's formulas in float64, segment by segment."""

import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, LlamaConfig
from transformers.masking_utils import sdpa_mask

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import Device, Pool, RowForm  # noqa: E402
from nearkv.store import ObjectStore  # noqa: E402
from nearkv.transformers import (  # noqa: E402
    ATTENTION,
    NearKVInfiniCache,
    PrefixStates,
    make_pool,
)
from nearkv.transformers.memory import CompressiveMemory  # noqa: E402
from tests.engines.transformers_models import (  # noqa: E402
    CONFIGS,
    SMALL,
    make_model,
    random_tokens,
    run_logits,
)

SEGMENT = 128
CONFIG = LlamaConfig(**SMALL, num_key_value_heads=4)
GATES = torch.randn(3, 8, generator=torch.Generator().manual_seed(2))


class Reference:
    """Attention of all tokens at once, as the paper writes it, in float64.

    Keys and values are rounded to bfloat16 as a pool has them, after RoPE, which the memory's part
    undoes pair by pair.
    """

    def __init__(self, gates: torch.Tensor, *, delta: bool) -> None:
        self.gates, self.delta = gates.double().sigmoid(), delta

    def __call__(self, module, query, key, value, attention_mask, scaling=None, **kwargs):
        group = query.shape[1] // key.shape[1]
        key, value = (part.bfloat16().double() for part in (key, value))
        outputs = torch.empty(*query.shape[:3], value.shape[3], dtype=torch.float64)
        for row in range(len(query)):
            for head in range(query.shape[1]):
                outputs[row, head] = self.head(
                    query[row, head].double(),
                    key[row, head // group],
                    value[row, head // group],
                    self.gates[module.layer_idx, head],
                    scaling,
                )
        return outputs.to(query.dtype).transpose(1, 2), None

    def head(self, query, key, value, gate, scaling):
        dim, output = query.shape[1], torch.empty(len(query), value.shape[1]).double()
        matrix, normaliser = torch.zeros(dim, value.shape[1]).double(), torch.zeros(dim).double()
        for begin in range(0, len(query), SEGMENT):
            end = min(begin + SEGMENT, len(query))
            new_matrix, new_normaliser = matrix.clone(), normaliser.clone()
            for at in range(begin, end):
                weights = (query[at] @ key[begin : at + 1].T * scaling).softmax(0)
                local = weights @ value[begin : at + 1]
                output[at] = local
                if begin:
                    asked = feature(unturned(query[at], at))
                    recalled = asked @ matrix / (asked @ normaliser)
                    output[at] = gate * recalled + (1 - gate) * local
                shown = feature(unturned(key[at], at))
                known = shown @ matrix / (shown @ normaliser) if begin and self.delta else 0
                new_matrix += torch.outer(shown, value[at] - known)
                new_normaliser += shown
            matrix, normaliser = new_matrix, new_normaliser
        return output


def feature(state: torch.Tensor) -> torch.Tensor:
    return torch.where(state > 0, state + 1, state.exp())


def unturned(state: torch.Tensor, position: int) -> torch.Tensor:
    """Before RoPE: channels i and i + dim / 2 are a complex number that was turned."""
    half = len(state) // 2
    angles = position * 10_000.0 ** (-torch.arange(half).double() / half)
    turned = torch.complex(state[:half], state[half:]) * torch.polar(
        torch.ones(half).double(), -angles
    )
    return torch.cat([turned.real, turned.imag])


def reference_logits(model, tokens: torch.Tensor, *, delta: bool) -> torch.Tensor:
    name = f"infini reference {delta}"
    AttentionInterface.register(name, Reference(GATES, delta=delta))
    AttentionMaskInterface.register(name, sdpa_mask)
    return run_logits(model, DynamicCache(), name, tokens, [tokens.shape[1]])


def infini_cache(model, **options) -> NearKVInfiniCache:
    pool = make_pool(model.config, "cpu:?memory=64MiB")
    options = {"segment_tokens": SEGMENT, "window_tokens": 16, "rounded": True} | options
    return NearKVInfiniCache(pool, GATES, rotary=model.model.rotary_emb, **options)


@pytest.mark.parametrize("delta", [False, True])
def test_logits_are_those_of_the_papers_formulas(delta: bool) -> None:
    """Steps that end within a segment, at its end, and go over more than one."""
    model = make_model(CONFIG, torch.float32)
    tokens = random_tokens(2, 420)
    exact = reference_logits(model, tokens, delta=delta)
    with infini_cache(model, delta=delta) as cache:
        near = run_logits(model, cache, ATTENTION, tokens, [300, *[1] * 10, 50, 24, *[1] * 36])
        assert cache.pool.stats().commands > 0
        assert cache.get_seq_length() == 420
    # Kernels add up in other orders, so that a key or value between two bfloat16 numbers may be
    # rounded to the other one: noise of 1e-6 in the formulas' outputs moves a few logits by 3e-4.
    differences = (near - exact).abs()
    assert differences.flatten().quantile(0.99) < 2e-4
    assert differences.max() < 1e-3
    # And it matters: the last segment sees what was before it.
    local = infini_cache(model, delta=delta)
    local.layers[0].gates = local.layers[1].gates = local.layers[2].gates = torch.zeros(8)
    alone = run_logits(model, local, ATTENTION, tokens, [420])
    assert (alone - exact)[:, :SEGMENT].abs().max() < 1e-3
    assert (alone - exact)[:, SEGMENT:].abs().max() > 0.01


def test_what_it_holds_does_not_grow() -> None:
    model = make_model(CONFIG, torch.float32)
    with infini_cache(model) as cache:
        most, read = 0, []
        for tokens in (1, 3):
            cache.reset()
            cache.pool.reset_stats()
            for _ in range(tokens):
                run_logits(model, cache, ATTENTION, random_tokens(1, 4 * SEGMENT - 1), [64] * 8)
                most = max(most, cache.pool.usage().pages)
            read.append(cache.pool.stats().link_from_device_bytes)
        folded = (3 * (4 * SEGMENT - 1) // SEGMENT) * SEGMENT
        print(f"over the link: {read[1] / folded:.0f} bytes for a folded token, all included")
        assert 0 < most <= SEGMENT // 64 * cache.pool.layers * cache.pool.kv_heads


def test_segments_are_folded_where_their_pages_lie() -> None:
    """In this machine's memory: the same matrices, and no row comes back."""
    model = make_model(CONFIG, torch.float32)
    tokens, runs = random_tokens(1, 400), []
    raw = {"k_form": RowForm.RAW, "v_form": RowForm.RAW}
    for in_place in (False, True):
        pool = Pool.create(
            Device("cpu:?memory=64MiB"), layers=3, kv_heads=4, head_dim=16, max_sequences=64, **raw
        )
        options = {"segment_tokens": SEGMENT, "window_tokens": 16, "rounded": True}
        options |= {"rotary": model.model.rotary_emb, "in_place": in_place}
        with NearKVInfiniCache(pool, GATES, **options) as cache:
            logits = run_logits(model, cache, ATTENTION, tokens, [50] * 8)
            matrices = [layer.memory.matrix for layer in cache.layers]
            runs.append((logits, matrices, pool.stats().link_from_device_bytes))
    (logits, matrices, read), (there, matrices_there, read_there) = runs
    assert torch.equal(logits, there)
    assert all(map(torch.equal, matrices, matrices_there))
    in_pool = 3 * 64 * 3 * 4 * 2 * 16 * 2  # Of each of 3 segments a page, in 3 layers, 4 heads.
    print(f"over the link: {read} bytes, in place {read_there}")
    assert read - read_there >= in_pool
    with pytest.raises(ValueError, match="in_place is for"):
        infini_cache(model, in_place=True)


def test_rows_forks_and_beams() -> None:
    model = make_model(CONFIG, torch.float32)
    tokens = random_tokens(2, 300)
    alone = []
    for row in (0, 1):
        with infini_cache(model) as cache:
            alone.append(
                run_logits(model, cache, ATTENTION, tokens[row : row + 1], [290, *[1] * 10])
            )
    with infini_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens[:, :290], [290])
        other = cache.fork()
        cache.reorder_cache(torch.tensor([1, 0]))
        run_logits(model, other, ATTENTION, tokens.flip(1), [150])
        other.close()
        swapped = run_logits(model, cache, ATTENTION, tokens.flip(0)[:, 290:], [1] * 10)
        for row in (0, 1):
            assert (swapped[1 - row] - alone[row][0, 290:]).abs().max() < 1e-4
        cache.reorder_cache(torch.tensor([0, 0]))
        cache.batch_repeat_interleave(2)
        same = run_logits(model, cache, ATTENTION, torch.full((4, 1), 7), [1])
        assert (same - same[0]).abs().max() < 1e-5


@pytest.mark.parametrize("known", [50, 2 * SEGMENT, 2 * SEGMENT + 100])
def test_a_prompt_goes_on_from_the_matrices_of_one_that_began_alike(known: int) -> None:
    """Which ends in the first segment, at a segment's end, and in a later segment."""
    model = make_model(CONFIG, torch.float32)
    tokens = random_tokens(1, 400)
    store = ObjectStore.create("cpu:?memory=64MiB")
    prefixes = PrefixStates(store.namespace("infini"), CONFIG)
    with infini_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens, [400])
        whole = run_logits(model, cache, ATTENTION, tokens[:, :40], [40])
    with infini_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens[:, :known], [known])
        assert prefixes.save(tokens[0, :known].tolist(), cache)
        rows = [info for info in store.objects() if info.key.startswith(b"rows ")]
        assert len(rows) == known % SEGMENT // 64  # Segments that are over have none.
    with infini_cache(model) as cache:
        prefilled = prefixes.prefill(model, tokens[0].tolist(), cache)
        assert prefilled.reused_tokens == known
        assert cache.get_seq_length() == 400
        again = run_logits(model, cache, ATTENTION, tokens[:, :40], [40])
    assert (again - whole).abs().max() < 1e-4


def test_matrices_of_other_gates_or_segments_are_not_found() -> None:
    model = make_model(CONFIG, torch.float32)
    tokens = random_tokens(1, 300)
    prefixes = PrefixStates(ObjectStore.create("cpu:?memory=64MiB").namespace("infini"), CONFIG)
    with infini_cache(model) as cache:
        run_logits(model, cache, ATTENTION, tokens, [300])
        assert prefixes.save(tokens[0].tolist(), cache)
        assert prefixes.find(tokens[0].tolist(), cache) == 300
        with pytest.raises(ValueError, match="holds 300 tokens"):
            prefixes.load(tokens[0].tolist(), cache)
    for options in ({"segment_tokens": 2 * SEGMENT}, {"delta": False}):
        with infini_cache(model, **options) as cache:
            assert prefixes.load(tokens[0].tolist(), cache) == 0
    with infini_cache(model) as cache:
        cache.layers[0].gates = torch.zeros(8)
        assert prefixes.load(tokens[0].tolist(), cache) == 0


def test_nothing_is_asked_of_an_empty_direction() -> None:
    memory = CompressiveMemory(delta=True)
    assert memory.is_empty
    memory.fold(torch.randn(1, 2, 64, 16), torch.randn(1, 2, 64, 16))
    assert memory.recall(torch.full((1, 2, 1, 1, 16), -1000.0)).isfinite().all()


def test_what_it_cannot_do_is_refused() -> None:
    model = make_model(CONFIG, torch.float32)
    pool = make_pool(CONFIG, "cpu:?memory=64MiB")
    with pytest.raises(ValueError, match="multiple of 64"):
        NearKVInfiniCache(pool, GATES, segment_tokens=100)
    with pytest.raises(ValueError, match="3 layers"):
        NearKVInfiniCache(pool, GATES[:2])
    latents = make_pool(CONFIGS["deepseek v3, latents"], "cpu:?memory=64MiB")
    with pytest.raises(ValueError, match="made for latents"):
        NearKVInfiniCache(latents, GATES)
    padded = torch.ones(1, 20, dtype=torch.long)
    padded[:, :5] = 0
    with infini_cache(model) as cache, pytest.raises(ValueError, match="without padding"):
        run_logits(model, cache, ATTENTION, random_tokens(1, 20), [20], padded)
    with infini_cache(model) as cache:
        run_logits(model, cache, ATTENTION, random_tokens(1, 20), [20])
        with pytest.raises(ValueError, match="fork\\(\\) before"):
            cache.crop(-1)
        with pytest.raises(RuntimeError, match="set_attn_implementation"):
            run_logits(model, cache, "sdpa", random_tokens(1, 2), [1, 1])
