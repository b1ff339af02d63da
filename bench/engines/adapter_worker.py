"""Runs in vLLM's environment: the connector's two sides, called as a scheduler and a worker do.

Its argument: {"model", "folder", "blocks", "layers": counts, "repeat"}. Requests of so many blocks
are stored and found again, by NearKVConnector and by vLLM's own connector onto an offload that does
nothing, in turns. Each line that it writes is of one count of layers: {"layers", "block_bytes" of a
request, "copied_bytes" by the store for one, and for "nearkv" and "vllm" the CPU seconds of each
request, by "hit/PART" and "store/PART"}. Threads of the store are not in them.
"""

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1"}

import torch
from vllm import SamplingParams
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.kv_cache_utils import KVCacheBlock
from vllm.v1.core.sched.output import NewRequestData, SchedulerOutput
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheTensor,
)
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request, RequestStatus

import nearkv.vllm

_BLOCK_TOKENS = 16
_PARTS = ("ask", "prepare", "begin", "end")
_RUNS_A_MODEL = SimpleNamespace(attn_metadata={})
_NULL = {"spec_name": "NullSpec", "spec_module_path": "null_offload"}
_SAMPLING = SamplingParams(max_tokens=1)


class Sides:
    """A connector's scheduler and worker on a cache of so many layers."""

    def __init__(self, model: str, blocks: int, layers: int, kind: type, extra: dict) -> None:
        names = [f"model.layers.{i}.self_attn.attn" for i in range(layers)]
        spec = FullAttentionSpec(
            block_size=_BLOCK_TOKENS, num_kv_heads=2, head_size=32, dtype=torch.bfloat16
        )
        count = blocks + 1  # Of which vLLM keeps the first to itself.
        page_bytes = spec.page_size_bytes
        self.block_bytes = layers * page_bytes
        cache = KVCacheConfig(
            num_blocks=count,
            kv_cache_tensors=[
                KVCacheTensor(layers * count * page_bytes, names, count * page_bytes, page_bytes)
            ],
            kv_cache_groups=[KVCacheGroupSpec(names, spec)],
        )
        transfer = {"kv_connector": kind.__name__, "kv_role": "kv_both"}
        transfer |= {"kv_connector_extra_config": extra}
        if kind is not OffloadingConnector:
            transfer |= {"kv_connector_module_path": "nearkv.vllm"}
        config = EngineArgs(
            model=model,
            dtype="bfloat16",
            block_size=_BLOCK_TOKENS,
            kv_transfer_config=transfer,
        ).create_engine_config()
        shape = (count, 2, _BLOCK_TOKENS, 64)
        self.scheduler = kind(config, KVConnectorRole.SCHEDULER, cache)
        self.worker = kind(config, KVConnectorRole.WORKER, cache)
        self.worker.register_kv_caches(
            {name: torch.randn(shape).to(torch.bfloat16) for name in names}
        )
        own = kind is nearkv.vllm.NearKVConnector
        self.store = self.scheduler._manager._chunks.store if own else None
        self._copied_blocks = 0
        self.blocks = [KVCacheBlock(number + 1) for number in range(blocks)]
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def request(self, hashes: list[bytes], *, is_known: bool) -> None:
        """One from its arrival to its end."""
        self._spent = dict.fromkeys(_PARTS, 0)
        tokens = [1] * (len(hashes) * _BLOCK_TOKENS + 1)
        request = Request("r", tokens, _SAMPLING, None, block_hasher=lambda _: hashes)
        self.scheduler.on_new_request(request)
        found, _ = self._timed("ask", self.scheduler.get_num_new_matched_tokens, request, 0)
        assert found == is_known * len(hashes) * _BLOCK_TOKENS, found
        blocks = KVCacheBlocks((self.blocks,))
        self._timed("prepare", self.scheduler.update_state_after_alloc, request, blocks, found)
        step = SchedulerOutput.make_empty()
        if not is_known:
            numbers = [block.block_id for block in self.blocks]
            step.scheduled_new_reqs = [NewRequestData.from_request(request, (numbers,))]
            step.num_scheduled_tokens = {"r": len(tokens)}
        self._step(step, len(hashes) if is_known else 0)
        # What was computed is stored in the step after it.
        request.status = RequestStatus.FINISHED_LENGTH_CAPPED
        self.scheduler.request_finished(request, [])
        end = SchedulerOutput.make_empty()
        end.finished_req_ids = {"r"}
        self._step(end, 0 if is_known else len(hashes))
        for part, nanoseconds in self._spent.items():
            name = f"{'hit' if is_known else 'store'}/{part}"
            self.seconds[name].append(nanoseconds / 1e9)

    def close(self) -> None:
        """Both sides."""
        self.worker.shutdown()
        self.scheduler.shutdown()

    def _step(self, step: SchedulerOutput, copied_blocks: int) -> None:
        self._copied_blocks += copied_blocks
        meta = self._timed("prepare", self.scheduler.build_connector_meta, step)
        self.worker.bind_connector_metadata(meta)
        self._timed("begin", self.worker.start_load_kv, _RUNS_A_MODEL)
        self._timed("begin", self.worker.wait_for_save)
        self._await(self._copied_blocks)
        self._timed("end", self.worker.get_transfer_results, set())
        ended = self._timed("end", self.worker.build_connector_worker_meta)
        output = KVConnectorOutput(kv_connector_worker_meta=ended)
        self._timed("end", self.scheduler.update_connector_output, output)

    def _await(self, blocks: int) -> None:
        """Until the store has copied so many in all, which tells nobody else."""
        while True:
            time.sleep(0.001)
            stats = self.store.stats() if self.store is not None else None
            if stats is None or stats.sets + stats.hits >= blocks:
                return

    def _timed(self, part: str, call: Callable[..., Any], *arguments: Any) -> Any:
        began_ns = time.thread_time_ns()
        answer = call(*arguments)
        self._spent[part] += time.thread_time_ns() - began_ns
        return answer


def measure(question: dict[str, Any], layers: int) -> dict[str, Any]:
    blocks = question["blocks"]
    pool = Path(question["folder"]) / f"{layers}.pool"
    extra = {"uri": f"cpu:{pool}?memory={blocks * layers * 6144 * 4 + (64 << 20)}"}
    common = question["model"], blocks, layers
    sides = {
        "nearkv": Sides(*common, nearkv.vllm.NearKVConnector, extra),
        "vllm": Sides(*common, OffloadingConnector, dict(_NULL)),
    }
    for number in range(question["repeat"]):
        hashes = [(number * blocks + i).to_bytes(32, "big") for i in range(blocks)]
        for side in sides.values():
            side.request(hashes, is_known=False)
        for side in sides.values():
            side.request(hashes, is_known=True)
    own = sides["nearkv"]
    stats = own.store.stats()
    answer = {
        "layers": layers,
        "copied_bytes": (stats.get_bytes + stats.set_bytes) / question["repeat"] / 2,
        "block_bytes": own.block_bytes * blocks,
    } | {name: side.seconds for name, side in sides.items()}
    for side in sides.values():
        side.close()
    pool.unlink()
    return answer


def main() -> None:
    question = json.loads(sys.argv[1])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for layers in question["layers"]:
        print(json.dumps(measure(question, layers)), file=replies, flush=True)


if __name__ == "__main__":
    main()
