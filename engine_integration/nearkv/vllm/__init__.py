"""NearKV under vLLM: offloaded KV chunks are objects of a store, which outlive the engine.

`NearKVConnector` moves them straight between vLLM's KV cache and a store. `NearKVTier` is a
secondary tier of vLLM's own tiering offload instead, `NearKVOffloadingSpec` that offload with a
worker for machines without a GPU. vLLM imports them by the names of the README's examples.
"""

from typing import Any

from nearkv.vllm.spec import NearKVOffloadingSpec
from nearkv.vllm.tier import NearKVTier

__all__ = ["NearKVConnector", "NearKVOffloadingSpec", "NearKVTier"]


def __getattr__(name: str) -> Any:
    """NearKVConnector, once it is asked for: the tier runs with older versions of vLLM."""
    if name != "NearKVConnector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nearkv.vllm import compat

    compat.check_connector()
    from nearkv.vllm.connector import NearKVConnector

    return NearKVConnector
