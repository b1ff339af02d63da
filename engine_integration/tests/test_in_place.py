"""Pools in memory of the engine's own, and rows that are read where they lie."""

import gc

import numpy as np
import pytest
import torch

core = pytest.importorskip("nearkv.core", exc_type=ImportError)
from nearkv.core import Codec, Device, Dtype, Error, Pool, RowForm, Status  # noqa: E402

pytestmark = pytest.mark.quick

MIB = 1 << 20
SHAPE = {"layers": 1, "kv_heads": 2, "head_dim": 32, "dtype": Dtype.FP16}
KEYS, VALUES = torch.randn(2, 2, 320, 32, generator=torch.Generator().manual_seed(1)).half()


def pool_in(memory, **shape) -> Pool:
    pool = Pool.create(Device("cpu:?threads=1", memory=memory), **SHAPE | shape)
    pool.create_sequence(1)
    return pool


def halves(rows: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(rows.view(np.float16).copy())


LENDERS = {
    "bytearray": bytearray,
    "numpy": lambda size: np.zeros(size, np.uint8),
    "torch": lambda size: torch.zeros(size // 4),
    "a part of a tensor": lambda size: torch.zeros(size + 100, dtype=torch.uint8)[37:-63],
}


@pytest.mark.parametrize("lender", LENDERS)
def test_pages_lie_in_what_the_engine_has(lender: str) -> None:
    memory = LENDERS[lender](16 * MIB)
    pool = pool_in(memory)
    pool.append(1, 0, KEYS, VALUES)
    whole = np.frombuffer(memory, np.uint8) if not torch.is_tensor(memory) else memory.numpy()
    for head in range(2):
        pages = pool.rows_in_place(1, 0, head)
        assert len(pages) == 5
        for page, (keys, values) in enumerate(pages):
            tokens = slice(64 * page, 64 * page + 64)
            assert torch.equal(halves(keys), KEYS[head, tokens])
            assert torch.equal(halves(values), VALUES[head, tokens])
            assert np.shares_memory(keys, whole)
            assert np.shares_memory(values, whole)


def test_what_is_copied_is_counted() -> None:
    """Rows in place cost nothing; the same rows by a command cross the link."""
    pool = pool_in(bytearray(16 * MIB))
    pool.append(1, 0, KEYS, VALUES)
    rows_bytes = KEYS[0].nbytes + VALUES[0].nbytes
    assert pool.stats().link_to_device_bytes >= 2 * rows_bytes  # Once, when they are built.
    pool.reset_stats()
    pages = pool.rows_in_place(1, 0, 0)
    query = torch.randn(1, 32)
    keys, values = (torch.cat([halves(page[i]) for page in pages]).float() for i in (0, 1))
    here = (query @ keys.T * 0.2).softmax(-1) @ values
    assert pool.stats().commands == pool.stats().link_from_device_bytes == 0
    pool.read(1, 0, 0, 0, 320)
    assert pool.stats().link_from_device_bytes >= rows_bytes
    queries = query.expand(2, 1, 32).contiguous()
    near, _ = pool.attend(1, 0, queries, scale=0.2)
    assert np.abs(near[0] - here.numpy()).max() < 1e-3


def test_memory_cannot_be_given_up_while_a_pool_is_in_it() -> None:
    memory = bytearray(16 * MIB)
    pool = pool_in(memory)
    pool.append(1, 0, KEYS, VALUES)
    ((keys, _), *_) = pool.rows_in_place(1, 0, 0)
    del pool
    gc.collect()
    with pytest.raises(BufferError):
        memory.extend(b"x")  # A view is left.
    assert torch.equal(halves(keys), KEYS[0, :64])
    del keys, _
    gc.collect()
    memory.extend(b"x")


def test_a_tensor_that_its_owner_forgets_lives_on() -> None:
    pool = pool_in(torch.zeros(16 * MIB, dtype=torch.uint8))
    gc.collect()
    others = [torch.full((16 * MIB,), 255, dtype=torch.uint8) for _ in range(3)]
    pool.append(1, 0, KEYS, VALUES)
    assert pool.scrub(1) == 10
    assert all(int(other.min()) == 255 for other in others)


def test_a_fork_keeps_what_is_looked_at() -> None:
    pool = pool_in(bytearray(16 * MIB))
    pool.append(1, 0, KEYS, VALUES)
    pages = pool.rows_in_place(1, 0, 0)
    pool.fork(1, 2, 320)
    pool.drop(1)
    for sequence in range(3, 8):
        pool.create_sequence(sequence)
        pool.append(sequence, 0, KEYS + 1, VALUES + 1)
    for page, (keys, _) in enumerate(pages):
        assert torch.equal(halves(keys), KEYS[0, 64 * page : 64 * page + 64])


def test_views_are_not_written_to() -> None:
    pool = pool_in(bytearray(16 * MIB))
    pool.append(1, 0, KEYS, VALUES)
    ((keys, _), *_) = pool.rows_in_place(1, 0, 0)
    with pytest.raises(ValueError, match="read-only"):
        keys[0, 0] = 1


def test_damage_is_noticed() -> None:
    memory = bytearray(16 * MIB)
    pool = pool_in(memory)
    pool.append(1, 0, KEYS, VALUES)
    ((keys, _), *_) = pool.rows_in_place(1, 0, 1)
    memory[keys.ctypes.data - np.frombuffer(memory, np.uint8).ctypes.data + 5] ^= 1
    with pytest.raises(Error) as failure:
        pool.rows_in_place(1, 0, 1)
    assert failure.value.status == Status.CORRUPT
    assert len(pool.rows_in_place(1, 0, 0)) == 5


def test_rows_that_do_not_lie_there_as_they_came() -> None:
    pool = pool_in(bytearray(16 * MIB), dtype=Dtype.BF16)
    pool.append(1, 0, KEYS.bfloat16(), VALUES.bfloat16())
    with pytest.raises(Error, match="v_form RAW") as failure:
        pool.rows_in_place(1, 0, 0)
    assert failure.value.status == Status.UNSUPPORTED
    raw = {"k_form": RowForm.RAW, "v_form": RowForm.NONE, "value_dim": 16}
    latents = pool_in(bytearray(16 * MIB), dtype=Dtype.BF16, **raw)
    latents.append(1, 0, KEYS.bfloat16())
    ((keys, values), *_) = latents.rows_in_place(1, 0, 0)
    assert torch.equal(torch.from_numpy(keys.copy()).view(torch.bfloat16), KEYS[0, :64].bfloat16())
    assert values.shape == (64, 0)
    latents.transcode(1, Codec.PLANES_LZ4)
    with pytest.raises(Error) as failure:
        latents.rows_in_place(1, 0, 0)
    assert failure.value.status == Status.COLD_PAGE
    with pytest.raises(Error) as failure:
        latents.rows_in_place(9, 0, 0)
    assert failure.value.status == Status.NOT_FOUND


@pytest.mark.parametrize(
    ("uri", "memory", "error", "said"),
    [
        ("cpu:", bytearray(100), Error, "none in a whole piece"),
        ("cpu:", bytearray(0), Error, "lend more"),
        ("cpu:", bytes(MIB), ValueError, "writable"),
        ("cpu:", "text", TypeError, "lends no memory"),
        ("cpu:", np.zeros((8, MIB), np.uint8)[:, ::2], ValueError, "contiguous"),
        ("cpu:?memory=1MiB", bytearray(MIB), Error, "memory= is for memory that the device maps"),
        ("cpu:/dev/shm/x", bytearray(MIB), Error, "a path names memory"),
        ("cpu:?speed=1", bytearray(MIB), Error, "unknown option 'speed'"),
        ("model:", bytearray(MIB), Error, "only cpu:"),
        ("nonsense", bytearray(MIB), Error, "SCHEME"),
    ],
)
def test_what_cannot_be_is_refused(uri: str, memory, error, said: str) -> None:
    with pytest.raises(error, match=said):
        Device(uri, memory=memory)


def test_too_little_memory_for_a_pool_says_so() -> None:
    with pytest.raises(Error) as failure:
        pool_in(bytearray(8192))
    assert failure.value.status == Status.POOL_FULL


def test_a_model_may_have_its_cache_there() -> None:
    transformers = pytest.importorskip("transformers")
    from nearkv.transformers import ATTENTION, NearKVCache, make_pool

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=64, num_attention_heads=4, num_hidden_layers=2, pad_token_id=0
    )
    model = transformers.LlamaForCausalLM(config).half().eval()
    tokens = torch.randint(1, 97, (1, 300), generator=torch.Generator().manual_seed(4))
    options = {"max_new_tokens": 20, "do_sample": False, "attention_mask": torch.ones_like(tokens)}
    plain = model.generate(tokens, **options)
    model.set_attn_implementation(ATTENTION)
    memory = torch.zeros(32 * MIB, dtype=torch.uint8)
    pool = make_pool(config, Device("cpu:", memory=memory), dtype=torch.float16)
    with NearKVCache(pool, window_tokens=64) as cache:
        near = model.generate(tokens, past_key_values=cache, **options)
        keys, _ = cache.layers[1].rows(0, 192)
        ((first, _), *_) = pool.rows_in_place(cache.layers[1].sequences.ids[0], 1, 3)
        assert torch.equal(halves(first), keys[3, :64])
    assert torch.equal(near, plain)
