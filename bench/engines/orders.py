"""Orders from standard input, as bench.contender gives them: a word and what it needs, in JSON."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any


def serve(make: Callable[[], Any], orders: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """Makes an engine, replies to orders until standard input ends, and closes it.

    `orders` has for each word what is called with the engine, and with what the order needs.
    """
    # What libraries print is no reply.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(document: dict[str, Any]) -> None:
        print(json.dumps(document), file=replies, flush=True)

    with closing(make()) as engine:
        reply({"ready": True})
        for line in sys.stdin:
            word, _, needs = line.strip().partition(" ")
            if word in orders:
                reply(orders[word](engine, *([json.loads(needs)] if needs else [])))
            else:
                reply({"error": f"no {word}"})
