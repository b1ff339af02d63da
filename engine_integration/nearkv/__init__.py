"""NearKV: compute beside the memory that holds an LLM's KV cache."""

__version__ = "0.1.0"
