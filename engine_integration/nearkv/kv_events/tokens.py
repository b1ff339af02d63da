"""Which tokens blocks are of: a store does not know, and engines tell it in their own events."""

from collections import OrderedDict

import msgspec

from nearkv.kv_events.wire import BlockHash, BlockTokens, decode_batch, number_of

_MOST_BLOCKS = 1 << 20


class KnownTokens:
    """Of the blocks that engines stored last, their tokens and the blocks before them."""

    def __init__(self, most: int = _MOST_BLOCKS) -> None:
        self._known: OrderedDict[int, BlockTokens] = OrderedDict()
        self._most = most

    def learn(self, payload: bytes) -> bool:
        """Takes up a batch of an engine's. False, and nothing is learnt, for what is none."""
        try:
            for kind, fields in decode_batch(payload):
                tokens, size = fields.get("token_ids"), fields.get("block_size")
                if kind == "BlockStored" and tokens and size:
                    self._take(
                        fields["block_hashes"], fields["parent_block_hash"], tokens, int(size)
                    )
        except (msgspec.DecodeError, ValueError, TypeError):
            return False
        return True

    def of(self, block: BlockHash) -> BlockTokens | None:
        """None if no engine has told."""
        return self._known.get(number_of(block))

    def _take(
        self, hashes: list[BlockHash], parent: BlockHash | None, tokens: list[int], size: int
    ) -> None:
        for number, block in enumerate(hashes):
            own = tokens[number * size : (number + 1) * size]
            if len(own) < size:
                break
            self._known[number_of(block)] = BlockTokens(parent, own, size)
            parent = block
        while len(self._known) > self._most:
            self._known.popitem(last=False)
