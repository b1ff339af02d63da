"""Attention that kernels ask of a pool by themselves, beside the pool's own calls."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

from nearkv.core import Device, Error, Pool, Status, Tensor
from nearkv.cuda import NearAttention, NearQueue, PageWindow, attend_window, check_fault
from nearkv.cuda.memory import CopiedMemory, RegisteredMemory
from nearkv.far import FarAttention
from nearkv.near import attend_here

MIB = 1 << 20
HEADS, DIM, GROUP, TOKENS = 2, 64, 4, 192


@dataclass
class Near:
    """A pool with two sequences, and room behind it for a queue."""

    device: Device
    pool: Pool
    memory: RegisteredMemory
    begin: int
    keys: torch.Tensor
    values: torch.Tensor


@pytest.fixture
def near() -> Iterator[Near]:
    where = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    device = Device(f"cpu:?memory={64 * MIB}&threads=1&huge=off")
    begin = 62 * MIB
    pool = Pool.create(
        device, layers=1, kv_heads=HEADS, head_dim=DIM, max_sequences=4, memory_bytes=begin
    )
    torch.manual_seed(1)
    keys, values = torch.randn(2, 2, HEADS, TOKENS, DIM).to(torch.bfloat16).unbind(0)
    for sequence in range(2):
        pool.create_sequence(sequence)
        pool.append(sequence, 0, keys[sequence], values[sequence])
    with RegisteredMemory(device, where) as memory:
        yield Near(device, pool, memory, begin, keys, values)


def _queries(where: torch.device) -> torch.Tensor:
    return torch.randn(2, HEADS, GROUP, DIM).to(torch.bfloat16).to(where)


def test_a_kernels_attention_is_the_pools(near: Near) -> None:
    with NearQueue(near.memory, near.device, near.begin) as queue:
        attention = NearAttention(queue, near.pool, [0, 1], 0, group=GROUP, scale=0.125)
        for _ in range(3):
            query = _queries(near.memory.where)
            attention.submit(query)
            output, lse = attention.result()
            queue.check()
            wanted = near.pool.attend([0, 1], 0, query.cpu(), scale=0.125)
            assert torch.equal(output.cpu(), torch.from_numpy(wanted[0]))
            assert torch.equal(lse.cpu(), torch.from_numpy(wanted[1]))


def test_it_merges_with_the_window_that_the_gpu_holds(near: Near) -> None:
    newest = torch.randn(2, 2, HEADS, 40, DIM).to(torch.bfloat16)
    query = _queries(near.memory.where)
    with NearQueue(near.memory, near.device, near.begin) as queue:
        attention = NearAttention(queue, near.pool, [0, 1], 0, group=GROUP, scale=0.125)
        attention.submit(query)
        window = newest.to(near.memory.where).unbind(0)
        output, lse = attention.result(attend_window(query, *window, 0.125))
        queue.check()
    wanted = attend_here(
        query.cpu().double().unsqueeze(3),
        torch.cat([near.keys, newest[0]], 2),
        torch.cat([near.values, newest[1]], 2),
        None,
        0.125,
        0.0,
    )
    error = (output.cpu() - wanted[0].squeeze(3)).abs().max() / wanted[0].abs().max()
    assert error < 1 / 256
    assert (lse.cpu() - wanted[1].squeeze(3)).abs().max() < 1e-3


def test_it_reads_as_much_of_the_pool_as_asked(near: Near) -> None:
    query = _queries(near.memory.where)
    far = FarAttention(mode=1, top_k=16)
    with NearQueue(near.memory, near.device, near.begin) as queue:
        attention = NearAttention(queue, near.pool, [0, 1], 0, group=GROUP, scale=0.125, far=far)
        attention.submit(query)
        output, _ = attention.result()
        queue.check()
    wanted, _ = near.pool.attend([0, 1], 0, query.cpu(), scale=0.125, **far.options())
    assert torch.equal(output.cpu(), torch.from_numpy(wanted))


def test_a_command_that_fails_is_told_and_others_go_on(near: Near) -> None:
    with NearQueue(near.memory, near.device, near.begin) as queue:
        attention = NearAttention(queue, near.pool, [0, 1], 0, group=GROUP, scale=0.125)
        query = _queries(near.memory.where)
        query[1, 1, 2, 3] = torch.nan
        attention.submit(query)
        attention.result()
        with pytest.raises(Error, match=r"command 3 .*BAD_QUERY") as caught:
            queue.check()
        assert caught.value.status == Status.BAD_QUERY
        queue.resume()
        attention.submit(_queries(near.memory.where))
        attention.result()
        queue.check()


def test_a_device_that_is_silent_is_a_timeout(near: Near) -> None:
    with NearQueue(near.memory, near.device, near.begin) as queue:
        attention = NearAttention(queue, near.pool, [0], 0, group=GROUP, scale=1, timeout_s=0.01)
        attention.result()  # Nothing was submitted.
        with pytest.raises(Error, match="did not answer") as caught:
            queue.check()
        assert caught.value.status == Status.TIMEOUT
        with pytest.raises(Error, match="anew"):
            queue.resume()
    with NearQueue(near.memory, near.device, near.begin) as queue:
        attention = NearAttention(queue, near.pool, [0], 0, group=GROUP, scale=1)
        attention.submit(_queries(near.memory.where)[:1])
        attention.result()
        queue.check()


def test_what_does_not_fit_is_refused(near: Near) -> None:
    with pytest.raises(Error, match="no room for a queue"):
        NearQueue(near.memory, near.device, 64 * MIB - 4096)
    with NearQueue(near.memory, near.device, near.begin, entries=16) as queue:
        with pytest.raises(Error):
            NearQueue(near.memory, near.device, near.begin, entries=16)  # The same one.
        with pytest.raises(ValueError, match="do not fit a ring"):
            NearAttention(queue, near.pool, [0] * 9, 0, group=1, scale=1)
        with pytest.raises(Error, match="do not fit behind"):
            NearAttention(queue, near.pool, [0], 0, group=1, scale=1, room_at=64 * MIB - 512)
        with pytest.raises(Error) as caught:
            NearAttention(queue, near.pool, [7], 0, group=1, scale=1)
        assert caught.value.status == Status.NOT_FOUND


def test_pages_are_read_where_they_lie(near: Near) -> None:
    window = PageWindow(near.memory, near.pool, 1, 0, 1)
    assert window.tokens == TOKENS
    for tensor, rows in ((Tensor.KEYS, near.keys), (Tensor.VALUES, near.values)):
        found, fault = window.rows(tensor)
        check_fault(fault)
        assert torch.equal(found.cpu(), rows[1, 1])
    ids = torch.tensor([191, 0, 65], dtype=torch.int32, device=near.memory.where)
    found, fault = window.rows(Tensor.VALUES, ids)
    check_fault(fault)
    assert torch.equal(found.cpu(), near.values[1, 1, [191, 0, 65]])
    copied, fault = PageWindow(
        CopiedMemory(near.device, near.memory.where), near.pool, 1, 0, 1
    ).rows(Tensor.VALUES)
    check_fault(fault)
    assert torch.equal(copied.cpu(), near.values[1, 1])
    middles, fault = window.planes(4)
    check_fault(fault)
    assert (middles.cpu().float() - near.keys[1, 1].float()).abs().max() < 0.5
    near.pool.drop(1)
    _, fault = window.rows(Tensor.KEYS)
    with pytest.raises(Error) as caught:
        check_fault(fault)
    assert caught.value.status == Status.STALE_PAGE
