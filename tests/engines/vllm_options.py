"""A small engine of vLLM's, for the programs that run one in its environment."""

import gc
import os
from typing import Any

from vllm.distributed import cleanup_dist_env_and_memory


def small_engine(options: dict[str, Any]) -> dict[str, Any]:
    """All options of an engine that has these; several ranks are bound to processors."""
    if (ranks := options.get("tensor_parallel_size", 1)) > 1:
        # vLLM gives each a NUMA node, of which small machines have one.
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(ranks)))
    return {
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": 2048,
        "block_size": 32,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 2048,
        "disable_log_stats": True,
        "seed": 0,
    } | options


def forget_engine() -> None:
    """Takes away what an engine that ended leaves in a process, before the next one."""
    gc.collect()
    cleanup_dist_env_and_memory()
