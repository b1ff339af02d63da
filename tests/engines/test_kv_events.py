"""KV events of a daemon's blocks, read by SGLang's own classes; no router was run."""

import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.engines.environment import ROOT, Environment
from bench.engines.serving import Daemon
from nearkv.store import ObjectStore

# The first makes SGLang's environment, which has ZeroMQ.
pytestmark = pytest.mark.timeout(600)
PROGRAM = Path(__file__).parent / "kv_events_program.py"
README = ROOT / "engine_integration" / "nearkv" / "kv_events" / "README.md"
KEYS = [hashlib.sha256(bytes([number])).digest() for number in range(40)]
HASHES = [int.from_bytes(key[:8], "big", signed=True) for key in KEYS]
CLEARED = {"type": "AllBlocksCleared"}


class Events:
    """A publisher as the README starts it, and a subscriber."""

    def __init__(self, environment: Environment, folder: Path, **options: str) -> None:
        self._environment = environment
        self._options = {
            "socket": str(folder / "nearkv.sock"),
            "endpoint": f"ipc://{folder}/events",
            "replay-endpoint": f"ipc://{folder}/replay",
        } | {name.replace("_", "-"): value for name, value in options.items()}
        self.words = command(self._options)
        self._processes = [self._start(self.words[1:]), self.subscriber()]

    def subscriber(self) -> subprocess.Popen[str]:
        topic = self.words[self.words.index("--topic") + 1]
        asked = {
            "events": self._options["endpoint"],
            "replay": self._options["replay-endpoint"],
            "topic": topic,
            "form": self._options.get("form", "map"),
        }
        process = self._start([str(PROGRAM), json.dumps(asked)])
        self.ask(process, do="replay", first=2**62)  # By then it has subscribed.
        return process

    def take(self) -> list[Any]:
        """Batches since the last call: the number of each, and its events."""
        return self.ask(self._processes[1], do="take")

    def replay(self, first: int) -> list[Any]:
        return self.ask(self._processes[1], do="replay", first=first)

    def tell_as_an_engine(self, endpoint: str, batches: list[Any]) -> None:
        self.ask(self._processes[1], do="engine", endpoint=endpoint, batches=batches, until=30)

    def ask(self, process: subprocess.Popen[str], **question: Any) -> list[Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(question), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    def end(self) -> int:
        """The publisher's status, once it is told to stop."""
        publisher, subscriber = self._processes
        publisher.terminate()
        subscriber.communicate(timeout=30)
        return publisher.wait(timeout=30)

    def kill(self) -> None:
        """Whatever of it still runs."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, words: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._environment.python, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | self._environment.variables,
        )


def command(options: dict[str, str]) -> list[str]:
    """The README's, with these options."""
    shown = re.search(r"python -m nearkv\.kv_events .*?(?=\n\n)", README.read_text(), re.DOTALL)[0]
    words = shlex.split(shown.replace("MODEL", "model").replace("\\\n", " "))
    for name, value in options.items():
        if f"--{name}" in words:
            words[words.index(f"--{name}") + 1] = value
        else:
            words += [f"--{name}", value]
    return words


@pytest.fixture
def opened(sglang_environment: Environment, tmp_path: Path) -> Iterator[Callable[..., Events]]:
    """Starts publishers, and ends those that a failed test leaves."""
    started: list[Events] = []

    def start(**options: str) -> Events:
        started.append(Events(sglang_environment, tmp_path, **options))
        return started[-1]

    yield start
    for events in started:
        events.kill()


@pytest.fixture
def store(daemon: Daemon) -> Iterator[ObjectStore]:
    with ObjectStore.connect(daemon.socket) as store:
        yield store


def put(store: ObjectStore, numbers: list[int], layout: str = "sglang-kv-1", **who: Any) -> None:
    space = store.namespace("model", "bfloat16", layout, **who)
    space.set([KEYS[number] for number in numbers], [bytes(1000)] * len(numbers)).check()


def erase(store: ObjectStore, numbers: list[int]) -> None:
    space = store.namespace("model", "bfloat16", "sglang-kv-1")
    space.erase([KEYS[number] for number in numbers]).check()


def held(batches: list[Any]) -> set[int]:
    """What a router knows of, after these batches in their order."""
    blocks: set[int] = set()
    for _, *events in batches:
        for event in events:
            kind = event["type"]
            hashes = event.get("block_hashes", [])
            if kind == "AllBlocksCleared":
                blocks.clear()
            elif kind == "BlockStored":
                blocks.update(hashes)
            else:
                assert set(hashes) <= blocks
                blocks.difference_update(hashes)
    return blocks


def test_blocks_that_come_and_go_are_told(opened, store):
    put(store, [0, 1])
    events = opened()
    events.take()
    put(store, [2, 3])
    assert held(events.take()) == {HASHES[2], HASHES[3]}
    erase(store, [1, 2])
    last = events.take()
    assert held(events.replay(0)) == {HASHES[0], HASHES[3]}
    [[number, event]] = last
    assert set(event.pop("block_hashes")) == {HASHES[1], HASHES[2]}
    assert event == {"type": "BlockRemoved", "medium": "STORAGE"}
    # Numbers have no gaps, live and again.
    everything = events.replay(0)
    assert [batch[0] for batch in everything] == list(range(number + 1))
    assert everything[0] == [0, CLEARED]
    assert events.end() == 0


def test_only_the_first_rank_of_the_model_is_told(opened, store):
    events = opened()
    put(store, [0], rank=1)
    put(store, [1], layout="sglang-swa-1")
    store.namespace("other", "bfloat16", "sglang-kv-1").set(KEYS[2], bytes(9)).check()
    # Two namespaces have a block, and one loses it.
    put(store, [3])
    put(store, [3, 4], salt=b"another's")
    erase(store, [3])
    events.take()
    assert held(events.replay(0)) == {HASHES[3], HASHES[4]}
    events.end()


def test_the_older_form_is_an_array(opened, store):
    put(store, [0])
    events = opened(form="array")
    events.take()
    told = [event for _, *batch in events.replay(0) for event in batch]
    stored = ["BlockStored", [HASHES[0]], None, [], 64, None, "STORAGE"]
    assert told == [["AllBlocksCleared"], stored]
    events.end()


def test_whoever_comes_late_is_told_all(opened, store):
    put(store, [0, 1, 2])
    # It keeps no more than two batches.
    events = opened(kept_batches="2")
    for number in range(3, 8):
        put(store, [number])
        events.take()
    erase(store, [7])
    events.take()
    [again] = events.replay(0)
    assert again[1] == CLEARED
    assert held([again]) == set(HASHES[:7])
    # What comes next has the next number.
    put(store, [9])
    assert events.take()[0][0] == again[0] + 1
    # Who has missed but the last is told the last.
    assert len(events.replay(again[0] + 1)) == 1
    assert events.replay(again[0] + 2) == []
    events.end()


def test_after_changes_were_missed_all_is_told_again(opened, store):
    # It looks so seldom that a daemon, which keeps 65536 changes for it, has dropped some.
    events = opened(interval_s="6")
    events.take()
    space = store.namespace("model", "bfloat16", "sglang-kv-1")
    for _ in range(70):
        space.set(KEYS[0], bytes(9)).check()
        many = [number.to_bytes(32, "big") for number in range(1000)]
        space.set(many, [bytes(1)] * 1000).check()
        space.erase(many).check()
    put(store, [1])
    told: list[Any] = []
    while not told:
        told = events.take()
    assert told[0][1:] == [CLEARED]
    assert held(told) == {HASHES[0], HASHES[1]}
    events.end()


def test_without_its_daemon_nothing_is_held(opened, daemon, store):
    put(store, [0, 1])
    events = opened()
    events.take()
    assert held(events.replay(0)) == set(HASHES[:2])
    daemon.kill()
    assert [batch[1:] for batch in events.take()] == [[CLEARED]]
    assert held(events.replay(0)) == set()
    daemon.start()
    assert held(events.take()) == set(HASHES[:2])
    put(store, [2])
    assert held(events.take()) == {HASHES[2]}
    assert events.end() == 0


def test_tokens_are_those_that_engines_told(opened, tmp_path, store):
    engine = f"ipc://{tmp_path}/engine"
    events = opened(learn=engine)
    put(store, [0, 1, 2])
    events.take()
    map_form = {
        "type": "BlockStored",
        "block_hashes": HASHES[:1],
        "parent_block_hash": None,
        "token_ids": [5, 6],
        "block_size": 2,
        "medium": "GPU",
        "cache_salt": "tenant",
    }
    # As unsigned numbers, and as an array.
    array_form = ["BlockStored", [HASHES[1] % 2**64], HASHES[0], [7, 8], 2, None, "GPU"]
    events.tell_as_an_engine(engine, [[0.0, [map_form, array_form], 0], "nonsense"])
    events.take()
    told = [event for _, *batch in events.replay(0) for event in batch if "token_ids" in event]
    known = {
        event["block_hashes"][0]: [
            event.get(name) for name in ("parent_block_hash", "token_ids", "cache_salt")
        ]
        for event in told
        if event["token_ids"]
    }
    assert known == {
        HASHES[0]: [None, [5, 6], "tenant"],
        HASHES[1]: [HASHES[0], [7, 8], None],
    }
    assert held(events.replay(0)) == set(HASHES[:3])
    events.end()


@pytest.mark.parametrize(
    "named",
    [
        {"model": "/models/model"},
        {"layout": "vllm-"},
        {"tenant": "1"},
        {"group": "1"},
        {"model": "mod"},
    ],
)
def test_a_publisher_of_which_nothing_fits_says_what_is_there(
    sglang_environment, tmp_path, daemon, store, named
):
    words = command({"socket": daemon.socket, "endpoint": f"ipc://{tmp_path}/e"} | named)
    with subprocess.Popen(
        [sglang_environment.python, *words[1:]],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | sglang_environment.variables,
    ) as publisher:
        put(store, [0], layout="sglang-kv-1\x1b[2J")
        said = publisher.stderr.readline()
        assert "model bfloat16 sglang-kv-1\\x1b[2J rank 0 group 0" in said
        assert "--model, --layout, --tenant and --group" in said
        put(store, [1], layout="sglang-kv-1\x1b[2J")
        put(store, [1], layout="sglang-kv-1\x1b[2J", salt=b"another's")
        put(store, [1], layout="another")
        assert "another" in publisher.stderr.readline()
        publisher.terminate()
        assert publisher.stderr.read() == ""


WRONG = (
    ({"socket": "/nonexistent/nearkv.sock"}, "/nonexistent/nearkv.sock"),
    ({"medium": "CXL"}, "invalid choice: 'CXL'"),
    ({"endpoint": "carrier://pigeon"}, "nearkv.kv_events: "),
)


@pytest.mark.parametrize(("options", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_command_is_refused(sglang_environment, tmp_path, daemon, options, said):
    words = command({"socket": daemon.socket, "endpoint": f"ipc://{tmp_path}/e"} | options)
    done = subprocess.run(
        [sglang_environment.python, *words[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | sglang_environment.variables,
    )
    assert done.returncode != 0
    assert said in done.stderr
