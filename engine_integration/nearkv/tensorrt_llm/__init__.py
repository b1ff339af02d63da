"""NearKV under TensorRT-LLM: KV blocks as objects of a store that outlives it.

Written against its published KV cache connector interface, and not run in it.
"""

from nearkv.tensorrt_llm.connector import NearKVConnectorScheduler, NearKVConnectorWorker

__all__ = ["NearKVConnectorScheduler", "NearKVConnectorWorker"]
