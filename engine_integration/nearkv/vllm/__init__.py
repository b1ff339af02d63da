"""NearKV under vLLM: offloaded KV chunks are objects of a store, which outlive the engine.

`NearKVConnector` moves them straight between vLLM's KV cache and a store. `NearKVTier` is a
secondary tier of vLLM's own tiering offload instead, `NearKVOffloadingSpec` that offload with a
worker for machines without a GPU. vLLM imports them by the names of the README's examples.
"""

from importlib import import_module
from typing import Any

# Imported once asked for: an entry point here is loaded by every vLLM, also by one without NearKV's
# extension.
_MODULES = {
    "NearKVConnector": "connector",
    "NearKVOffloadingSpec": "spec",
    "NearKVTier": "tier",
}

__all__ = ["NearKVConnector", "NearKVOffloadingSpec", "NearKVTier"]


def __getattr__(name: str) -> Any:
    """One of the classes of `__all__`."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("nearkv.vllm.compat").check_version()
    return getattr(import_module(f"nearkv.vllm.{_MODULES[name]}"), name)
