"""Runs in vLLM's environment: what NearKVConnector lets a request store again.

Its argument: {"keys", "block_ids", "next_stored", "held": blocks that vLLM's manager has for the
request, "failed": keys}. Its last line: {"next_stored", "block_ids"} afterwards.
"""

import json
import sys
from types import SimpleNamespace

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler import RequestGroupState

from nearkv.vllm.connector import NearKVConnector


def main() -> None:
    asked = json.loads(sys.argv[1])
    group = RequestGroupState(asked["keys"], asked["block_ids"], asked["next_stored"])
    connector = SimpleNamespace(
        scheduler=SimpleNamespace(
            config=SimpleNamespace(kv_group_configs=[SimpleNamespace(group_idx=0)]),
            _req_status={"a request": SimpleNamespace(group_states=(group,))},
        ),
        _kv_cache_manager=SimpleNamespace(get_block_ids=lambda request: (asked["held"],)),
    )
    NearKVConnector._store_again(connector, set(asked["failed"]))
    after = {"next_stored": group.next_stored_chunk_idx, "block_ids": group.block_ids}
    print(json.dumps(after))


if __name__ == "__main__":
    main()
