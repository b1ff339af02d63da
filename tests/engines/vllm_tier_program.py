"""Runs in vLLM's environment: a NearKVTier whose daemon is stopped amid its jobs.

Its argument: {"socket": of the daemon, "daemon": its process}. Its last line: how each job ended,
[whether it succeeded, seconds], and how a lookup did afterwards.
"""

import os
import signal
import time
from collections.abc import Callable
from types import SimpleNamespace
from unittest import mock

import numpy as np
from program import question, tell
from vllm.v1.kv_offload.base import ReqContext, make_offload_key
from vllm.v1.kv_offload.tiering.base import TransferJob

from nearkv.vllm import tier

CHUNK_BYTES = 4096
KEYS = [make_offload_key(bytes([number]) * 32, 0) for number in range(4)]
REQUEST = ReqContext("request")
PATIENCE_S = 40


def stopped(socket: str, daemon: int) -> dict:
    config = SimpleNamespace(
        model=SimpleNamespace(name="model", dtype="bf16"), groups=[SimpleNamespace(group_id=0)]
    )
    primary = np.ones((len(KEYS), CHUNK_BYTES), np.int8)
    with mock.patch.object(tier, "layout_of", return_value="layout"):
        tested = tier.NearKVTier(
            SimpleNamespace(config=config),
            memoryview(primary),
            "NearKVTier",
            socket=socket,
        )

    def run(number: int, places: slice, submit: Callable[[TransferJob], None]) -> list:
        began_s = time.monotonic()
        chunks = np.arange(len(KEYS))[places]
        submit(TransferJob(number, KEYS[places], chunks, submit == tested.submit_load, REQUEST))
        ended: list = []
        while not ended and time.monotonic() - began_s < PATIENCE_S:
            ended += tested.get_finished_jobs()
            time.sleep(0.01)
        return [[one.success for one in ended], time.monotonic() - began_s]

    def lookup() -> str:
        return tested.lookup(KEYS[0], REQUEST).name

    first, others = slice(0, 2), slice(2, 4)
    told = {"stored": run(1, first, tested.submit_store), "found": lookup()}
    os.kill(daemon, signal.SIGSTOP)
    try:
        told["loaded_while_stopped"] = run(2, first, tested.submit_load)
        told["stored_while_stopped"] = run(3, others, tested.submit_store)
        told["found_while_stopped"] = lookup()
    finally:
        os.kill(daemon, signal.SIGCONT)
    told["stored_again"] = run(4, first, tested.submit_store)
    told["loaded_again"] = run(5, first, tested.submit_load)
    tested.shutdown()
    return told


if __name__ == "__main__":
    tell(stopped(**question()))
