"""A daemon that is stopped in the middle of a job, as long as clients wait for one."""

import time
from pathlib import Path

import numpy
import pytest

pytest.importorskip("nearkv.store", exc_type=ImportError)
from bench.engines.serving import Daemon
from nearkv.store import PATIENCE_S, Error, ObjectStore, Status

pytestmark = pytest.mark.long

CONTENTS = numpy.random.default_rng(1).bytes(8000)


def test_who_asks_again_and_again_hears_that_a_job_was_given_up(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, ObjectStore.connect(daemon.socket, patience_s=0) as store:
        blocks = store.namespace("model", "bf16", "layout")
        daemon.stop()
        job = blocks.submit_set([b"key"], [CONTENTS])
        begin_s = time.monotonic()
        try:
            while not job.is_over():
                assert time.monotonic() - begin_s < 3 * PATIENCE_S
                time.sleep(0.1)
            assert time.monotonic() - begin_s >= PATIENCE_S
            assert job.wait().statuses == [Status.TIMEOUT]
        finally:
            daemon.go_on()


def test_what_a_silent_daemon_holds_of_a_job_is_given_up(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, ObjectStore.connect(daemon.socket, patience_s=0) as store:
        blocks = store.namespace("model", "bf16", "layout")
        blocks.set([b"key"], [CONTENTS]).check()
        target = bytearray(8000)
        daemon.stop()
        try:
            result = blocks.submit_get([b"key"], [target]).wait_or_cancel()
            assert result.statuses == [Status.TIMEOUT]
            with pytest.raises(Error):
                blocks.describe(b"key")
            assert blocks.get([b"key"], [target]).statuses == [Status.TIMEOUT]
            assert blocks.set([b"other"], [CONTENTS]).statuses == [Status.TIMEOUT]
        finally:
            daemon.go_on()
        assert target == bytes(8000)
        end_s = time.monotonic() + 30
        while not blocks.get([b"key"], [target]).all_ok:  # Until it is heard again.
            assert time.monotonic() < end_s
        assert target == CONTENTS


@pytest.mark.parametrize("how", ["close", "layers"])
def test_nobody_waits_for_a_stopped_daemon_for_ever(tmp_path: Path, how: str) -> None:
    with Daemon(tmp_path) as daemon:
        store = ObjectStore.connect(daemon.socket, patience_s=0)
        blocks = store.namespace("model", "bf16", "layout")
        blocks.set([b"key"], [CONTENTS], parts=2).check()
        daemon.stop()
        begin_s = time.monotonic()
        try:
            if how == "close":
                blocks.submit_get([b"key"], [bytearray(8000)])
            else:
                targets = [[bytearray(4000)] for _ in range(2)]
                first = next(blocks.layers([b"key"], 2, targets))
                assert first.statuses == [Status.TIMEOUT]
            store.close()
        finally:
            daemon.go_on()
        assert time.monotonic() - begin_s < 3 * PATIENCE_S
