"""NearKV under vLLM: offloaded KV chunks are objects of a store, which outlive the engine.

`NearKVTier` is a secondary tier of vLLM's tiering offload; `NearKVOffloadingSpec` is that offload
with a worker for machines without a GPU. vLLM imports both by the names of the README's example.
"""

from nearkv.vllm.spec import NearKVOffloadingSpec
from nearkv.vllm.tier import NearKVTier

__all__ = ["NearKVOffloadingSpec", "NearKVTier"]
