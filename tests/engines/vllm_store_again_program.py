"""Runs in vLLM's environment: what NearKVConnector lets a request store again.

Its argument: {"keys", "block_ids", "next_stored", "held": blocks that vLLM's manager has for the
request, "failed": keys}. Its last line: {"next_stored", "block_ids"} afterwards.
"""

from types import SimpleNamespace

from program import question, tell
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler import RequestGroupState

from nearkv.vllm.connector import NearKVConnector


def store_again(
    keys: list, block_ids: list[int], next_stored: int, held: list[int], failed: list
) -> dict:
    group = RequestGroupState(keys, block_ids, next_stored)
    connector = SimpleNamespace(
        scheduler=SimpleNamespace(
            config=SimpleNamespace(kv_group_configs=[SimpleNamespace(group_idx=0)]),
            _req_status={"a request": SimpleNamespace(group_states=(group,))},
        ),
        _kv_cache_manager=SimpleNamespace(get_block_ids=lambda request: (held,)),
    )
    NearKVConnector._store_again(connector, set(failed))
    return {"next_stored": group.next_stored_chunk_idx, "block_ids": group.block_ids}


if __name__ == "__main__":
    tell(store_again(**question()))
