"""An engine of which only the KV events are there."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zmq")

import zmq

from nearkv.kv_events.wire import encode_batch, encode_event
from nearkv.router import SglangHashes

PROMPT = list(range(64))
DIGESTS = SglangHashes().digests(PROMPT, 4)
HASHES = [int.from_bytes(digest[:8], "big", signed=True) for digest in DIGESTS]


def stored(first: int, last: int, form: str = "map") -> bytes:
    event = encode_event(
        "BlockStored",
        form,
        block_hashes=HASHES[first:last],
        parent_block_hash=HASHES[first - 1] if first else None,
        token_ids=PROMPT[4 * first : 4 * last],
        block_size=4,
        medium="GPU",
    )
    return encode_batch([event])


class Engine:
    """vLLM's ZmqEventPublisher in miniature: an XPUB, and a ROUTER that repeats what is kept."""

    def __init__(self, folder: Path, *, kept: int = 100) -> None:
        self.endpoint, self.replay_endpoint = f"ipc://{folder}/e", f"ipc://{folder}/r"
        self.context = zmq.Context()
        self.pub = self.context.socket(zmq.XPUB)
        self.pub.bind(self.endpoint)
        self.router = self.context.socket(zmq.ROUTER)
        self.router.bind(self.replay_endpoint)
        self.kept: deque[tuple[int, bytes]] = deque(maxlen=kept)
        self.next = 0

    def publish(self, batch: bytes, *, is_lost: bool = False) -> None:
        self.kept.append((self.next, batch))
        if not is_lost:
            self.pub.send_multipart([b"kv", self.next.to_bytes(8, "big"), batch])
        self.next += 1

    def is_heard(self) -> bool:
        """Whether a subscription has come through: what was published before is not heard."""
        return bool(self.pub.poll(0))

    def answer(self) -> None:
        while self.router.poll(0):
            client, _, first = self.router.recv_multipart()
            for number, batch in self.kept:
                if number >= int.from_bytes(first, "big"):
                    self.router.send_multipart(
                        [client, b"", b"kv", number.to_bytes(8, "big"), batch]
                    )
            self.router.send_multipart([client, b"", b"", b"\xff" * 8, b""])

    def close(self) -> None:
        self.context.destroy(linger=0)


def until(condition: Callable[[], bool], *work: Callable[[], Any]) -> None:
    """Does the work over and over until it is so; fails after 10 s."""
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen within 10 s"
        for each in work:
            each()
