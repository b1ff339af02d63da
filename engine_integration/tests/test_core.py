"""The binding: what engines call, against attention in float64."""

import errno
import gc

import numpy
import pytest
import torch

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from engine_integration.tests.gil import gives_it_away  # noqa: E402
from nearkv.core import (  # noqa: E402
    Codec,
    Device,
    Dtype,
    Error,
    Pool,
    RowForm,
    Status,
    Tensor,
)

pytestmark = pytest.mark.quick

HEADS, TOKENS, DIM = 2, 320, 64
SCALE = DIM**-0.5
# What a result may be off by, relative to the largest element of O: rounding only.
TOLERANCE = 2e-5


@pytest.fixture(params=["cpu:?memory=32MiB", "model:?memory=32MiB"])
def device(request: pytest.FixtureRequest) -> Device:
    return Device(request.param)


@pytest.fixture
def pool(device: Device) -> Pool:
    made = Pool.create(device, layers=2, kv_heads=HEADS, head_dim=DIM)
    made.create_sequence(1)
    return made


def random_rows(tokens: int = TOKENS, seed: int = 0, dtype: torch.dtype = torch.bfloat16):
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, HEADS, tokens, DIM, generator=generator).to(dtype)
    return keys, values


def random_queries(rows: int = 3, seed: int = 7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(HEADS, rows, DIM, generator=generator).to(torch.bfloat16)


def reference(queries, keys, values, visible=slice(None), soft_cap: float = 0.0):
    """O and LSE in float64 over the visible tokens."""
    keys, values = keys[:, visible].double(), values[:, visible].double()
    logits = queries.double() @ keys.transpose(1, 2) * SCALE
    if soft_cap:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    return (logits.softmax(-1) @ values).numpy(), logits.logsumexp(-1).numpy()


def assert_close(result, wanted, tolerance: float = TOLERANCE) -> None:
    for got, exact in zip(result, wanted, strict=True):
        assert got.dtype == numpy.float32
        assert numpy.abs(got - exact).max() <= tolerance * max(1, numpy.abs(exact).max())


@pytest.mark.parametrize("form", [RowForm.RAW, RowForm.DELTA4])
@pytest.mark.parametrize("query_dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_dense_attention_is_exact(device: Device, form: RowForm, query_dtype: torch.dtype) -> None:
    pool = Pool.create(device, layers=1, kv_heads=HEADS, head_dim=DIM, k_form=form, v_form=form)
    pool.create_sequence(5)
    keys, values = random_rows()
    pool.append(5, 0, keys, values)
    queries = random_queries().to(query_dtype)
    assert_close(pool.attend(5, 0, queries, scale=SCALE), reference(queries, keys, values))


@pytest.mark.parametrize("dim", [16, 48, 80, 128, 192, 576])
def test_every_width_of_heads(device: Device, dim: int) -> None:
    pool = Pool.create(device, layers=1, kv_heads=1, head_dim=dim)
    pool.create_sequence(1)
    torch.manual_seed(dim)
    keys, values, queries = torch.randn(3, 1, 128, dim).to(torch.bfloat16)
    pool.append(1, 0, keys, values)
    scaled = queries * (DIM / dim) ** 0.5  # reference() divides by the root of DIM.
    assert_close(pool.attend(1, 0, scaled, scale=SCALE), reference(scaled, keys, values))


def test_fp16_rows_are_kept_raw(device: Device) -> None:
    pool = Pool.create(device, layers=1, kv_heads=HEADS, head_dim=DIM, dtype=Dtype.FP16)
    assert (pool.dtype, pool.k_form, pool.v_form) == (Dtype.FP16, RowForm.RAW, RowForm.RAW)
    pool.create_sequence(1)
    keys, values = random_rows(dtype=torch.float16)
    pool.append(1, 0, keys, values)
    queries = random_queries()
    assert_close(pool.attend(1, 0, queries, scale=SCALE), reference(queries, keys, values))


def test_mla_values_are_the_leading_key_channels(device: Device) -> None:
    pool = Pool.create(
        device, layers=1, kv_heads=HEADS, head_dim=DIM, value_dim=48, v_form=RowForm.NONE
    )
    pool.create_sequence(1)
    keys, _ = random_rows()
    pool.append(1, 0, keys)
    queries = random_queries()
    output, lse = pool.attend(1, 0, queries, scale=SCALE)
    assert output.shape == (HEADS, 3, 48)
    assert_close((output, lse), reference(queries, keys, keys[..., :48]))


@pytest.mark.parametrize("layout", ["heads first", "tokens first", "numpy uint16", "padded"])
def test_rows_may_lie_in_any_order(pool: Pool, layout: str) -> None:
    keys, values = random_rows()

    def lay_out(rows: torch.Tensor):
        match layout:
            case "tokens first":
                return rows.transpose(0, 1).contiguous().transpose(0, 1)
            case "numpy uint16":
                return rows.view(torch.uint16).numpy()
            case "padded":
                return torch.nn.functional.pad(rows, (0, 8))[..., :DIM]
        return rows

    pool.append(1, 0, lay_out(keys), lay_out(values))
    for head in range(HEADS):
        stored_keys, stored_values = pool.read(1, 0, head, 0, TOKENS)
        assert (stored_keys == keys[head].view(torch.uint16).numpy()).all()
        assert (stored_values == values[head].view(torch.uint16).numpy()).all()


def test_limit_window_sinks_and_soft_cap(pool: Pool) -> None:
    keys, values = random_rows()
    pool.append(1, 0, keys, values)
    queries = random_queries()
    visible = [0, 1, 2, *range(200 - 70, 200)]
    assert_close(
        pool.attend(1, 0, queries, scale=SCALE, tokens=200, window=70, sinks=3, soft_cap=2.0),
        reference(queries, keys, values, visible, soft_cap=2.0),
    )


def test_nothing_visible_is_zero_and_minus_infinity(pool: Pool) -> None:
    output, lse = pool.attend(1, 0, random_queries(), scale=SCALE)
    assert (output == 0).all()
    assert (lse == -numpy.inf).all()


def test_sequences_go_together_and_heads_alone(pool: Pool) -> None:
    pool.create_sequence(2)
    rows = {1: random_rows(), 2: random_rows(64, seed=1)}
    for sequence, (keys, values) in rows.items():
        pool.append(sequence, 1, keys, values)
    queries = random_queries()
    output, lse = pool.attend([2, 1], 1, torch.stack([queries, queries]), scale=SCALE)
    assert_close((output[0], lse[0]), reference(queries, *rows[2]))
    assert_close((output[1], lse[1]), reference(queries, *rows[1]))
    alone, _ = pool.attend(1, 1, queries[1:], scale=SCALE, first_kv_head=1)
    assert (alone[0] == output[1, 1]).all()


def test_each_sequence_of_a_batch_fails_for_itself(pool: Pool) -> None:
    keys, values = random_rows()
    pool.append(1, 1, keys, values)
    queries = torch.stack([random_queries()] * 3)
    with pytest.raises(Error, match="sequence 7, layer 1, KV head 0") as failure:
        pool.attend([1, 7, 1], 1, queries, scale=SCALE)
    assert failure.value.statuses == (Status.OK, Status.NOT_FOUND, Status.OK)
    with pytest.raises(Error) as alone:
        pool.attend(7, 1, queries[0], scale=SCALE)
    assert alone.value.statuses == ()


def test_more_rows_than_a_command_takes(pool: Pool) -> None:
    keys, values = random_rows(64)
    pool.append(1, 0, keys, values)
    queries = random_queries(rows=300)
    assert_close(pool.attend(1, 0, queries, scale=SCALE), reference(queries, keys, values))


def test_top_k_is_that_of_a_full_sort(pool: Pool) -> None:
    keys, values = random_rows()
    pool.append(1, 0, keys, values)
    queries = random_queries()
    ids, scores, counts = pool.top_k(1, 0, 1, queries[1], 10, scale=SCALE)
    exact = queries[1].double() @ keys[1].double().T * SCALE
    best = exact.topk(10)
    assert (counts == 10).all()
    assert (ids == best.indices.numpy()).all()
    assert numpy.allclose(scores, best.values.numpy(), rtol=1e-5)


def test_gather_gives_chosen_rows(pool: Pool) -> None:
    keys, values = random_rows()
    pool.append(1, 0, keys, values)
    ids = [319, 0, 64, 63, 64]
    key_rows, value_rows = pool.gather(1, 0, 0, ids)
    assert (key_rows == keys[0, ids].view(torch.uint16).numpy()).all()
    assert (value_rows == values[0, ids].view(torch.uint16).numpy()).all()


def test_forks_share_pages_and_grow_apart(pool: Pool) -> None:
    keys, values = random_rows(128)
    for layer in range(2):
        pool.append(1, layer, keys, values)
    pages = pool.usage().pages
    pool.fork(1, 2, 64)
    assert pool.usage().pages == pages
    more = random_rows(64, seed=9)
    pool.append(2, 0, *more)
    queries = random_queries()
    grown = [torch.cat([a[:, :64], b], 1) for a, b in zip((keys, values), more, strict=True)]
    assert_close(pool.attend(2, 0, queries, scale=SCALE), reference(queries, *grown))
    assert_close(pool.attend(1, 0, queries, scale=SCALE), reference(queries, keys, values))
    assert pool.scrub(1) == 2 * HEADS * 2
    pool.drop(1)
    pool.drop(2)
    assert (pool.usage().pages, pool.usage().sequences) == (0, 0)


def test_a_sequence_is_cooled_and_warmed_without_loss(pool: Pool) -> None:
    keys, values = random_rows()
    pool.append(1, 0, keys, values)
    warm_bytes = pool.usage().page_bytes
    pool.transcode(1, Codec.PLANES_ZSTD)
    assert pool.usage().page_bytes < warm_bytes
    with pytest.raises(Error) as caught:
        pool.read(1, 0, 0, 0, 1)
    assert caught.value.status == Status.COLD_PAGE
    pool.transcode(1, Codec.NONE)
    stored_keys, _ = pool.read(1, 0, 0, 0, TOKENS)
    assert (stored_keys == keys[0].view(torch.uint16).numpy()).all()


def test_statistics_count_the_link_and_the_near_reads(pool: Pool) -> None:
    keys, values = random_rows()
    pool.append(1, 0, keys, values)
    pool.reset_stats()
    assert pool.stats().commands == 0
    queries = random_queries()
    pool.attend(1, 0, queries, scale=SCALE)
    stats = pool.stats()
    assert stats.commands == HEADS
    assert stats.link_to_device_bytes >= queries.numel() * queries.element_size()
    assert stats.link_from_device_bytes >= HEADS * 3 * (DIM + 1) * 4
    rows_bytes = 2 * HEADS * TOKENS * DIM * 2
    assert 0.5 * rows_bytes < stats.near_bytes < 1.5 * rows_bytes


def test_a_pool_keeps_its_device_alive() -> None:
    device = Device("cpu:?memory=16MiB")
    pool = Pool.create(device, layers=1, kv_heads=HEADS, head_dim=DIM)
    del device
    gc.collect()
    pool.create_sequence(1)
    keys, values = random_rows(64)
    pool.append(1, 0, keys, values)
    output, lse = pool.attend(1, 0, random_queries(), scale=SCALE)
    del pool
    gc.collect()
    assert_close((output, lse), reference(random_queries(), keys, values))


def test_a_pool_in_a_file_is_found_again(tmp_path) -> None:
    uri = f"cpu:{tmp_path / 'pool'}?memory=16MiB"
    shape = {"layers": 1, "kv_heads": HEADS, "head_dim": DIM}
    keys, values = random_rows()
    pool = Pool.create(Device(uri), **shape)
    pool.create_sequence(4)
    pool.append(4, 0, keys, values)
    del pool
    gc.collect()
    again = Pool.open(Device(uri), **shape)
    assert again.tokens(4, 0) == TOKENS
    queries = random_queries()
    assert_close(again.attend(4, 0, queries, scale=SCALE), reference(queries, keys, values))
    with pytest.raises(Error, match="has this pool open") as failure:
        Pool.open(Device(uri), **shape)
    assert failure.value.status == Status.BUSY
    del again
    gc.collect()
    with pytest.raises(Error, match="another shape") as failure:
        Pool.open(Device(uri), **(shape | {"layers": 2}))
    assert failure.value.status == Status.BAD_POOL


def test_other_threads_run_meanwhile(pool: Pool) -> None:
    keys, values = random_rows()
    pool.append(1, 0, keys, values)
    queries = random_queries()
    assert gives_it_away(lambda: pool.attend(1, 0, queries, scale=SCALE))


@pytest.mark.parametrize(
    ("call", "status", "number", "text"),
    [
        (lambda pool: pool.drop(99), Status.NOT_FOUND, errno.ENOENT, "99"),
        (lambda pool: pool.create_sequence(1), Status.EXISTS, errno.EEXIST, "exists"),
        (
            lambda pool: pool.append(1, 0, *random_rows(63)),
            Status.BAD_ARGUMENT,
            errno.EINVAL,
            "whole pages of 64 tokens",
        ),
        (
            lambda pool: pool.append(1, 0, *random_rows(64 * 2000)),
            Status.POOL_FULL,
            errno.ENOSPC,
            "drop or unpin something",
        ),
        (
            lambda pool: pool.attend(1, 0, random_queries() * torch.nan, scale=SCALE),
            Status.BAD_QUERY,
            errno.EDOM,
            "sequence 1, layer 0, KV head 0",
        ),
        (
            lambda pool: Device("cpu:?memory=lots"),
            Status.BAD_URI,
            errno.EINVAL,
            "memory",
        ),
        (lambda pool: Device("nothing:"), Status.NO_DEVICE, errno.ENODEV, "libnearkv_nothing.so"),
    ],
)
def test_errors_say_what_and_where(pool: Pool, call, status, number, text) -> None:
    with pytest.raises(Error, match=text) as failure:
        call(pool)
    assert isinstance(failure.value, OSError)
    assert (failure.value.status, failure.value.errno) == (status, number)


@pytest.mark.parametrize(
    ("kind", "text", "call"),
    [
        (ValueError, r"keys must have shape \[2, \*, 64\], not \[1, 320, 64\]",
         lambda pool, k, v, q: pool.append(1, 0, k[:1], v)),
        (ValueError, "values must have shape",
         lambda pool, k, v, q: pool.append(1, 0, k, v[:, :64])),
        (TypeError, "keys must have the pool's dtype",
         lambda pool, k, v, q: pool.append(1, 0, k.half(), v)),
        (TypeError, "values: no such element type",
         lambda pool, k, v, q: pool.append(1, 0, k, v.double())),
        (ValueError, "last axis must be contiguous",
         lambda pool, k, v, q: pool.append(1, 0, torch.cat([k, k], -1)[..., ::2], v)),
        (ValueError, "no stride negative",
         lambda pool, k, v, q: pool.append(1, 0, k.view(torch.uint16).numpy()[:, ::-1], v)),
        (ValueError, "queries must have shape",
         lambda pool, k, v, q: pool.attend(1, 0, q[0], scale=1)),
        (ValueError, "queries must have shape",
         lambda pool, k, v, q: pool.attend([1, 1], 0, q, scale=1)),
        (ValueError, "queries must be contiguous",
         lambda pool, k, v, q: pool.attend(1, 0, q[:, ::2], scale=1)),
        (ValueError, "more KV heads",
         lambda pool, k, v, q: pool.attend(1, 0, q, scale=1, first_kv_head=1)),
        (TypeError, "incompatible function arguments",
         lambda pool, k, v, q: pool.attend(1, 0, q, scale=1, bound=numpy.zeros((HEADS, 4)))),
        (ValueError, "bound must have",
         lambda pool, k, v, q: pool.attend(1, 0, q, scale=1, bound=numpy.zeros(2, numpy.float32))),
        (TypeError, "incompatible function arguments",
         lambda pool, k, v, q: pool.append(1, 0, "k", v)),
    ],
)  # fmt: skip
def test_wrong_arrays_are_refused_and_change_nothing(pool: Pool, kind, text, call) -> None:
    with pytest.raises(kind, match=text):
        call(pool, *random_rows(), random_queries())
    assert pool.tokens(1, 0) == 0


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("tensor", [Tensor.KEYS, Tensor.VALUES])
def test_codecs_give_blocks_back(codec: Codec, tensor: Tensor) -> None:
    rows = random_rows(64)[0][0]
    if not core.codec_supports(codec, tensor, Dtype.BF16, DIM):
        with pytest.raises(Error):
            core.encode_block(codec, tensor, rows)
        return
    encoded = core.encode_block(codec, tensor, rows)
    decoded = core.decode_block(codec, tensor, encoded, Dtype.BF16, DIM)
    if codec in (Codec.INT8, Codec.INT4, Codec.FP8):
        assert len(encoded) < 0.7 * rows.numel() * 2
        off = torch.from_numpy(decoded).view(torch.bfloat16).float() - rows.float()
        assert 0 < off.abs().max() < 0.5
    else:
        assert (decoded == rows.view(torch.uint16).numpy()).all()
    if codec is not Codec.NONE:
        with pytest.raises(Error):
            core.decode_block(codec, tensor, encoded[:-1], Dtype.BF16, DIM)
