"""Orders from standard input, as bench.contender gives them: a word and what it needs, in JSON."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Engine(Protocol):
    """What works on them."""

    def close(self) -> None:
        """Ends it."""


def serve(make: Callable[[], Engine], orders: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """Makes the engine and replies to orders until standard input ends.

    `orders` has for each word what is called with the engine, and with what the order needs.
    """
    # What libraries print is no reply.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(document: dict[str, Any]) -> None:
        print(json.dumps(document), file=replies, flush=True)

    engine = make()
    reply({"ready": True})
    try:
        for line in sys.stdin:
            word, _, needs = line.strip().partition(" ")
            if word in orders:
                reply(orders[word](engine, *([json.loads(needs)] if needs else [])))
            else:
                reply({"error": f"no {word}"})
    finally:
        engine.close()
