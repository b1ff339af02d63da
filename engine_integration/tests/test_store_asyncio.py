"""The object store in event loops."""

import asyncio
import contextlib
import threading

import numpy
import pytest

pytest.importorskip("nearkv.store", exc_type=ImportError)
from nearkv.store import Error, JobResult, Namespace, ObjectStore, Status

pytestmark = pytest.mark.quick

MIB = 1 << 20


def contents(seed: int, size: int) -> bytes:
    return numpy.random.default_rng(seed).bytes(size)


def keys_of(count: int) -> list[bytes]:
    return [b"block %06d" % i for i in range(count)]


def keep_busy(blocks: Namespace) -> list:
    """Work for the one worker, so that what comes after it has not begun."""
    data = bytes(MIB)
    return [blocks.submit_set(keys_of(16), [data] * 16, overwrite=True) for _ in range(20)]


def test_many_jobs_are_awaited_at_once(store: ObjectStore, blocks: Namespace) -> None:
    async def work() -> list[JobResult]:
        keys = keys_of(600)
        data = [contents(i, 1000 + i) for i in range(600)]
        stored = await asyncio.gather(
            *(blocks.set_async(keys[i : i + 3], data[i : i + 3]) for i in range(0, 600, 3))
        )
        assert all(result.all_ok for result in stored)
        found = await asyncio.gather(*(blocks.get_async(key) for key in keys))
        assert [result.check().buffers[0] for result in found] == data
        into = bytearray(1599)
        assert (await blocks.get_async(keys[599], into)).object_bytes == [1599]
        assert into == data[599]
        assert (await blocks.exists_async([*keys, b"nothing"])).leading == 600
        return await asyncio.gather(*(blocks.erase_async(key) for key in keys))

    assert all(result.all_ok for result in asyncio.run(work()))
    assert store.stats().objects == 0
    assert store.drain() == []


def test_more_jobs_than_the_queue_takes(store: ObjectStore, blocks: Namespace) -> None:
    jobs = keep_busy(blocks)

    async def work() -> list[JobResult]:
        return await asyncio.gather(*(blocks.exists_async(b"nothing") for _ in range(6000)))

    assert [result.statuses for result in asyncio.run(work())] == [[Status.NOT_FOUND]] * 6000
    assert all(job.wait().all_ok for job in jobs)
    with pytest.raises(Error, match="the queue is full") as failure:
        kept = [blocks.submit_exists(b"nothing") for _ in range(6000)]
        assert not kept
    assert failure.value.status == Status.QUEUE_FULL
    store.drain()
    assert blocks.submit_exists(b"nothing").wait().leading == 0


async def test_a_job_may_be_awaited_twice_and_late(blocks: Namespace) -> None:
    job = blocks.submit_set(b"key", b"value")
    first, second = await asyncio.gather(job._finish(), job._finish())
    assert first is second is await job is job.wait()
    over = blocks.submit_get(b"key")
    over.wait()
    assert (await over).buffers == [b"value"]


async def test_a_cancelled_awaitable_cancels_its_job_and_frees_memory(blocks: Namespace) -> None:
    blocks.set(b"wanted", b"w" * 5).check()
    keep_busy(blocks)
    target = bytearray(b"12345")
    task = asyncio.create_task(blocks.get_async(b"wanted", target))
    await asyncio.sleep(0)
    with pytest.raises(BufferError):
        target.clear()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # It does not take the wait away.
    with pytest.raises(asyncio.CancelledError):
        await task
    assert target == b"12345"
    target.clear()


async def test_a_timeout_leaves_objects_whole(store: ObjectStore, blocks: Namespace) -> None:
    keys = keys_of(48)
    data = contents(1, MIB)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            while True:
                await blocks.set_async(keys, [data] * 48, overwrite=True)
    assert store.stats().corruptions == 0
    present = blocks.present(keys)
    assert all(blocks[key] == data for key, there in zip(keys, present, strict=True) if there)


async def test_awaiting_a_full_queue_can_be_cancelled(blocks: Namespace) -> None:
    jobs = keep_busy(blocks)
    with pytest.raises(Error, match="the queue is full"):
        while True:
            jobs.append(blocks.submit_exists(b"nothing"))
    task = asyncio.create_task(blocks.set_async(b"late", b"value"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    results = await asyncio.gather(*(job._finish() for job in jobs))
    assert all(result.all_ok for result in results[:20])
    assert b"late" not in blocks


def test_loops_and_threads_share_a_store(blocks: Namespace) -> None:
    failures: list[BaseException] = []

    async def work(loop: int) -> None:
        async def one(i: int) -> None:
            key, size = b"%d in %d" % (i, loop), 100 + 37 * i
            (await blocks.set_async(key, contents(i, size))).check()
            assert (await blocks.get_async(key)).check().buffers == [contents(i, size)]

        for _ in range(3):
            await asyncio.gather(*(one(i) for i in range(50)))

    def run(loop: int) -> None:
        try:
            for _ in range(3):
                asyncio.run(work(loop))
        except BaseException as failure:
            failures.append(failure)

    def wait() -> None:
        try:
            for i in range(300):
                assert blocks.submit_set(b"waited", contents(i, 100)).wait().all_ok
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    threads.append(threading.Thread(target=wait))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


async def test_layers_are_read_ahead(store: ObjectStore, blocks: Namespace) -> None:
    keys, layers = keys_of(3), 8
    data = numpy.frombuffer(contents(1, 3 * layers * 1000), "u1").reshape(3, layers, 1000)
    blocks.set(keys, data, parts=layers).check()
    targets = numpy.zeros((layers, 3, 1000), "u1")
    i = 0
    async for result in blocks.layers_async(keys, layers, targets):
        assert result.all_ok
        assert (targets[i] == data[:, i]).all()
        wanted = 3 * min(i + 2, layers)
        while store.stats().hits < wanted:  # The next one comes without anybody asking.
            await asyncio.sleep(0)
        assert store.stats().hits == wanted
        i += 1
    assert i == layers
    async with contextlib.aclosing(blocks.layers_async(keys, layers)) as reading:
        async for result in reading:
            assert result.check().buffers == [block[0].tobytes() for block in data]
            break
    assert store.drain() == []


async def test_closing_a_store_ends_what_is_awaited() -> None:
    store = ObjectStore.create("cpu:?memory=64MiB")
    blocks = store.namespace()
    busy = keep_busy(blocks)
    tasks = [asyncio.create_task(blocks.set_async(b"%d" % i, b"value")) for i in range(20)]
    await asyncio.sleep(0)
    await asyncio.to_thread(store.close)
    results = await asyncio.gather(*tasks)
    assert all(set(r.statuses) <= {Status.OK, Status.CANCELLED} for r in results)
    assert results[-1].statuses == [Status.CANCELLED]
    assert all(job.done() for job in busy)
    with pytest.raises(ValueError, match="the store is closed"):
        await blocks.get_async(b"key")


def test_wrong_arguments_raise_when_awaited(blocks: Namespace) -> None:
    with pytest.raises(TypeError, match="keys are bytes"):
        asyncio.run(blocks.get_async(["key"]))
    with pytest.raises(Error) as failure:
        asyncio.run(blocks.set_async(b"key", b"12", parts=3)).check()
    assert failure.value.status == Status.BAD_ARGUMENT
