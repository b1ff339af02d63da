"""A daemon that is stopped in the middle of a job, as long as clients wait for one."""

import os
import signal
from pathlib import Path

import numpy
import pytest

pytest.importorskip("nearkv.store", exc_type=ImportError)
from nearkv.store import Error, ObjectStore, Status
from tests.engines.serving import Daemon

pytestmark = pytest.mark.long


CONTENTS = numpy.random.default_rng(1).bytes(8000)


def test_what_a_silent_daemon_holds_of_a_job_is_given_up(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, ObjectStore.connect(daemon.socket, patience_s=0) as store:
        blocks = store.namespace("model", "bf16", "layout")
        blocks.set([b"key"], [CONTENTS]).check()
        target = bytearray(8000)
        os.kill(daemon.process_id, signal.SIGSTOP)
        os.waitpid(daemon.process_id, os.WUNTRACED)  # Until it has stopped.
        try:
            result = blocks.submit_get([b"key"], [target]).wait_or_cancel()
            assert result.statuses == [Status.TIMEOUT]
            with pytest.raises(Error):
                blocks.describe(b"key")
        finally:
            os.kill(daemon.process_id, signal.SIGCONT)
        assert target == bytes(8000)
        assert blocks.get([b"key"], [target]).check().all_ok
        assert target == CONTENTS
