"""What a store holds, as KV events: so that routers send requests where their KV blocks are.

`python -m nearkv.kv_events` publishes a daemon's blocks in the form of vLLM's and SGLang's events.
"""

from nearkv.kv_events.blocks import BlockChanges, StoredBlocks
from nearkv.kv_events.publisher import KVEventPublisher
from nearkv.kv_events.tokens import KnownTokens

__all__ = ["BlockChanges", "KVEventPublisher", "KnownTokens", "StoredBlocks"]
