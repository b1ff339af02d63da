"""Jobs of the object store: threads, memory that is held, cancellation, killed processes."""

import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
import threading
import weakref

import numpy
import pytest

pytest.importorskip("nearkv.store", exc_type=ImportError)

from engine_integration.tests.gil import gives_it_away
from nearkv.store import Error, Namespace, ObjectStore, Status

pytestmark = pytest.mark.quick


def contents(seed: int, size: int) -> bytes:
    return numpy.random.default_rng(seed).bytes(size)


def keys_of(count: int) -> list[bytes]:
    return [b"block %06d" % i for i in range(count)]


def test_a_layer_is_used_while_the_next_is_read(store: ObjectStore, blocks: Namespace) -> None:
    keys, layers = keys_of(3), 8
    blocks.set(keys, [contents(i, 8000) for i in range(3)], parts=layers).check()
    for ahead in (0, 1, 3):
        hits = store.stats().hits
        reading = blocks.layers(keys, layers, ahead=ahead)
        for part in range(4):
            next(reading)
            wanted = hits + 3 * (part + 1 + ahead)
            while store.stats().hits < wanted:  # Without anybody asking.
                pass
            assert store.stats().hits == wanted
        reading.close()
        assert store.drain() == []


def test_jobs_run_behind_the_caller(store: ObjectStore, blocks: Namespace) -> None:
    keys = keys_of(400)
    data = [contents(i, 1000 + i) for i in range(400)]
    jobs = [blocks.submit_set(keys[i : i + 20], data[i : i + 20]) for i in range(0, 400, 20)]
    over = []
    while len(over) < len(jobs):
        assert select.select([store.event_fd], [], [], 60)[0]
        over += store.drain()
    assert set(over) == set(jobs)
    assert all(job.done() and job.wait().all_ok and not job.cancel() for job in jobs)
    assert store.drain() == []
    job = blocks.submit_get(keys)
    assert job.wait(60).buffers == data
    assert job.wait() is job.wait(0)
    assert store.drain() == []
    assert blocks.submit_erase(keys).wait().all_ok


def test_a_dropped_job_runs_and_is_not_reported(store: ObjectStore, blocks: Namespace) -> None:
    blocks.submit_set(keys_of(3), [b"1", b"2", b"3"])
    kept = blocks.submit_exists(b"nothing")
    assert select.select([store.event_fd], [], [], 60)[0]
    while not (reported := store.drain()):
        gc.collect()
    assert reported == [kept]
    assert blocks.exists(keys_of(3)) == 3


class Lender(bytearray):
    """Memory whose end can be seen."""


def test_memory_is_held_until_the_job_is_over_and_no_longer(
    store: ObjectStore, blocks: Namespace
) -> None:
    memory = [Lender(contents(i, 1 << 20)) for i in range(40)]
    lives = [weakref.ref(one) for one in memory]
    job = blocks.submit_set(keys_of(40), memory)
    with pytest.raises(BufferError):
        memory[39].clear()
    del memory
    gc.collect()
    assert all(life() is not None for life in lives)
    assert job.wait().all_ok
    gc.collect()
    assert all(life() is None for life in lives)
    assert blocks[b"block 000039"] == contents(39, 1 << 20)


@pytest.mark.parametrize("how", ["close", "forget"])
def test_a_store_that_ends_lets_go_of_memory_only_then(how: str) -> None:
    target = [Lender(1 << 20) for _ in range(40)]
    lives = [weakref.ref(one) for one in target]
    store = ObjectStore.create("cpu:?memory=64MiB")
    blocks = store.namespace()
    blocks.set(keys_of(40), [contents(i, 1 << 20) for i in range(40)]).check()
    job = blocks.submit_get(keys_of(40), target)
    if how == "close":
        store.close()
        assert {Status.OK, Status.CANCELLED} >= set(job.wait().statuses)
        for status, one, i in zip(job.wait().statuses, target, range(40), strict=True):
            assert status == Status.CANCELLED or one == contents(i, 1 << 20)
        del one
    del store, blocks, job, target
    gc.collect()
    assert all(life() is None for life in lives)


def test_a_cancelled_job_is_whole_in_each_item(store: ObjectStore, blocks: Namespace) -> None:
    keys = keys_of(48)
    data = contents(1, 1 << 20)
    job = blocks.submit_set(keys, [data] * 48)
    job.cancel()
    result = job.wait()
    assert set(result.statuses) <= {Status.OK, Status.CANCELLED}
    assert blocks.present(keys) == result.bitmap
    assert all(blocks[key] == data for key, ok in zip(keys, result.bitmap, strict=True) if ok)


def test_a_wait_may_be_too_short(blocks: Namespace) -> None:
    blockers = [blocks.submit_set(keys_of(32), [contents(1, 1 << 20)] * 32, overwrite=True)]
    blockers += [blocks.submit_set(keys_of(32), [bytes(1 << 20)] * 32, overwrite=True)]
    last = blocks.submit_exists(b"nothing")
    with pytest.raises(Error, match=f"job {last.id} is not over") as failure:
        # The one worker is busy for a while, and a wait of no time does none of the work.
        for _ in range(100_000):
            last.wait(0)
            last = blocks.submit_exists(b"nothing")
    assert failure.value.status == Status.TIMEOUT
    assert all(job.wait().all_ok for job in blockers)
    assert last.wait(60).statuses == [Status.NOT_FOUND]
    with pytest.raises(ValueError, match="timeout must be"):
        blocks.submit_exists(b"nothing").wait(-1)


def test_threads_may_share_a_store_and_its_jobs() -> None:
    failures: list[BaseException] = []
    with ObjectStore.create("cpu:?memory=64MiB", workers=2) as store:
        blocks = store.namespace()
        shared = [blocks.submit_set(b"%d" % i, contents(i, 5000)) for i in range(50)]
        stop = threading.Event()

        def work(thread: int) -> None:
            try:
                for job in shared:
                    assert job.wait().all_ok
                for i in range(60):
                    size = 1000 + i * 100
                    key = b"%d of %d" % (i % 20, thread)
                    job = blocks.submit_set(key, contents(i, size), overwrite=True)
                    assert job.wait().all_ok
                    assert blocks.submit_get(key).wait().buffers == [contents(i, size)]
            except BaseException as failure:
                failures.append(failure)

        def drain() -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    select.select([store.event_fd], [], [], 0.001)
                store.drain()

        drainer = threading.Thread(target=drain)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in (drainer, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        drainer.join()
    assert not failures


def test_other_threads_run_meanwhile(blocks: Namespace) -> None:
    blocks.set(keys_of(32), [contents(i, 1 << 20) for i in range(32)]).check()
    targets = numpy.zeros((32, 1 << 20), "u1")
    assert gives_it_away(lambda: blocks.get(keys_of(32), targets).check())


def python(script: str, *arguments: str) -> subprocess.Popen:
    """A process that finds the package where this one does."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


INTERRUPTED = """
import os, signal, threading, time
from nearkv.store import ObjectStore
with ObjectStore.create("cpu:?memory=512MiB", workers=1) as store:
    blocks = store.namespace()
    keys, data = [b"%d" % i for i in range(24)], [bytes(8 << 20)] * 24
    begin_s = time.monotonic()
    blocks.submit_set(keys, data).wait().check()
    job_s = time.monotonic() - begin_s
    job = blocks.submit_set([b"other " + key for key in keys], data)
    threading.Timer(job_s / 3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        job.wait()
    except KeyboardInterrupt:
        pass
    assert len(job.wait()) == 24
print("closed")
"""


def test_an_interrupt_loses_no_outcome_and_closing_ends() -> None:
    for _ in range(3):
        with python(INTERRUPTED) as process:
            out, _ = process.communicate(timeout=60)
        assert out == "closed\n", out


LEAVER = """
from nearkv.store import ObjectStore
store = ObjectStore.create("cpu:?memory=64MiB", workers=2)
blocks = store.namespace()
target = [bytearray(1 << 20) for _ in range(40)]
keys = [b"%d" % i for i in range(40)]
blocks.set(keys, target).check()
jobs = [blocks.submit_get(keys, target) for _ in range(20)]
"""


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(0)", "del store, blocks, jobs, target"])
def test_a_process_may_end_in_mid_work(end: str) -> None:
    with python(LEAVER + end) as child:
        assert child.communicate() == ("", None)
    assert child.returncode == 0


CHILD = """
import itertools, select, sys, time
from nearkv.store import ObjectStore
store = ObjectStore.create(sys.argv[1], workers=2)
blocks = store.namespace("llama")
jobs = {}
for i in range(5000):
    keys = [b"%d-%d" % (i, j) for j in range(3)]
    jobs[blocks.submit_set(keys, [(b"%08d" % i) * (500 + i % 700)] * 3, chain=True)] = i
    while len(jobs) > 50:
        select.select([store.event_fd], [], [])
        for job in store.drain():
            assert job.wait().all_ok
            print(jobs.pop(job), flush=True)
time.sleep(1000)
"""


def test_what_was_acknowledged_survives_a_kill_in_mid_work(tmp_path) -> None:
    # Room for all 5000: nothing is evicted.
    uri = f"cpu:{tmp_path / 'blocks'}?memory=256MiB&huge=off"
    for acknowledged in (1, 30, 300):
        with python(CHILD, uri) as child:
            seen = [int(child.stdout.readline()) for _ in range(acknowledged)]
            child.kill()
            seen += [int(line) for line in child.stdout.read().split("\n")[:-1]]
        assert child.returncode == -signal.SIGKILL
        with ObjectStore.open(uri) as store:
            blocks = store.namespace("llama")
            for i in seen:
                assert blocks.match_prefix([b"%d-%d" % (i, j) for j in range(3)]) == 3
            found = [info.key for info in store.objects()]
            assert len(found) == store.stats().recovered >= 3 * len(seen)
            for key in found:
                number = int(key.split(b"-")[0])
                assert blocks[key] == (b"%08d" % number) * (500 + number % 700)
            blocks[b"new"] = b"life"
            assert blocks[b"new"] == b"life"
