"""What differs between the versions of vLLM that are supported, 0.28 to 0.32, and nothing else."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
import vllm
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.v1.kv_offload.config import OffloadingConfig
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.base import SecondaryTierManager, TransferJob

if TYPE_CHECKING:
    from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

logger = init_logger(__name__)

_T = TypeVar("_T")
_OLDEST = (0, 28)
_OLDEST_OF_CONNECTOR = (0, 30)
_OLDEST_OF_SCHEDULER = (0, 31)
_NEWEST = (0, 32)
_AMX_BLOCK_TOKENS = 32  # Its kernels are taken for blocks of so many tokens, or a multiple.
_PARTS = tuple(int(part) for part in vllm.__version__.split(".")[:2])

if _PARTS < _OLDEST:
    raise ImportError(
        f"vLLM {vllm.__version__} is older than what nearkv.vllm knows; "
        f"{'.'.join(map(str, _OLDEST))} to {'.'.join(map(str, _NEWEST))} are supported"
    )

# What vLLM calls a piece of its primary tier.
_CHUNK = "chunk" if _PARTS >= (0, 30) else "block"
_BASE_PARAMETERS = inspect.signature(SecondaryTierManager.__init__).parameters


def check_connector() -> None:
    """ImportError where vLLM's scheduler is not yet as NearKVConnector has to know it."""
    if _PARTS < _OLDEST_OF_CONNECTOR:
        raise ImportError(
            f"NearKVConnector needs vLLM {'.'.join(map(str, _OLDEST_OF_CONNECTOR))}, this is "
            f"{vllm.__version__}: take NearKVTier below vLLM's own offload"
        )


def check_scheduler() -> None:
    """ImportError where vLLM's scheduler is not as NearKVScheduler has to know it."""
    if _PARTS < _OLDEST_OF_SCHEDULER:
        raise ImportError(
            f"NearKVScheduler needs vLLM {'.'.join(map(str, _OLDEST_OF_SCHEDULER))} or newer, this "
            f"is {vllm.__version__}: leave --scheduler-cls out"
        )
    from vllm.v1.core.sched.scheduler import Scheduler

    leant_on = (
        *("_preempt_request", "_free_request", "_request_blocks_can_be_freed"),
        "_update_after_schedule",
    )
    if missing := [name for name in leant_on if not hasattr(Scheduler, name)]:
        raise ImportError(
            f"the scheduler of vLLM {vllm.__version__} has no {missing[0]}, which NearKVScheduler "
            f"leans on: leave --scheduler-cls out, or take vLLM {'.'.join(map(str, _NEWEST))}"
        )


@functools.cache
def warn() -> None:
    """Says, once, what this version may be bad at."""
    if _PARTS > _NEWEST:
        logger.warning("nearkv.vllm was not tested with vLLM %s", vllm.__version__)
    if _PARTS < (0, 29) and "PYTHONHASHSEED" not in os.environ:
        logger.warning(
            "vLLM %s names blocks at random, so that no other engine finds those that NearKV "
            "stores: set PYTHONHASHSEED, to the same for all of them",
            vllm.__version__,
        )


def made(kind: type[_T], **fields: Any) -> _T:
    """A dataclass of vLLM's with those of the fields that this version has."""
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: fields[name] for name in fields if name in known})


def init_tier(tier: SecondaryTierManager, **arguments: Any) -> None:
    """Calls the base class, without a detector of back-pressure where there is none."""
    known = {name: arguments[name] for name in arguments if name in _BASE_PARAMETERS}
    SecondaryTierManager.__init__(tier, **known)


def chunk_numbers(job: TransferJob) -> np.ndarray:
    """The primary chunks that a job of a tier is about."""
    return getattr(job, f"{_CHUNK}_ids")


def group_numbers(config: OffloadingConfig) -> Iterator[int]:
    """Of the KV cache groups that are offloaded; without numbers of their own it is all."""
    for place, group in enumerate(config.groups):
        yield getattr(group, "group_id", place)


def layout_names(config: OffloadingConfig) -> dict[str, str | None]:
    """How K and V lie inside a block: vLLM's name for it, and what a CPU's kernels pack them for.

    Those for AMX pack bfloat16 in a way that no other processor's kernels read.
    """
    packed_for = None
    if current_platform.is_cpu():
        from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

        packed_for = _get_attn_isa(getattr(torch, config.model.dtype), _AMX_BLOCK_TOKENS)
    return {
        "kv_cache_layout": getattr(config, "kv_cache_layout", None),  # Not in vLLM 0.28.
        "packed_for": packed_for,
    }


def shared_region(spec: "CPUOffloadingSpec", engine_id: str, rank: int) -> SharedOffloadRegion:
    """The memory of the primary tier, which one rank has a part of."""
    sizes = {
        f"num_{_CHUNK}s": getattr(spec, f"num_{_CHUNK}s"),
        f"kv_bytes_per_{_CHUNK}": spec.kv_bytes_per_chunk,
    }
    page_bytes = spec.cpu_page_size_per_worker
    return SharedOffloadRegion(engine_id=engine_id, rank=rank, cpu_page_size=page_bytes, **sizes)
