"""Publishes what a daemon holds: python -m nearkv.kv_events --socket SOCKET --model MODEL."""

import argparse
import signal
import sys
import threading

import zmq

from nearkv.core import Error
from nearkv.kv_events.blocks import StoredBlocks
from nearkv.kv_events.publisher import KVEventPublisher
from nearkv.kv_events.tokens import KnownTokens
from nearkv.kv_events.wire import FORMS, HASHES
from nearkv.store import NamespaceInfo, ObjectStore

# What both Dynamo and llm-d know; Dynamo drops events of any other medium.
MEDIA = ("CPU", "CPU_PINNED", "CPU_TIER2", "DISK", "STORAGE", "EXTERNAL", "SHARED")
_MOST_SHOWN = 8


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m nearkv.kv_events", description="Publishes a store's blocks as KV events."
    )
    parser.add_argument("--socket", required=True, help="of the daemon")
    parser.add_argument("--model", required=True, help="the engine's name for it")
    parser.add_argument("--layout", default="sglang-kv-", help="how names of layouts begin")
    parser.add_argument("--tenant", type=int, default=0)
    parser.add_argument("--group", type=int, default=0, help="of the KV cache: full attention's")
    parser.add_argument("--endpoint", default="tcp://*:5557", help="events")
    parser.add_argument("--replay-endpoint", default="", help="what was missed; bound")
    parser.add_argument("--topic", default="", help="kv@SHARED_STORAGE@MODEL for llm-d")
    parser.add_argument("--medium", choices=MEDIA, default="STORAGE")
    parser.add_argument("--block-size", type=int, default=64, help="tokens of a block")
    parser.add_argument("--hashes", choices=HASHES, default="sglang", help="whose")
    parser.add_argument("--form", choices=FORMS, default="map", help="of events")
    parser.add_argument("--learn", action="append", default=[], help="an engine's own events")
    parser.add_argument("--kept-batches", type=int, default=10_000, help="for --replay-endpoint")
    parser.add_argument("--interval-s", type=float, default=0.1, help="between looks at the store")
    return parser.parse_args(words)


def is_chosen(info: NamespaceInfo, arguments: argparse.Namespace) -> bool:
    """Whether a namespace's blocks are told: its first rank stands for all."""
    begins = info.text.startswith(f"{arguments.model} ")
    _, _, layout = info.text[len(arguments.model) + 1 :].partition(" ")
    return (
        begins
        and info.tenant == arguments.tenant
        and layout.startswith(arguments.layout)
        and layout.endswith(f" rank 0 group {arguments.group}")
    )


def publish(arguments: argparse.Namespace, stopped: threading.Event) -> None:
    """Publishes until it is stopped. nearkv.core.Error or zmq.ZMQError if it cannot begin."""
    known = KnownTokens()
    with (
        ObjectStore.connect(arguments.socket, patience_s=0) as store,
        zmq.Context() as context,
        context.socket(zmq.SUB) as engines,
    ):
        blocks = StoredBlocks(
            store, lambda info: is_chosen(info, arguments), HASHES[arguments.hashes]
        )
        publisher = KVEventPublisher(
            arguments.endpoint,
            lambda: blocks.held,
            replay_endpoint=arguments.replay_endpoint,
            topic=arguments.topic,
            medium=arguments.medium,
            block_size=arguments.block_size,
            form=arguments.form,
            kept_batches=arguments.kept_batches,
            known=known,
        )
        engines.subscribe("")
        for engine in arguments.learn:
            engines.connect(engine)
        poller = zmq.Poller()
        poller.register(engines, zmq.POLLIN)
        poller.register(publisher.replay_socket, zmq.POLLIN)
        told: list[str] = []
        while not stopped.is_set():
            poller.poll(arguments.interval_s * 1000)
            while engines.poll(0):
                known.learn(engines.recv_multipart()[-1])
            publisher.tell(blocks.poll())
            if blocks.others and blocks.others != told:
                told = blocks.others
                _tell_of_others(told, arguments)
            publisher.tell_learnt()
            publisher.answer()
        publisher.close()


def _tell_of_others(others: list[str], arguments: argparse.Namespace) -> None:
    shown = "; ".join(map(ascii, others[:_MOST_SHOWN]))
    rest = f"; and {len(others) - _MOST_SHOWN} more" if len(others) > _MOST_SHOWN else ""
    print(
        "nearkv.kv_events: no block is told of, because nothing in the store is tenant"
        f" {arguments.tenant}'s, of the model {arguments.model!r}, of a layout {arguments.layout!r}"
        f" and of group {arguments.group}: start this with the --model, --layout, --tenant and"
        f" --group of what is there: {shown}{rest}",
        file=sys.stderr,
        flush=True,
    )


def main() -> int:
    """The exit status."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    arguments = parse_arguments()
    try:
        publish(arguments, stopped)
    except (Error, zmq.ZMQError) as error:
        print(f"nearkv.kv_events: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
