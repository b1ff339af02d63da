"""Runs in an engine's environment, and reads NearKV's KV events with SGLang's own classes.

Each line of input is {"do": "take"} for what came since, or {"do": "replay", "first": number} for
what the publisher sends again; each line of output a list of [number of the batch, event, ..].
Its argument: {"events": endpoint, "replay": endpoint, "topic": what it subscribes to, "form"}.
"""

import json
import sys
from typing import Any

import msgspec
import sglang_absent  # noqa: F401
import zmq
from sglang.srt.disaggregation.kv_events import KVEventBatch

QUIET_MS = 600


def decoded(payload: bytes, form: str) -> list[dict[str, Any]]:
    """Events by SGLang's own decoder of maps; arrays, which it no longer reads, as they are."""
    if form == "array":
        _, events, _ = msgspec.msgpack.decode(payload)
        return events
    return msgspec.to_builtins(msgspec.msgpack.decode(payload, type=KVEventBatch).events)


def main() -> None:
    asked = json.loads(sys.argv[1])
    context = zmq.Context()
    events, replay = context.socket(zmq.SUB), context.socket(zmq.DEALER)
    events.subscribe(asked["topic"])
    events.connect(asked["events"])
    replay.connect(asked["replay"])
    for line in sys.stdin:
        question = json.loads(line)
        told: list[Any] = []
        if question["do"] == "take":
            while events.poll(QUIET_MS):
                topic, number, payload = events.recv_multipart()
                assert topic.decode() == asked["topic"]
                told.append([int.from_bytes(number, "big"), *decoded(payload, asked["form"])])
        elif question["do"] == "engine":
            # As an engine that tells its tokens.
            with context.socket(zmq.PUB) as engine:
                engine.bind(question["endpoint"])
                while not events.poll(100):
                    for batch in question["batches"]:
                        engine.send_multipart([b"", bytes(8), msgspec.msgpack.encode(batch)])
                    if question["until"] <= 0:
                        break
                    question["until"] -= 1
        else:
            replay.send_multipart([b"", question["first"].to_bytes(8, "big")])
            while replay.poll(5000):
                _, _, number, payload = replay.recv_multipart()
                if number == (-1).to_bytes(8, "big", signed=True):
                    break
                told.append([int.from_bytes(number, "big"), *decoded(payload, asked["form"])])
            else:
                told.append("no end")
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
