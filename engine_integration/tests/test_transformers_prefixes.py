"""Prefixes in a store, without models: what comes back is what was kept, or nothing is found."""

import random

import pytest
import torch
from transformers import DynamicCache, Lfm2Config, Lfm2ForCausalLM, LlamaConfig, MambaConfig

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import Codec, Status  # noqa: E402
from nearkv.retainer import Retention  # noqa: E402
from nearkv.store import ObjectStore  # noqa: E402
from nearkv.transformers import NearKVCache, PrefixStates, make_pool, prefixes  # noqa: E402
from nearkv.transformers.layer import NearKVLayer  # noqa: E402
from nearkv.transformers.states import states_in  # noqa: E402

CONFIG = Lfm2Config(
    vocab_size=97,
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_hidden_layers=4,
    layer_types=["conv", "full_attention"] * 2,
)
WORDS = random.Random(1)


def words(count: int) -> list[int]:
    return [WORDS.randrange(97) for _ in range(count)]


def empty_cache(
    memory: str = "64MiB", dtype: torch.dtype = torch.bfloat16, retention: Retention | None = None
) -> NearKVCache:
    pool = make_pool(CONFIG, f"cpu:?memory={memory}", dtype=dtype)
    return NearKVCache(pool, config=CONFIG, window_tokens=64, retention=retention)


def grow(cache: NearKVCache, tokens: list[int], rows: int = 1) -> NearKVCache:
    """As a model would whose K, V and states are made of the tokens."""
    for index, layer in enumerate(cache.layers):
        if isinstance(layer, NearKVLayer):
            dtype = torch.float16 if layer.pool.dtype == core.Dtype.FP16 else torch.bfloat16
            fresh = torch.tensor(tokens).float()[None, None, :, None] + torch.randn(1, 2, 1, 16)
            fresh = fresh.expand(rows, -1, -1, -1).to(dtype)
            layer.update(fresh, fresh * index)
            layer.settle(None, len(tokens))
        else:
            layer.update_conv_state(torch.randn(rows, 64, 3) + sum(tokens))
    return cache


def assert_same(one: NearKVCache, other: NearKVCache, tokens: int) -> None:
    for here, there in zip(one.layers, other.layers, strict=True):
        if isinstance(here, NearKVLayer):
            assert (here.length, there.length) == (tokens, tokens)
            pairs = zip(here.rows(0, tokens), there.rows(0, tokens), strict=True)
            assert all(torch.equal(*pair) for pair in pairs)
        else:
            states = states_in(here), states_in(there)
            assert list(states[0]) == list(states[1]) == ["conv.0"]
            assert torch.equal(states[0]["conv.0"], states[1]["conv.0"])


@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 200, 321])
def test_a_prefix_comes_back_as_it_was(blocks, length: int) -> None:
    tokens = words(length)
    states = PrefixStates(blocks, CONFIG)
    with grow(empty_cache(), tokens) as kept, empty_cache() as found:
        assert states.save(tokens, kept)
        assert states.find([*tokens, 5, 6], found) == length
        assert states.load([*tokens, 5, 6], found) == length
        assert_same(kept, found, length)
        assert states.save(tokens, kept)  # It is there.


@pytest.mark.parametrize("codec", [Codec.INT4, Codec.FP8, Codec.PLANES_LZ4])
def test_what_was_rounded_is_nobody_elses(blocks, codec: Codec) -> None:
    tokens = words(300)
    states = PrefixStates(blocks, CONFIG)
    with grow(empty_cache(), tokens) as kept, kept.fork() as fork, empty_cache() as found:
        kept.rest(codec)
        if codec == Codec.PLANES_LZ4:
            assert states.save(tokens, kept)
            assert_same(kept, fork, 300)
            return
        for cache in (kept, fork, kept.fork()):
            with cache, pytest.raises(ValueError, match="rounded"):
                states.save(tokens, cache)
        assert states.find(tokens, found) == 0


@pytest.mark.parametrize("cold", [Codec.INT8, Codec.PLANES_ZSTD])
def test_what_a_retention_rounds_is_nobody_elses(blocks, cold: Codec) -> None:
    tokens = words(300)
    states = PrefixStates(blocks, CONFIG)
    with grow(empty_cache(retention=Retention(budget_tokens=64, cold=cold)), tokens) as kept:
        if cold == Codec.PLANES_ZSTD:
            assert states.save(tokens, kept)
        else:
            with pytest.raises(ValueError, match="rounded"):
                states.save(tokens, kept)


def test_the_longest_is_found_and_others_are_not(blocks) -> None:
    tokens = words(300)
    states = PrefixStates(blocks, CONFIG)
    with empty_cache() as cache:
        for begin, end in ((0, 100), (100, 130), (130, 300)):
            grow(cache, tokens[begin:end])
            assert states.save(tokens[:end], cache)
    with empty_cache() as cache:
        for asked, found in ((99, 0), (100, 100), (129, 100), (130, 130), (299, 130), (300, 300)):
            assert states.find(tokens[:asked], cache) == found
        assert states.find([*tokens[:120], 96 - tokens[120], *tokens[121:]], cache) == 100
        assert states.find([96 - tokens[0], *tokens[1:]], cache) == 0


def test_blocks_are_shared_and_a_snapshot_adds_little(store, blocks) -> None:
    """Another prompt of the same beginning costs its own tokens and its states."""
    tokens = words(640)
    states = PrefixStates(blocks, CONFIG)
    row_bytes = 2 * 2 * 2 * 16 * 2  # Two layers' K and V, of two heads of 16 channels, in bf16.
    held = []
    for tail in ([], [1] * 10, [2] * 10):
        with empty_cache() as cache:
            states.load(tokens, cache)
            done = cache.get_seq_length()
            if new := [*tokens, *tail][done:]:
                grow(cache, new)
            assert states.save([*tokens, *tail], cache)
        held.append(sum(info.bytes for info in store.objects()))
    state_bytes = 2 * 64 * 3 * 4
    assert held[0] == pytest.approx(640 * row_bytes + state_bytes, abs=1000)
    for before, after in ((held[0], held[1]), (held[1], held[2])):
        assert after - before == pytest.approx(10 * row_bytes + state_bytes, abs=1000)


def test_what_is_gone_or_damaged_does_not_count(store, blocks) -> None:
    tokens = words(200)
    states = PrefixStates(blocks, CONFIG)

    def stored() -> None:
        with empty_cache() as cache:
            for begin, end in ((0, 40), (40, 200)):
                grow(cache, tokens[begin:end])
                assert states.save(tokens[:end], cache)

    stored()
    rows = [info.key for info in store.objects() if info.key.startswith(b"rows ")]
    assert len(rows) == 3
    for lost in rows:
        blocks.erase(lost)
        with empty_cache() as cache:
            assert states.load(tokens, cache) == 40  # Of which no block is needed.
            assert cache.get_seq_length() == 40
        stored()
        with empty_cache() as cache:
            assert states.load(tokens, cache) == 200
    longest = next(info.key for info in store.objects() if info.bytes == snapshot_bytes(store))
    blocks.set(longest, b"\x01\0\0\0nonsense", overwrite=True).check()
    with empty_cache() as cache:
        assert states.load(tokens, cache) == 40


def snapshot_bytes(store: ObjectStore) -> int:
    """Of the one with less K and V in it: 8 tokens, not 40."""
    sizes = [info.bytes for info in store.objects() if info.key.startswith(b"state")]
    return min(sizes)


def test_a_state_larger_than_an_object_lies_in_several(monkeypatch, store, blocks) -> None:
    monkeypatch.setattr(prefixes, "MAX_OBJECT_BYTES", 1000)
    tokens = words(70)
    states = PrefixStates(blocks, CONFIG)
    with grow(empty_cache(), tokens) as kept:
        assert states.save(tokens, kept)
        pieces = [info.key for info in store.objects() if info.key.startswith(b"state")]
        assert len(pieces) > 3
        with empty_cache() as found:
            assert states.load(tokens, found) == 70
            assert_same(kept, found, 70)
    blocks.erase(sorted(pieces)[-1])
    with empty_cache() as found:
        assert states.load(tokens, found) == 0


class Silent:
    """A namespace whose daemon has gone."""

    def __getattr__(self, name: str):
        return lambda *_, **__: ObjectStore.connect("/nowhere/nearkv.sock", patience_s=0)


def test_a_store_that_does_not_answer_has_nothing(caplog) -> None:
    tokens = words(70)
    states = PrefixStates(Silent(), CONFIG)
    with grow(empty_cache(), tokens) as kept, empty_cache() as found:
        for _ in range(2):
            assert not states.save(tokens, kept)
            assert states.find(tokens, found) == states.load(tokens, found) == 0
    assert len(caplog.records) == 1  # What was said is not said again.


def test_a_full_store_takes_no_more_and_gives_nothing_wrong() -> None:
    """Objects are thrown out for others; whatever is found is right."""
    with ObjectStore.create("cpu:?memory=16MiB&huge=off", max_objects=64) as store:
        states = PrefixStates(store.namespace("small"), CONFIG)
        kept = []
        for _ in range(24):
            tokens = words(200)
            cache = grow(empty_cache(), tokens)
            kept.append((tokens, cache, states.save(tokens, cache)))
        found = 0
        for tokens, cache, _ in kept:
            with empty_cache() as other:
                if states.load(tokens, other):
                    assert_same(cache, other, 200)
                    found += 1
                assert other.get_seq_length() in (0, 200)
            cache.close()
        assert 0 < found < len(kept)


def test_other_models_and_dtypes_do_not_find_it(blocks, tmp_path) -> None:
    tokens = words(100)
    with grow(empty_cache(), tokens) as cache:
        assert PrefixStates(blocks, CONFIG).save(tokens, cache)
        other = Lfm2Config(**CONFIG.to_dict() | {"norm_eps": 1e-3})
        assert PrefixStates(blocks, other).find(tokens, cache) == 0
        assert PrefixStates(blocks, CONFIG, "with an adapter").find(tokens, cache) == 0
        # Weights are those of the folder that a model was loaded from.
        found = []
        for _ in range(2):
            Lfm2ForCausalLM(CONFIG).save_pretrained(tmp_path)
            loaded = PrefixStates(blocks, Lfm2ForCausalLM.from_pretrained(tmp_path).config)
            found.append(loaded.find(tokens, cache))
            assert loaded.save(tokens, cache)
            found.append(loaded.find(tokens, cache))
        assert found == [0, 100, 0, 100]
    with empty_cache(dtype=torch.float16) as cache:
        assert PrefixStates(blocks, CONFIG).load(tokens, cache) == 0


def test_a_pool_that_is_full_leaves_the_cache_empty(blocks) -> None:
    tokens = words(20_000)
    states = PrefixStates(blocks, CONFIG)
    with grow(empty_cache(), tokens) as cache:
        assert states.save(tokens, cache)
    with empty_cache("4MiB") as small:
        with pytest.raises(core.Error) as failure:
            states.load(tokens, small)
        assert failure.value.status == Status.POOL_FULL
        assert (small.get_seq_length(), small.pool.usage().pages) == (0, 0)


def test_caches_that_are_not_what_was_meant_are_refused(blocks) -> None:
    tokens = words(100)
    states = PrefixStates(blocks, CONFIG)
    with grow(empty_cache(), tokens) as cache:
        for wrong in (tokens[:99], [*tokens, 1]):
            with pytest.raises(ValueError, match="holds 100 tokens"):
                states.save(wrong, cache)
        with pytest.raises(ValueError, match="wanted is one sequence of 0"):
            states.load(tokens, cache)
    with grow(empty_cache(), tokens, rows=2) as cache, pytest.raises(ValueError, match="2 seq"):
        states.save(tokens, cache)
    with pytest.raises(ValueError, match="DynamicLayer, of which PrefixStates knows nothing"):
        states.find(tokens, DynamicCache(config=CONFIG))
    with pytest.raises(ValueError, match="no layers yet"):
        states.find(tokens, DynamicCache())
    mamba = MambaConfig(vocab_size=97, hidden_size=64, num_hidden_layers=2)
    with pytest.raises(ValueError, match="states elsewhere"):
        PrefixStates(blocks, mamba).save(tokens, DynamicCache(config=mamba))
    with pytest.raises(ValueError, match="at least one token"):
        states.prefill(torch.nn.Identity(), [], empty_cache())


def test_attention_alone_works_too(blocks) -> None:
    config = LlamaConfig(vocab_size=97, hidden_size=64, num_attention_heads=4, num_hidden_layers=2)
    pool = make_pool(config, "cpu:?memory=64MiB")
    tokens = words(150)
    states = PrefixStates(blocks, config)
    with NearKVCache(pool) as cache:
        rows = torch.randn(2, 1, 4, 150, 16).bfloat16()
        for layer in cache.layers:
            layer.update(rows[0], rows[1])
            layer.settle(None, 150)
        assert states.save(tokens, cache)
        with NearKVCache(pool) as found:
            assert states.load(tokens, found) == 150
            assert torch.equal(found.layers[1].rows(0, 150)[0], rows[0, 0])
