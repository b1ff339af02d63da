"""Sparse attention over latents in a pool, against DSA in plain torch and in transformers."""

import pytest
import torch

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import Device, Error, Pool, RowForm, Select, Status  # noqa: E402
from nearkv.sparse import ResidentRows, SparseLatents  # noqa: E402

pytestmark = pytest.mark.default
DEVICES = ("cpu:?memory=64MiB", "cpu:?memory=64MiB")


def random_rows(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def index_scores(queries: torch.Tensor, weights: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """DeepSeek's indexer: the sum over heads of weight * relu(query key), in float64."""
    return weights.double() @ (queries.double() @ keys.double().T).relu()


def assert_best(ids: torch.Tensor, scores: torch.Tensor, k: int) -> None:
    """Those of the highest scores, best first; nearly equal ones may change places."""
    assert len(set(ids.tolist())) == len(ids) == min(k, len(scores))
    best = scores.topk(len(ids)).values
    assert ((scores[ids] - best).abs() <= 1e-4 * best.abs().max()).all()


@pytest.mark.parametrize("device", ["cpu", "model"])
@pytest.mark.parametrize("tokens", [40, 64, 700])
def test_picks_what_the_indexer_would_pick(device: str, tokens: int) -> None:
    torch.manual_seed(tokens)
    devices = [f"{device}:?memory=64MiB"] * 2
    store = SparseLatents.create(*devices, layers=2)
    store.create_sequence(5)
    latents, keys = random_rows(tokens, 576), random_rows(tokens, 128)
    for begin, end in ((0, 1), (1, 100), (100, tokens)):
        store.append(5, 1, latents[begin:end], keys[begin:end])
    assert (store.tokens(5, 0), store.tokens(5, 1)) == (0, tokens)
    for k in (1, 32, 256):
        queries, weights = random_rows(64, 128), torch.randn(64)
        ids = store.select(5, 1, queries, weights, k=k)
        assert_best(ids, index_scores(queries, weights, keys), k)
        assert torch.equal(store.rows(5, 1, ids), latents[ids])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_token_sees_none_that_came_after_it(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    store = SparseLatents.create(*DEVICES, layers=1, dtype=dtype)
    store.create_sequence(1)
    keys = random_rows(200, 128, dtype=dtype)
    store.append(1, 0, random_rows(200, 576, dtype=dtype), keys)
    queries, weights = random_rows(16, 128, dtype=dtype), torch.randn(16)
    assert store.select(1, 0, queries, weights, k=32, tokens=0).tolist() == []
    for tokens in (1, 63, 64, 100, 192, 193, 200):  # Of 192 in pages and 8 behind them.
        ids = store.select(1, 0, queries, weights, k=32, tokens=tokens)
        assert_best(ids, index_scores(queries, weights, keys[:tokens]), 32)
    with pytest.raises(ValueError, match="tokens is 201"):
        store.select(1, 0, queries, weights, k=32, tokens=201)


def test_forks_share_pages_and_part_from_there() -> None:
    torch.manual_seed(4)
    store = SparseLatents.create(*DEVICES, layers=2)
    store.create_sequence(1)
    latents, keys = random_rows(200, 576), random_rows(200, 128)
    for layer in range(2):
        store.append(1, layer, latents, keys)
    pages = store.latents.usage().pages
    store.fork(1, 2, 200)  # Within the open page, at a page's end, within a page, of nothing.
    store.fork(1, 3, 192)
    store.fork(1, 4, 100)
    store.fork(1, 5, 0)
    assert store.latents.usage().pages == pages
    store.drop(1)
    queries, weights = random_rows(16, 128), torch.randn(16)
    for sequence, tokens in ((2, 200), (3, 192), (4, 100), (5, 0)):
        more_latents, more_keys = random_rows(70, 576), random_rows(70, 128)
        store.append(sequence, 1, more_latents, more_keys)
        assert (store.tokens(sequence, 0), store.tokens(sequence, 1)) == (tokens, tokens + 70)
        all_latents = torch.cat([latents[:tokens], more_latents])
        all_keys = torch.cat([keys[:tokens], more_keys])
        assert torch.equal(store.rows(sequence, 1, torch.arange(tokens + 70)), all_latents)
        ids = store.select(sequence, 1, queries, weights, k=50)
        assert_best(ids, index_scores(queries, weights, all_keys), 50)
    with pytest.raises(ValueError, match="tokens is 101; all layers have 100"):
        store.fork(4, 6, 101)


def test_a_fork_that_finds_no_room_leaves_nothing() -> None:
    forms = {"kv_heads": 1, "layers": 1, "v_form": RowForm.NONE}
    latents = Pool.create(Device(DEVICES[0]), head_dim=64, **forms)
    keys = Pool.create(
        Device(DEVICES[1]), head_dim=32, k_form=RowForm.RAW, max_sequences=1, **forms
    )
    store = SparseLatents(latents, keys)
    store.create_sequence(1)
    store.append(1, 0, random_rows(70, 64), random_rows(70, 32))
    with pytest.raises(Error) as failure:
        store.fork(1, 2, 70)
    assert failure.value.status == Status.POOL_FULL
    assert store.latents.usage().sequences == 1
    with pytest.raises(ValueError, match="no sequence 2"):
        store.append(2, 0, random_rows(1, 64), random_rows(1, 32))


def test_layers_without_an_indexer_keep_latents_only() -> None:
    torch.manual_seed(5)
    store = SparseLatents.create(*DEVICES, layers=3, index_layers=[0, 2])
    store.create_sequence(1)
    latents, keys = random_rows(100, 576), [random_rows(100, 128) for _ in range(3)]
    with pytest.raises(ValueError, match="layer 1 takes no keys"):
        store.append(1, 1, latents, keys[1])
    with pytest.raises(ValueError, match="layer 2 takes keys"):
        store.append(1, 2, latents)
    for layer in range(3):
        store.append(1, layer, latents, None if layer == 1 else keys[layer])
    store.fork(1, 2, 90)
    queries, weights = random_rows(16, 128), torch.randn(16)
    for layer in (0, 2):
        ids = store.select(2, layer, queries, weights, k=50)
        assert_best(ids, index_scores(queries, weights, keys[layer][:90]), 50)
    assert torch.equal(store.rows(2, 1, torch.arange(90)), latents[:90])
    with pytest.raises(ValueError, match="layer 1 has no indexer"):
        store.select(2, 1, queries, weights, k=50)
    with pytest.raises(ValueError, match=r"not a pair for indexers in layers \[0\]"):
        SparseLatents(store.latents, store.keys, index_layers=[0])


def test_attention_over_resident_rows_is_dsa_and_little_crosses_the_link() -> None:
    """Of 4,096 tokens 256 are picked, by queries that turn slowly as those of a text do."""
    torch.manual_seed(0)
    tokens, k, heads, dims = 4096, 256, 16, (576, 512)
    store = SparseLatents.create(*DEVICES, layers=1)
    store.create_sequence(1)
    latents, keys = random_rows(tokens, 576), random_rows(tokens, 128)
    store.append(1, 0, latents, keys)
    resident = ResidentRows(store, 1, 0, capacity=2 * k)
    store.latents.reset_stats(), store.keys.reset_stats()
    drifting, weights, steps = torch.randn(64, 128), torch.rand(64), 16
    for _ in range(steps):
        drifting += 0.1 * torch.randn(64, 128)
        queries, query = drifting.bfloat16(), torch.randn(heads, 576)
        slots = resident.load(store.select(1, 0, queries, weights, k=k))
        rows = resident.rows[slots].float()
        output = (query @ rows.T / 24).softmax(-1) @ rows[:, : dims[1]]
        chosen = index_scores(queries, weights, keys).topk(k).indices
        exact = latents[chosen].double()
        exact = (query.double() @ exact.T / 24).softmax(-1) @ exact[:, : dims[1]]
        assert (output - exact).abs().max() < 1e-3 * exact.abs().max()
        new_latents, new_keys = random_rows(1, 576), random_rows(1, 128)
        store.append(1, 0, new_latents, new_keys)
        latents, keys = torch.cat([latents, new_latents]), torch.cat([keys, new_keys])
    assert resident.hits + resident.misses == steps * k
    assert resident.hits > resident.misses
    crossed = sum(
        stats.link_to_device_bytes + stats.link_from_device_bytes
        for stats in (store.latents.stats(), store.keys.stats())
    )
    moved_whole = steps * tokens * (576 + 128) * 2
    print(f"over the link: {crossed / steps:.0f} bytes a token, {crossed / moved_whole:.4f} of all")
    # The rows that were missing, and for each token its queries, weights, ids and scores.
    most = resident.misses * (576 * 2 + 4) + steps * (64 * (128 * 2 + 4) + k * 8 + 2048)
    assert crossed <= most
    assert crossed < 0.03 * moved_whole


def test_what_was_not_picked_for_longest_makes_room() -> None:
    store = SparseLatents.create(*DEVICES, layers=1)
    store.create_sequence(1)
    latents = random_rows(200, 576)
    store.append(1, 0, latents, random_rows(200, 128))
    resident = ResidentRows(store, 1, 0, capacity=4)
    steps = (
        ([0, 1, 2, 199], 4),
        ([2, 0], 4),
        ([7, 8, 0], 6),
        ([2], 6),
        ([9, 9, 7], 7),
        ([8, 0], 8),
    )
    for ids, misses in steps:
        slots = resident.load(torch.tensor(ids))
        assert torch.equal(resident.rows[slots], latents[ids])
        assert resident.misses == misses
    with pytest.raises(ValueError, match="capacity of 4"):
        resident.load(torch.arange(5))
    # A fork begins with what is resident, and each goes on alone.
    store.fork(1, 2, 200)
    other = resident.fork(2)
    other.load(torch.tensor([8, 0, 50, 51]))
    assert (other.hits, other.misses, resident.misses) == (2, 2, 8)
    assert torch.equal(other.rows[other.load(torch.tensor([51, 8]))], latents[[51, 8]])
    slots = resident.load(torch.tensor([9, 7, 8, 0]))
    assert (torch.equal(resident.rows[slots], latents[[9, 7, 8, 0]]), resident.misses) == (True, 8)


def test_sequences_do_not_mix_and_give_all_back() -> None:
    store = SparseLatents.create(*DEVICES, layers=1)
    rows = {}
    for sequence in (1, 2):
        store.create_sequence(sequence)
        rows[sequence] = random_rows(130, 576)
        store.append(sequence, 0, rows[sequence], random_rows(130, 128))
    for sequence, latents in rows.items():
        assert torch.equal(store.rows(sequence, 0, torch.arange(130)), latents)
        store.drop(sequence)
        with pytest.raises(ValueError, match="no sequence"):
            store.rows(sequence, 0, torch.arange(1))
    assert (store.latents.usage().pages, store.keys.usage().pages) == (0, 0)


def test_latents_that_find_no_room_change_nothing() -> None:
    torch.manual_seed(3)
    store = SparseLatents.create("cpu:?memory=4MiB", DEVICES[1], layers=1, max_sequences=2)
    store.create_sequence(1)
    latents, keys = random_rows(4096, 576), random_rows(4096, 128)
    store.append(1, 0, latents[:100], keys[:100])
    with pytest.raises(Error) as failure:
        store.append(1, 0, latents[100:], keys[100:])
    assert failure.value.status == Status.POOL_FULL
    assert store.tokens(1, 0) == 100
    queries, weights = random_rows(4, 128), torch.rand(4)
    ids = store.select(1, 0, queries, weights, k=50)
    assert_best(ids, index_scores(queries, weights, keys[:100]), 50)
    # What comes instead are other tokens.
    latents = torch.cat([latents[:100], random_rows(200, 576)])
    keys = torch.cat([keys[:100], random_rows(200, 128)])
    store.append(1, 0, latents[100:], keys[100:])
    ids = store.select(1, 0, queries, weights, k=50)
    assert_best(ids, index_scores(queries, weights, keys), 50)
    assert torch.equal(store.rows(1, 0, ids), latents[ids])


def test_keys_that_find_no_room_wait_and_no_more_are_taken() -> None:
    torch.manual_seed(6)
    store = SparseLatents.create(DEVICES[0], "cpu:?memory=2MiB", layers=1, max_sequences=4)
    latents, keys = random_rows(6000, 576), random_rows(6000, 128)
    queries, weights = random_rows(4, 128), torch.rand(4)

    def assert_finds(sequence: int, tokens: int) -> None:
        assert store.tokens(sequence, 0) == tokens
        ids = store.select(sequence, 0, queries, weights, k=50)
        assert_best(ids, index_scores(queries, weights, keys[:tokens]), 50)

    for sequence, tokens in ((1, 6000), (2, 2000), (3, 1500)):  # The first one's keys fit.
        store.create_sequence(sequence)
        store.append(sequence, 0, latents[:tokens], keys[:tokens])
        assert_finds(sequence, tokens)
    assert (store.keys.tokens(2, 0), store.keys.tokens(3, 0)) == (0, 0)
    for call in (
        lambda: store.append(2, 0, latents[2000:2001], keys[2000:2001]),
        lambda: store.fork(3, 4, 1500),
    ):
        with pytest.raises(Error) as failure:
            call()
        assert failure.value.status == Status.POOL_FULL
    assert store.latents.usage().sequences == 3
    assert_finds(2, 2000)

    store.drop(1)
    store.append(2, 0, latents[2000:2200], keys[2000:2200])
    store.fork(3, 4, 1500)
    for sequence, tokens in ((2, 2200), (3, 1500), (4, 1500)):
        assert store.keys.tokens(sequence, 0) == tokens // 64 * 64
        assert_finds(sequence, tokens)


def test_what_does_not_fit_is_refused() -> None:
    store = SparseLatents.create(*DEVICES, layers=1)
    store.create_sequence(1)
    with pytest.raises(ValueError, match=r"latents are torch.float32 \[2, 576\]"):
        store.append(1, 0, torch.zeros(2, 576), random_rows(2, 128))
    with pytest.raises(ValueError, match="not of one run"):
        store.append(1, 0, random_rows(2, 576), random_rows(3, 128))
    store.append(1, 0, random_rows(70, 576), random_rows(70, 128))
    with pytest.raises(ValueError, match="k is 0"):
        store.select(1, 0, random_rows(4, 128), torch.ones(4), k=0)
    with pytest.raises(ValueError, match="one element per query row"):
        store.keys.top_k(
            1, 0, 0, random_rows(4, 128), 5, mode=Select.INDEXER, weights=torch.ones(3)
        )
    with pytest.raises(ValueError, match="INDEXER, which needs them"):
        store.keys.top_k(1, 0, 0, random_rows(4, 128), 5, mode=Select.INDEXER)
    plain = Pool.create(Device(DEVICES[0]), layers=1, kv_heads=1, head_dim=128)
    with pytest.raises(ValueError, match=r"not torch.float32"):
        SparseLatents.create(*DEVICES, layers=1, dtype=torch.float32)
    with pytest.raises(ValueError, match="v_form NONE"):
        SparseLatents(store.latents, plain)
    compact = {"kv_heads": 1, "head_dim": 128, "v_form": RowForm.NONE}
    with pytest.raises(ValueError, match="k_form RAW"):
        SparseLatents(store.latents, Pool.create(Device(DEVICES[0]), layers=1, **compact))


def test_deepseek_v32_of_transformers_attends_to_the_same() -> None:
    """A decoding step of its first layer: what its indexer picks, and what its attention gives."""
    modeling = pytest.importorskip("transformers.models.deepseek_v32.modeling_deepseek_v32")
    torch.manual_seed(0)
    config = modeling.DeepseekV32Config(
        vocab_size=97,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=1,
        num_attention_heads=8,
        num_key_value_heads=8,
        kv_lora_rank=48,
        q_lora_rank=32,
        qk_rope_head_dim=16,
        qk_nope_head_dim=32,
        v_head_dim=16,
        index_topk=40,
        index_head_dim=32,
        index_n_heads=4,
    )
    model = modeling.DeepseekV32ForCausalLM(config).bfloat16().eval()
    attention, seen = model.model.layers[0].self_attn, {}

    def remember(name: str):
        def hook(_, arguments, *result) -> None:
            seen[name] = (arguments, *result)

        return hook

    attention.indexer.register_forward_hook(remember("indexer"))
    attention.q_b_proj.register_forward_hook(remember("query"))
    attention.o_proj.register_forward_pre_hook(remember("output"))
    tokens = torch.randint(1, 97, (1, 301))
    with torch.no_grad():
        cache = model(tokens[:, :300], use_cache=True).past_key_values
        model(tokens[:, 300:], past_key_values=cache, use_cache=True)
    (hidden, q_resid, (cos, sin), *_), picked = seen["indexer"]
    layer = cache.layers[0]
    latents = torch.cat([layer.keys, layer.values], -1)[0, 0]
    dims = {"latent_dim": 64, "value_dim": 48, "key_dim": 32}
    store = SparseLatents.create(*DEVICES, layers=1, **dims)
    store.create_sequence(1)
    store.append(1, 0, latents, layer.indexer_keys[0])

    indexer = attention.indexer
    queries = indexer.wq_b(q_resid).view(1, 1, 4, 32)
    rotated, _ = modeling.apply_rotary_pos_emb(
        queries[..., :16], queries[..., :16], cos, sin, unsqueeze_dim=2
    )
    queries = torch.cat([rotated, queries[..., 16:]], -1)[0, 0]
    weights = indexer.weights_proj(hidden)[0, 0].float() * 4**-0.5 * indexer.softmax_scale
    ids = store.select(1, 0, queries.detach(), weights.detach(), k=40)
    scores = index_scores(queries, weights, layer.indexer_keys[0])
    assert_best(ids, scores, 40)
    assert_best(picked[0, 0].long(), scores, 40)

    rows = ResidentRows(store, 1, 0, capacity=64)
    near = rows.rows[rows.load(ids)].float()
    query = seen["query"][1].view(1, 1, 8, 48).transpose(1, 2)
    plain, turning = query.split([32, 16], -1)
    turned, _ = modeling.apply_rotary_pos_emb_interleave(turning, turning, cos, sin)
    to_keys, to_values = attention.kv_b_proj.weight.float().view(8, 48, 48).split([32, 16], 1)
    absorbed = torch.cat([plain[0].float() @ to_keys, turned[0].float()], -1)
    output = (absorbed @ near.T * attention.scaling).softmax(-1) @ near[:, :48]
    output = (output @ to_values.transpose(1, 2)).flatten()
    expected = seen["output"][0][0].flatten().float()
    assert (output - expected).abs().max() < 0.02 * expected.abs().max()
