"""Attention over blocks in an engine's memory, as Python calls it."""

import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from nearkv.core import (  # noqa: E402
    AttendMode,
    BlockBatch,
    BlockCache,
    BlockCodes,
    BlockLayout,
    Error,
    Status,
)

pytestmark = pytest.mark.quick
BLOCKS, KV_HEADS, BLOCK_TOKENS, HEAD_DIM, GROUP = 12, 2, 32, 64, 3
LENGTHS = [70, 33]


def cache_of(dtype: "torch.dtype") -> "torch.Tensor":
    """[blocks, kv_heads, K and V, block, head_dim], as vLLM's."""
    generator = torch.Generator().manual_seed(1)
    shape = BLOCKS, KV_HEADS, 2, BLOCK_TOKENS, HEAD_DIM
    return torch.randn(shape, generator=generator).to(dtype)


def blocks_of(cache: "torch.Tensor") -> BlockCache:
    return BlockCache(cache[:, :, 0], cache[:, :, 1], BlockLayout.ROWS)


def table() -> "torch.Tensor":
    return torch.tensor([[5, 2, 9], [1, 7, 0]], dtype=torch.int32)


def step(lengths: list[int] = LENGTHS) -> BlockBatch:
    batch = BlockBatch()
    starts = torch.arange(len(lengths) + 1, dtype=torch.int32)
    of_requests = torch.tensor(lengths, dtype=torch.int32)
    batch.begin_step(starts, of_requests, table(), block_tokens=BLOCK_TOKENS)
    return batch


def resident_bytes() -> int:
    """Of this process, in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def queries(dtype: "torch.dtype") -> "torch.Tensor":
    generator = torch.Generator().manual_seed(2)
    shape = len(LENGTHS), KV_HEADS * GROUP, HEAD_DIM
    return torch.randn(shape, generator=generator).to(dtype)


def by_torch(cache: "torch.Tensor", query: "torch.Tensor", request: int) -> "torch.Tensor":
    rows = cache[table()[request].long()].permute(2, 1, 0, 3, 4).flatten(2, 3)
    keys, values = rows[:, :, : LENGTHS[request]].double()
    grouped = query[request].view(KV_HEADS, GROUP, HEAD_DIM).double()
    weights = torch.softmax(grouped @ keys.transpose(1, 2) * HEAD_DIM**-0.5, -1)
    return (weights @ values).flatten(0, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_answers_are_those_of_plain_attention(dtype):
    cache, query = cache_of(dtype), queries(dtype)
    output = torch.empty_like(query)
    lse = torch.empty(query.shape[:2])
    step().attend(blocks_of(cache), query, output, scale=HEAD_DIM**-0.5, lse=lse)
    for request in range(len(LENGTHS)):
        wanted = by_torch(cache, query, request)
        torch.testing.assert_close(
            output[request].double(), wanted, rtol=0, atol=2 * torch.finfo(dtype).eps + 1e-5
        )
    assert lse.isfinite().all()


def test_attending_in_place_keeps_no_rows():
    blocks = 8192
    cache = torch.ones(blocks, KV_HEADS, 2, BLOCK_TOKENS, HEAD_DIM, dtype=torch.bfloat16)
    batch, query = BlockBatch(), queries(torch.bfloat16)[:1]
    order = torch.arange(blocks, dtype=torch.int32)[None]
    length = torch.tensor([blocks * BLOCK_TOKENS], dtype=torch.int32)
    starts = torch.arange(2, dtype=torch.int32)
    before_bytes = resident_bytes()
    batch.begin_step(starts, length, order, block_tokens=BLOCK_TOKENS)
    batch.attend(blocks_of(cache), query, torch.empty_like(query), scale=1.0)
    assert resident_bytes() - before_bytes < 0.1 * cache.nbytes


def test_rows_of_queries_may_lie_apart():
    cache, query = cache_of(torch.bfloat16), queries(torch.bfloat16)
    apart = torch.zeros(len(LENGTHS), 2, *query.shape[1:], dtype=query.dtype)
    apart[:, 0] = query
    outputs = torch.empty_like(query), torch.empty_like(apart)
    step().attend(blocks_of(cache), query, outputs[0], scale=1.0)
    step().attend(blocks_of(cache), apart[:, 0], outputs[1][:, 0], scale=1.0)
    assert torch.equal(outputs[0], outputs[1][:, 0])


def test_a_table_that_does_not_fit_is_refused_and_writes_nothing():
    cache, query = cache_of(torch.bfloat16), queries(torch.bfloat16)
    output = torch.full_like(query, 3)
    few = blocks_of(cache[:9])
    with pytest.raises(Error) as refused:
        step().attend(few, query, output, scale=1.0)
    assert refused.value.status == Status.BAD_PAGE
    assert "block table" in str(refused.value)
    assert (output == 3).all()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"outputs": torch.empty(2, 6, 64)}, "dtype"),
        ({"queries": torch.empty(2, 5, 64, dtype=torch.bfloat16)}, "shape"),
        ({"queries": torch.empty(2, 64, 6, dtype=torch.bfloat16).transpose(1, 2)}, "one piece"),
        ({"lse": torch.empty(2, 5)}, "lse"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(wrong, why):
    query = queries(torch.bfloat16)
    given = {"queries": query, "outputs": torch.empty_like(query), "lse": None} | wrong
    with pytest.raises(ValueError, match=why):
        step().attend(blocks_of(cache_of(torch.bfloat16)), scale=1.0, **given)


def test_a_cache_whose_heads_lie_apart_is_refused():
    cache = cache_of(torch.bfloat16).transpose(1, 3)
    with pytest.raises(ValueError, match="in one piece"):
        BlockCache(cache[:, :, 0], cache[:, :, 1], BlockLayout.ROWS)


def test_a_cache_of_nothing_is_refused():
    nothing = torch.empty(BLOCKS, 0, BLOCK_TOKENS, HEAD_DIM, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="empty"):
        BlockCache(nothing, nothing, BlockLayout.ROWS)


def test_requests_of_more_queries_are_left_out():
    batch = BlockBatch()
    starts, lengths = (np.array(each, np.int32) for each in ([0, 1, 20], [70, 33]))
    batch.begin_step(starts, lengths, table(), block_tokens=BLOCK_TOKENS, max_queries=4)
    assert batch.queries == 1


class Coded:
    """A request of 2,200 tokens, which its codes have been told of as they were written."""

    def __init__(self) -> None:
        self.rows = torch.randn(2, 2200, KV_HEADS, HEAD_DIM, dtype=torch.bfloat16)
        blocks, tokens = 40, 64
        memory = torch.zeros(blocks, KV_HEADS, 2, tokens, HEAD_DIM, dtype=torch.bfloat16)
        self.memory = memory
        self.table = torch.randperm(blocks, dtype=torch.int32)[None, :35].contiguous()
        self.codes = BlockCodes(memory[:, :, 0], memory[:, :, 1])
        slots = self.table[0].long()[:, None] * tokens + torch.arange(tokens)
        self.slots = slots.flatten()[:2200].contiguous()
        self.codes.write(*self.rows, self.slots)

    def attend(self, query: "torch.Tensor", **how: object) -> "torch.Tensor":
        batch, output = BlockBatch(), torch.empty_like(query)
        starts, lengths = (torch.tensor(each, dtype=torch.int32) for each in ([0, 1], [2200]))
        batch.begin_step(starts, lengths, self.table, block_tokens=64)
        batch.attend(self.codes.cache, query, output, scale=HEAD_DIM**-0.5, **how)
        return output


@pytest.fixture
def coded() -> Coded:
    torch.manual_seed(3)
    return Coded()


def test_rows_that_codes_write_are_read(coded):
    query = torch.randn(1, KV_HEADS * GROUP, HEAD_DIM).bfloat16()
    keys, values = (rows.transpose(0, 1).double() for rows in coded.rows)
    grouped = query.view(KV_HEADS, GROUP, HEAD_DIM).double()
    weights = torch.softmax(grouped @ keys.transpose(1, 2) * HEAD_DIM**-0.5, -1)
    wanted = (weights @ values).view(1, -1, HEAD_DIM)
    exact = coded.attend(query)
    every = coded.attend(query, codes=coded.codes, mode=AttendMode.TAIL, top_k=2200)
    for output in exact, every:
        torch.testing.assert_close(output.double(), wanted, rtol=0, atol=2**-7)
    some = coded.attend(query, codes=coded.codes, mode=AttendMode.TAIL, top_k=8)
    assert 0 < (some - exact).norm() < exact.norm()
    counts = coded.codes.counts
    assert (counts.pages, counts.approximate) == (2200 // 64 * KV_HEADS, 2 * KV_HEADS)


def test_what_codes_do_not_have_a_place_for_is_refused(coded):
    beyond = torch.tensor([40 * 64])
    with pytest.raises(Error, match="beyond the cache"):
        coded.codes.write(*coded.rows[:, :1], beyond)
    with pytest.raises(ValueError, match="a row for each slot"):
        coded.codes.write(*coded.rows[:, :1], coded.slots)
    with pytest.raises(Error, match="gain for each channel"):
        BlockCodes(*coded.memory.unbind(2), torch.zeros(1, HEAD_DIM, dtype=torch.int8))
    with pytest.raises(Error, match="only rows of bfloat16"):
        BlockCodes(*coded.memory.float().unbind(2))
    query = torch.zeros(1, KV_HEADS * GROUP, HEAD_DIM, dtype=torch.bfloat16)
    with pytest.raises(Error, match="above 0"):
        coded.attend(query, codes=coded.codes, error=0)
