"""Which tokens blocks are of: a store does not know, and engines tell it in their own events."""

from collections.abc import Mapping
from typing import Any

import msgspec

from nearkv.kv_events.latest import Latest
from nearkv.kv_events.wire import BlockHash, BlockTokens, decode_batch, number_of


class KnownTokens:
    """Of the blocks that engines stored last, their tokens and the blocks before them."""

    def __init__(self) -> None:
        self._known: Latest[int, BlockTokens] = Latest()

    def learn(self, payload: bytes) -> bool:
        """Takes up a batch of an engine's. False, and nothing is learnt, for what is none."""
        try:
            for kind, fields in decode_batch(payload):
                if kind == "BlockStored" and fields["token_ids"] and fields["is_told"]:
                    self._take(fields)
        except (msgspec.DecodeError, ValueError, TypeError):
            return False
        return True

    def of(self, block: BlockHash) -> BlockTokens | None:
        """None if no engine has told."""
        return self._known.get(number_of(block))

    def _take(self, fields: Mapping[str, Any]) -> None:
        parent, size = fields["parent_block_hash"], fields["block_size"]
        extra = fields["extra_keys"] or [None] * len(fields["block_hashes"])
        covered = {name: fields[name] for name in ("lora_id", "lora_name", "cache_salt")}
        for place, block in enumerate(fields["block_hashes"]):
            number, own = number_of(block), fields["token_ids"][place * size : (place + 1) * size]
            before = self._known.get(number)
            # A group of larger blocks knows a block by the hash of the last small one in it.
            if before is None or size <= before.block_size:
                covers = covered | {"extra_keys": [extra[place]]}
                self._known.put(number, BlockTokens(parent, own, size, covers))
            parent = block
