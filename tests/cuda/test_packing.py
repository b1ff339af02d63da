"""Pages that kernels build, beside those that a pool's device builds of the same rows."""

import ctypes

import pytest
import torch
from nkv_abi import PAGE_GRAIN_BYTES, PageArray, PageShape, page_layout

from nearkv.core import Device, Dtype, Error, Pool, RowForm, Status, Tensor
from nearkv.cuda import (
    NearAttention,
    NearQueue,
    PackedPages,
    PackedWindow,
    check_fault,
    pack_pages,
    page_bounds,
)
from nearkv.cuda.memory import MemoryPath, RegisteredMemory
from nearkv.near import attend_here

MIB = 1 << 20
HEADS, TOKENS, DIM = 2, 192, 64
WHERE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def _rows(*, dim: int = DIM, value_dim: int = DIM, seed: int = 1) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(seed)
    key, value = torch.randn(HEADS, TOKENS, dim), torch.randn(HEADS, TOKENS, value_dim)
    return key.to(torch.bfloat16), value.to(torch.bfloat16)


def _memory(device: Device) -> torch.Tensor:
    begin, size = device.memory
    return torch.frombuffer((ctypes.c_uint8 * size).from_address(begin), dtype=torch.uint8)


@pytest.mark.parametrize("form", [RowForm.DELTA4, RowForm.RAW])
def test_pages_are_a_pools_to_the_bit(form: RowForm) -> None:
    key, value = _rows()
    device = Device(f"cpu:?memory={32 * MIB}&threads=1&huge=off")
    pool = Pool.create(
        device, layers=3, kv_heads=HEADS, head_dim=DIM, k_form=form, v_form=form, max_sequences=4
    )
    pool.create_sequence(7)
    pool.append(7, 2, key, value)
    pages, entries, statuses = (
        part.cpu()
        for part in pack_pages(key.to(WHERE), value.to(WHERE), form, form, sequence=7, layer=2)
    )
    assert not statuses.any()
    memory = _memory(device)
    for head in range(HEADS):
        address, tokens = pool.page_list(7, 2, head)
        assert tokens == TOKENS
        listed = memory[address : address + 8 * pages.shape[1]].view(torch.int64)
        assert torch.equal(listed >> 32, entries[head] >> 32), "generation and exponents"
        for index, entry in enumerate(listed.tolist()):
            begin = (entry & 0xFFFFFFFF) * PAGE_GRAIN_BYTES
            assert torch.equal(memory[begin : begin + pages.shape[2]], pages[head, index])


def test_a_pool_takes_up_what_was_packed() -> None:
    """Behind tokens that it has; and refuses what belongs elsewhere."""
    key, value = _rows()
    options = {"layers": 3, "kv_heads": HEADS, "head_dim": DIM, "max_sequences": 4}
    pools = [Pool.create(Device(f"cpu:?memory={32 * MIB}"), **options) for _ in "ab"]
    for pool in pools:
        pool.create_sequence(7)
        pool.append(7, 2, key[:, :64], value[:, :64])
    pools[0].append(7, 2, key[:, 64:], value[:, 64:])
    rows = (part[:, 64:].to(WHERE).contiguous() for part in (key, value))
    forms = RowForm.DELTA4, RowForm.DELTA4
    pages, _, statuses = pack_pages(*rows, *forms, sequence=7, layer=2, first_token=64)
    assert not statuses.any()
    with pytest.raises(Error, match="page 0: wanted") as refused:
        pools[1].append_pages(7, 1, pages.cpu())
    assert refused.value.status == Status.BAD_PAGE
    pools[1].append_pages(7, 2, pages.cpu())
    assert pools[1].tokens(7, 2) == TOKENS
    query = torch.randn(HEADS, 3, DIM).to(torch.bfloat16)
    (output, lse), (other, other_lse) = (pool.attend(7, 2, query, scale=0.1) for pool in pools)
    assert (output == other).all() and (lse == other_lse).all()


def test_what_is_packed_is_read_where_it_lies() -> None:
    key, value = _rows()
    forms = {"k_form": RowForm.DELTA4, "v_form": RowForm.RAW}
    pages, entries, _ = pack_pages(key.to(WHERE), value.to(WHERE), *forms.values())
    window = PackedWindow(
        pages, entries, 1, dtype=torch.bfloat16, head_dim=DIM, value_dim=DIM, **forms
    )
    for tensor, wanted in ((Tensor.KEYS, key), (Tensor.VALUES, value)):
        rows, fault = window.rows(tensor)
        check_fault(fault)
        assert torch.equal(rows.cpu(), wanted[1])
    digests, exponents, fault = window.digests()
    check_fault(fault)
    query = torch.randn(3, DIM, device=WHERE)
    scores = (query.cpu() @ key[1].float().T).view(3, -1, 64).amax(2)
    assert (page_bounds(query, digests, exponents).cpu() >= scores).all()


def test_latents_are_packed_once() -> None:
    key, _ = _rows(dim=80)
    forms = {"k_form": RowForm.RAW, "v_form": RowForm.NONE}
    pages, entries, _ = pack_pages(key.to(WHERE), None, *forms.values(), value_dim=64)
    shape = PageShape(*forms.values(), Dtype.BF16, 0, 80, 64)
    assert pages.shape[2] == page_layout(shape).total_bytes
    window = PackedWindow(
        pages, entries, 0, dtype=torch.bfloat16, head_dim=80, value_dim=64, **forms
    )
    values, fault = window.rows(Tensor.VALUES)
    check_fault(fault)
    assert torch.equal(values.cpu(), key[0, :, :64])


def test_indexer_keys_bring_their_scales() -> None:
    key = torch.randn(1, 64, 128).to(torch.float8_e4m3fn)
    scales = torch.rand(1, 64)
    forms = {"k_form": RowForm.RAW, "v_form": RowForm.NONE}
    given = key.to(WHERE), None, *forms.values()
    pages, entries, _ = pack_pages(*given, key_scales=scales.to(WHERE))
    at = page_layout(PageShape(*forms.values(), Dtype.FP8_E4M3, 1, 128, 0)).offset[
        PageArray.KEY_SCALES
    ]
    assert torch.equal(pages[0, 0, at : at + 256].cpu().view(torch.float32), scales[0])
    window = PackedWindow(
        pages,
        entries,
        0,
        dtype=key.dtype,
        head_dim=128,
        value_dim=0,
        key_scales=True,
        **forms,
    )
    rows, fault = window.rows(Tensor.KEYS)
    check_fault(fault)
    assert torch.equal(rows.cpu().view(torch.uint8), key[0].view(torch.uint8))


def test_rows_that_delta4_cannot_hold_are_told() -> None:
    key, value = _rows()
    value[1, 70, :20] = torch.inf
    both = key.to(WHERE), value.to(WHERE)
    statuses = pack_pages(*both, RowForm.DELTA4, RowForm.DELTA4)[2]
    wanted = torch.zeros(HEADS, 3, dtype=torch.uint8)
    wanted[1, 1] = Status.PAGE_OVERFLOW
    assert torch.equal(statuses.cpu(), wanted)
    assert not pack_pages(*both, RowForm.RAW, RowForm.RAW)[2].any()


def test_a_device_attends_to_what_a_kernel_packed_into_its_memory() -> None:
    key, value = _rows()
    device = Device(f"cpu:?memory={64 * MIB}&threads=1&huge=off")
    with RegisteredMemory(device, WHERE) as memory, NearQueue(memory, device, 32 * MIB) as queue:
        assert memory.path == MemoryPath.HOST
        forms = {"k_form": RowForm.DELTA4, "v_form": RowForm.DELTA4}
        packed = PackedPages(
            memory, 40 * MIB, key.to(WHERE), value.to(WHERE), sequence=3, layer=1, **forms
        )
        packed.check()
        attention = NearAttention(queue, packed, [3], 1, group=4, scale=0.125)
        query = torch.randn(1, HEADS, 4, DIM).to(torch.bfloat16)
        attention.submit(query.to(WHERE))
        output, lse = attention.result()
        queue.check()
        wanted = attend_here(query.unsqueeze(3).double(), key[None], value[None], None, 0.125, 0.0)
        for found, other in ((output, wanted[0]), (lse, wanted[1])):
            torch.testing.assert_close(found.cpu(), other.squeeze(3).float(), rtol=1e-3, atol=1e-3)
        with pytest.raises(Error, match="pages of sequence 3"):
            packed.page_list(4, 1, 0)
        with pytest.raises(Error, match="no rows"):
            PackedPages(memory, 40 * MIB, key[:, :0], value[:, :0], **forms)
        with pytest.raises(Error, match="no room"):
            PackedPages(memory, 64 * MIB - 4096, key.to(WHERE), value.to(WHERE), **forms)


def test_torch_compile_sees_an_operator() -> None:
    key, value = (part.to(WHERE) for part in _rows())

    def step(key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return pack_pages(key * 2, value, RowForm.RAW, RowForm.RAW)[0]

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(key, value), step(key, value))
    torch.library.opcheck(
        pack_pages,
        (key, value, int(RowForm.DELTA4), int(RowForm.RAW)),
        test_utils=("test_schema", "test_faketensor"),
    )


def test_rows_may_lie_apart() -> None:
    key, value = (part.to(WHERE) for part in _rows())
    token_first = [part.transpose(0, 1).contiguous().transpose(0, 1) for part in (key, value)]
    wanted = pack_pages(key, value, RowForm.RAW, RowForm.RAW)
    found = pack_pages(*token_first, RowForm.RAW, RowForm.RAW)
    assert all(map(torch.equal, found, wanted))


def test_what_makes_no_pages_is_refused() -> None:
    key, value = (part.to(WHERE) for part in _rows())
    raw, none = RowForm.RAW, RowForm.NONE
    for bad in (
        lambda: pack_pages(key[:, :100], value[:, :100], raw, raw),
        lambda: pack_pages(key, value[:, :128], raw, raw),
        lambda: pack_pages(key, value.half(), raw, raw),
        lambda: pack_pages(key.float(), value.float(), raw, raw),
        lambda: pack_pages(key, None, raw, raw),
        lambda: pack_pages(key, value, raw, none),
        lambda: pack_pages(key, None, raw, none, 80),
        lambda: pack_pages(key.half(), value.half(), RowForm.DELTA4, raw),
        lambda: pack_pages(key.transpose(1, 2).contiguous().transpose(1, 2), value, raw, raw),
        lambda: pack_pages(key[..., 1:17], value, raw, raw),
        lambda: pack_pages(key, value, raw, raw, key_scales=torch.zeros(HEADS, 1, device=WHERE)),
    ):
        with pytest.raises(Error) as caught:
            bad()
        assert caught.value.status == Status.BAD_ARGUMENT
