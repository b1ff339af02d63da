"""What differs between the versions of vLLM that are supported, 0.30 to 0.32, and nothing else."""

import dataclasses
import inspect
from typing import Any

import vllm
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

_OLDEST = (0, 30)
_NEWEST = (0, 32)
_PARTS = tuple(int(part) for part in vllm.__version__.split(".")[:2])

if _PARTS < _OLDEST:
    raise ImportError(
        f"vLLM {vllm.__version__} names a tier's blocks otherwise than nearkv.vllm knows; "
        f"{'.'.join(map(str, _OLDEST))} to {'.'.join(map(str, _NEWEST))} are supported"
    )
IS_NEWER_THAN_KNOWN = _PARTS > _NEWEST
_OLDEST_OF_CONNECTOR = (0, 32)

_RESULT_FIELDS = {field.name for field in dataclasses.fields(JobResult)}
_BASE_PARAMETERS = inspect.signature(SecondaryTierManager.__init__).parameters


def check_connector() -> None:
    """ImportError where NearKVConnector does not know the scheduler that it is made of."""
    if _PARTS < _OLDEST_OF_CONNECTOR:
        raise ImportError(
            f"NearKVConnector needs vLLM {'.'.join(map(str, _OLDEST_OF_CONNECTOR))}, this is "
            f"{vllm.__version__}: take NearKVTier below vLLM's own offload"
        )


def job_result(**fields: Any) -> JobResult:
    """A JobResult with those of the fields that this version has."""
    return JobResult(**{name: fields[name] for name in fields if name in _RESULT_FIELDS})


def init_tier(tier: SecondaryTierManager, **arguments: Any) -> None:
    """Calls the base class, without a detector of back-pressure where there is none (0.30)."""
    known = {name: arguments[name] for name in arguments if name in _BASE_PARAMETERS}
    SecondaryTierManager.__init__(tier, **known)
