"""Pages between a device and a store: a device whose work happens as late as it may."""

import random
import threading
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("torch")

import _nearkv
from nkv_abi import Status

from nearkv.core import Error
from nearkv.store import Namespace, ObjectStore
from nearkv.vllm.copier import Copier, Copies
from nearkv.vllm.staging import LANES, DevicePages, StagedJob, Staging, _Lane, _Staged
from tests.engines.late_device import LateDevice

BLOCKS, SIZES = 64, (96, 32, 160)
PIECE_BLOCKS = 4


class Cache:
    """Layers of blocks in a device's memory, whose pages differ in size."""

    def __init__(self) -> None:
        self.layers = [np.zeros((BLOCKS, size), np.uint8) for size in SIZES]

    def pages(self, blocks: list[int]) -> DevicePages:
        first = np.array([layer.ctypes.data for layer in self.layers])
        sizes = np.array(SIZES)
        return DevicePages(first[:, None] + np.array(blocks) * sizes[:, None], sizes)

    def read(self, block: int) -> bytes:
        return b"".join(layer[block].tobytes() for layer in self.layers)

    def write(self, block: int, content: bytes) -> None:
        begin = 0
        for layer in self.layers:
            layer[block] = np.frombuffer(content, np.uint8, layer.shape[1], begin)
            begin += layer.shape[1]


class Engine:
    """Computes on a late device, and loads and stores its blocks."""

    def __init__(self, space: Namespace) -> None:
        self.space, self.cache, self.device = space, Cache(), LateDevice()
        copier = Copier(self.device, self.device.swap_blocks_batch)
        self.staging = Staging(copier, 2 * LANES * PIECE_BLOCKS * sum(SIZES))

    def computes(self, block: int, content: bytes) -> None:
        self.device.computes(lambda: self.cache.write(block, content))

    def store(self, keys: list[bytes], blocks: list[int]) -> StagedJob:
        pages = self.cache.pages(blocks)
        return self.staging.store(pages, lambda memory: self.space.submit_set(keys, memory))

    def load(self, keys: list[bytes], blocks: list[int]) -> StagedJob:
        pages = self.cache.pages(blocks)
        return self.staging.load(pages, lambda memory: self.space.submit_get(keys, memory))

    def reads(self, block: int, into: list[bytes]) -> None:
        self.device.computes(lambda: into.append(self.cache.read(block)))


@pytest.fixture
def space() -> Iterator[Namespace]:
    with ObjectStore.create("cpu:?memory=64MiB") as store:
        yield store.namespace("model", "bf16", "blocks")


@pytest.fixture
def engine(space: Namespace) -> Iterator[Engine]:
    engine = Engine(space)
    yield engine
    engine.staging.close()


def content_of(number: int) -> bytes:
    return random.Random(number).randbytes(sum(SIZES))


def key_of(number: int) -> bytes:
    return number.to_bytes(8, "big")


def work(engine: Engine) -> None:
    """Rounds as an engine's steps: what is computed is stored, what was stored is loaded and read.

    Each load is one piece and one of its keys was never stored; there are more than there are
    lanes before anything is waited for on the device.
    """
    rng = random.Random(1)
    stored = 0
    for _ in range(5):
        for _ in range(2 * LANES):
            blocks = rng.sample(range(BLOCKS), PIECE_BLOCKS)
            numbers = range(stored, stored + PIECE_BLOCKS)
            for block, number in zip(blocks, numbers, strict=True):
                engine.computes(block, content_of(number))
            assert engine.store(list(map(key_of, numbers)), blocks).wait().all_ok
            stored += PIECE_BLOCKS
        there, expected, jobs, found = rng.sample(range(BLOCKS), BLOCKS), [], [], []
        for begin in range(0, BLOCKS, PIECE_BLOCKS):
            blocks = there[begin : begin + PIECE_BLOCKS]
            numbers = rng.sample(range(stored), PIECE_BLOCKS - 1)
            for block in blocks:
                engine.computes(block, bytes([7]) * sum(SIZES))
            keys = [*map(key_of, numbers), b"never stored"]
            jobs.append(engine.load(keys, blocks))
            expected += [*map(content_of, numbers), bytes([7]) * sum(SIZES)]
        for job in jobs:
            assert job.wait().bitmap == [True] * (PIECE_BLOCKS - 1) + [False]
        for block in there:
            engine.reads(block, found)
        engine.device.synchronize()
        assert found == expected


def test_blocks_arrive_in_time_and_what_is_missing_leaves_its_block_alone(engine):
    work(engine)


def never(*_: object) -> bool:
    """Of an event: it has come."""
    return True


class Nothing:
    """An event that nothing comes before."""

    def __init__(self, *_: object) -> None:
        pass

    record = synchronize = wait = lambda *_: None
    query = never


COPY = Copier.copy


def unawaited(copier, stream, copies, after, *, to_device):
    end = COPY(copier, stream, copies, after, to_device=to_device)
    return end if to_device else Nothing()


def unmasked(staged, is_wanted, *, to_device, copies=_Staged.copies):
    return copies(staged, np.ones_like(is_wanted), to_device=to_device)


FLAWS = {
    "copies begin before what computes has ended": (Copier, "mark", Nothing),
    "what computes does not wait for a load": (Copier, "follow", Nothing),
    "a store reads before its copy has ended": (Copier, "copy", unawaited),
    "a buffer is filled while it is read": (_Lane, "settle", Nothing),
    "what was not found is copied too": (_Staged, "copies", unmasked),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_missing_wait_is_seen(engine, flaw):
    with patch.object(*FLAWS[flaw]), pytest.raises(AssertionError):
        work(engine)


def test_a_load_is_over_when_it_is_over_on_the_device(engine):
    engine.computes(0, content_of(0))
    engine.store([b"key"], [0]).wait()
    job = engine.load([b"key"], [1])
    while not job._future.done():
        pass
    assert not job.done()
    assert engine.cache.read(1) == bytes(sum(SIZES))
    while not job.done():
        pass
    assert engine.cache.read(1) == content_of(0)


def test_neighbours_are_one_copy_in_whatever_order_they_are_named(engine):
    blocks = [12, 10, 11, 13]
    engine.store([bytes([block]) for block in blocks], blocks).wait()
    assert engine.device.copies == len(SIZES)
    engine.load([bytes([block]) for block in (10, 12, 13)], [40, 22, 20]).wait()
    assert engine.device.copies == len(SIZES) * (1 + 3)


def test_copies_are_joined_only_where_both_sides_go_on():
    sources, targets = np.array([0, 8, 16, 24, 40]), np.array([0, 8, 100, 108, 116])
    joined = Copies(sources, targets, np.full(5, 8)).joined()
    assert [part.tolist() for part in joined] == [[0, 16, 40], [0, 100, 116], [16, 16, 8]]


def test_what_the_store_refuses_is_told_to_who_waits(engine):
    def refuses(memory):
        _nearkv.check(Status.QUEUE_FULL, "injected")

    for submit in (engine.staging.load, engine.staging.store):
        job = submit(engine.cache.pages([0]), refuses)
        with pytest.raises(Error, match="injected"):
            job.wait()
        assert job.done()
    work(engine)  # And the lanes are free again.


def test_what_is_too_much_waits_its_turn_and_loads_not_for_stores(engine):
    in_use: list[int] = []
    began, goes_on = threading.Semaphore(0), threading.Event()

    def holds(memory):
        in_use.append(memory[0][0].ctypes.data)
        began.release()
        goes_on.wait()
        return engine.space.submit_set([b"key"], memory)

    stores = [engine.staging.store(engine.cache.pages([0]), holds) for _ in range(3 * LANES)]
    for _ in range(LANES):
        began.acquire()
    assert not engine.load([b"key"], [1]).wait().all_ok
    assert len(in_use) == len(set(in_use)) == LANES
    goes_on.set()
    assert all(store.wait().all_ok for store in stores)
    assert len(in_use) == len(stores) and len(set(in_use)) == LANES


def test_its_memory_is_what_was_given():
    sizes = []

    class Counting(Copier):
        def host_memory(self, size):
            sizes.append(size)
            return super().host_memory(size)

    device = LateDevice()
    staging = Staging(Counting(device, device.swap_blocks_batch), 1 << 20)
    staging.close()
    assert sum(sizes) == 1 << 20
