"""Runs in vLLM's environment: a NearKVTier, asked as vLLM's scheduler asks.

Its argument: {"do": a function of this file, and its arguments}. Its last line: what that gives.
"""

import os
import random
import signal
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from program import call, question, tell
from vllm.v1.kv_offload.base import OffloadKey, ReqContext, make_offload_key
from vllm.v1.kv_offload.tiering.base import TransferJob

from nearkv.vllm import tier

CHUNK_BYTES = 4096
REQUEST = ReqContext("request")
PATIENCE_S = 40


def keys_of(count: int) -> list[OffloadKey]:
    return [make_offload_key(number.to_bytes(32), 0) for number in range(count)]


class Tier:
    """One over a primary tier of so many chunks."""

    def __init__(self, chunks: int, chunk_bytes: int, **settings: Any) -> None:
        config = SimpleNamespace(
            model=SimpleNamespace(name="model", dtype="bf16"), groups=[SimpleNamespace(group_id=0)]
        )
        self._primary = np.ones((chunks, chunk_bytes), np.int8)
        with mock.patch.object(tier, "layout_of", return_value="layout"):
            self.tested = tier.NearKVTier(
                SimpleNamespace(config=config), memoryview(self._primary), "NearKVTier", **settings
            )
        self._jobs = 0

    def run(
        self,
        do: str,
        keys: Sequence[OffloadKey],
        chunks: Sequence[int],
        context: ReqContext = REQUEST,
    ) -> list[Any]:
        """Whether a "store" or "load" succeeded, and after how many seconds it ended."""
        began_s = time.monotonic()
        self._jobs += 1
        job = TransferJob(self._jobs, keys, np.array(chunks), do == "load", context)
        (self.tested.submit_load if do == "load" else self.tested.submit_store)(job)
        ended: list = []
        while not ended and time.monotonic() - began_s < PATIENCE_S:
            ended += self.tested.get_finished_jobs()
            time.sleep(0.01)
        return [[one.success for one in ended], time.monotonic() - began_s]

    def lookup(self, key: OffloadKey) -> str:
        return self.tested.lookup(key, REQUEST).name


def stopped(socket: str, daemon: int) -> dict[str, Any]:
    """A daemon is stopped amid jobs: how each ended, and what a lookup gave afterwards."""
    one, keys = Tier(4, CHUNK_BYTES, socket=socket), keys_of(4)
    first, others = keys[:2], keys[2:]
    told = {"stored": one.run("store", first, [0, 1]), "found": one.lookup(keys[0])}
    os.kill(daemon, signal.SIGSTOP)
    try:
        told["loaded_while_stopped"] = one.run("load", first, [0, 1])
        told["stored_while_stopped"] = one.run("store", others, [2, 3])
        told["found_while_stopped"] = one.lookup(keys[0])
    finally:
        os.kill(daemon, signal.SIGCONT)
    told["stored_again"] = one.run("store", first, [0, 1])
    told["loaded_again"] = one.run("load", first, [0, 1])
    one.tested.shutdown()
    return told


def impossible() -> dict[str, Any]:
    """Chunks that vLLM does not have, and one that is stored in another size: how jobs ended."""
    one, [key, *_] = Tier(4, CHUNK_BYTES, uri="cpu:?memory=16MiB"), keys_of(1)
    told = {f"{do}_beyond": one.run(do, [key], [8])[0] for do in ("store", "load")}
    [part] = one.tested._stored.by_group([key])
    part.space.set(part.hashes, [bytes(10)]).check()
    steps = ("load", "lookup", "store", "lookup", "load")
    told["of_another_size"] = [
        one.lookup(key) if do == "lookup" else one.run(do, [key], [0])[0] for do in steps
    ]
    one.tested.shutdown()
    return told


def long_prompt() -> list[bool]:
    """Which chunks of a prompt are kept by a store with room for some: 25 MiB into 16."""
    chunks = 200
    one, keys = Tier(chunks, 128 << 10, uri="cpu:?memory=16MiB"), keys_of(chunks)
    context = ReqContext("request")
    for number, key in enumerate(keys):
        context.set_offload_key_position(key, 32 * (number + 1))
    for first in range(0, chunks, 50):
        some = list(range(first, first + 50))
        random.Random(1).shuffle(some)
        one.run("store", [keys[number] for number in some], some, context)
    kept = [one.tested._stored.holds(key) for key in keys]
    one.tested.shutdown()
    return kept


if __name__ == "__main__":
    tell(call(globals(), question()))
