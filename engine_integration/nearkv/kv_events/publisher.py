"""The sockets: events for all who subscribe, and what was missed for those who ask."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import zmq

from nearkv.kv_events.blocks import BlockChanges
from nearkv.kv_events.tokens import KnownTokens
from nearkv.kv_events.wire import BlockHash, BlockTokens, encode_batch, encode_event

_END = (-1).to_bytes(8, "big", signed=True)
_BOUND = ("*", "0.0.0.0", "::", "ipc://", "inproc://")
_BLOCKS_OF_A_BATCH = 1024


class KVEventPublisher:
    """As engines publish: PUB with [topic, number of the batch, batch], ROUTER to ask again.

    Who asks, with the 8 bytes of a number, is sent the batches from there on, and an end of number
    -1. Where they are no longer kept, he is sent one that clears, and all that is held now: from
    then on he misses nothing. One thread uses it.
    """

    def __init__(
        self,
        endpoint: str,
        held: Callable[[], Sequence[BlockHash]],
        *,
        replay_endpoint: str = "",
        topic: str = "",
        medium: str = "STORAGE",
        block_size: int = 64,
        form: str = "map",
        kept_batches: int = 10_000,
        known: KnownTokens | None = None,
    ) -> None:
        """Binds if the endpoint is one of any host's, else connects. zmq.ZMQError if it cannot."""
        self._held = held
        self._topic = topic.encode()
        self._medium = medium
        self._block_size = block_size
        self._form = form
        self._known = known or KnownTokens()
        self._bare: set[BlockHash] = set()
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=kept_batches)
        self._next = 0
        self._context = zmq.Context()
        self._sockets = [self._context.socket(zmq.PUB), self._context.socket(zmq.ROUTER)]
        try:
            binds = any(word in endpoint for word in _BOUND)
            (self._sockets[0].bind if binds else self._sockets[0].connect)(endpoint)
            if replay_endpoint:
                self._sockets[1].bind(replay_endpoint)
        except zmq.ZMQError:
            self.close()
            raise

    @property
    def replay_socket(self) -> zmq.Socket:
        """Readable when someone asks."""
        return self._sockets[1]

    def tell(self, changes: BlockChanges) -> None:
        """Publishes changes, if there are any."""
        if changes.cleared:
            self._bare.clear()
        self._bare.difference_update(changes.removed)
        for events in self._batches(changes):
            payload = encode_batch(events)
            self._kept.append((self._next, payload))
            self._sockets[0].send_multipart([self._topic, _number(self._next), payload])
            self._next += 1

    def tell_learnt(self) -> None:
        """Publishes blocks again whose tokens were not known when they were told."""
        learnt = [block for block in self._bare if self._known.of(block)]
        self.tell(BlockChanges(stored=learnt))
        self._bare.difference_update(learnt)

    def answer(self) -> None:
        """Answers those who asked, without waiting for any."""
        while self.replay_socket.poll(0):
            frames = self.replay_socket.recv_multipart()
            if len(frames) != 3 or len(frames[2]) != 8:
                continue  # No such request: it has nobody who would understand an answer.
            first = int.from_bytes(frames[2], "big")
            for number, payload in [*self._from(first), (-1, b"")]:
                topic, name = (b"", _END) if number < 0 else (self._topic, _number(number))
                self.replay_socket.send_multipart([frames[0], b"", topic, name, payload])

    def close(self) -> None:
        """Closes the sockets; what was sent goes on for a second."""
        self._context.destroy(linger=1000)

    def _from(self, first: int) -> Iterable[tuple[int, bytes]]:
        if first >= self._next or (self._kept and self._kept[0][0] <= first):
            return [each for each in self._kept if each[0] >= first]
        everything = BlockChanges(cleared=True, stored=list(self._held()))
        events = [event for batch in self._batches(everything) for event in batch]
        return [(self._next - 1, encode_batch(events))]

    def _batches(self, changes: BlockChanges) -> Iterator[list[Any]]:
        if changes.cleared:
            yield [encode_event("AllBlocksCleared", self._form)]
        for blocks in _slices(changes.removed):
            fields = {"block_hashes": blocks, "medium": self._medium}
            yield [encode_event("BlockRemoved", self._form, **fields)]
        for blocks in _slices(changes.stored):
            yield list(self._stored(blocks))

    def _stored(self, blocks: Sequence[BlockHash]) -> Iterator[Any]:
        bare = []
        for block in blocks:
            if (tokens := self._known.of(block)) is None:
                bare.append(block)
            else:
                yield self._event([block], tokens)
        self._bare.update(bare)
        if bare:
            yield self._event(bare, BlockTokens(None, [], self._block_size, {}))

    def _event(self, blocks: list[BlockHash], tokens: BlockTokens) -> Any:
        return encode_event(
            "BlockStored",
            self._form,
            block_hashes=blocks,
            parent_block_hash=tokens.parent,
            token_ids=tokens.token_ids,
            block_size=tokens.block_size,
            medium=self._medium,
            **tokens.covered,
        )


def _number(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _slices(blocks: Sequence[BlockHash]) -> Iterator[Sequence[BlockHash]]:
    for first in range(0, len(blocks), _BLOCKS_OF_A_BATCH):
        yield blocks[first : first + _BLOCKS_OF_A_BATCH]
