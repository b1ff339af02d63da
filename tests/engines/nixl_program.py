"""Runs in NIXL's environment: one agent with the backend NEARKV, and what came of its transfers.

Its argument: {"do": a function's name, and its arguments}. Its last line: what that gives.
Objects are {key: [bytes of each descriptor, ..]}; their bytes follow from the key.
"""

import itertools
import os
import signal
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from program import call, question, tell

import nearkv.nixl
from bench.engines.serving import Daemon
from nearkv.nixl.compat import HeadersMissing

NAME = "agent"
Objects = dict[str, list[int]]
Arrays = dict[str, list[np.ndarray]]


kept: list[Any] = []


def content(key: str, sizes: list[int]) -> list[np.ndarray]:
    random = np.random.default_rng(zlib.crc32(key.encode()))
    whole = random.integers(0, 256, sum(sizes), np.uint8)
    return np.split(whole, np.cumsum(sizes)[:-1])


class Agent:
    def __init__(self, parameters: dict[str, str], **config: Any) -> None:
        from nixl_cu12._api import nixl_agent, nixl_agent_config

        self.nixl = nixl_agent(NAME, nixl_agent_config(backends=[], **config))
        self.nixl.create_backend("NEARKV", parameters)
        self._numbers = itertools.count()
        self._held: list[Arrays] = []

    def prepare(self, operation: str, objects: Arrays) -> Any:
        """A transfer's handle; everything is registered anew, and the memory stays."""
        self._held.append(objects)
        memory, pieces, names = [], [], []
        for key, segments in objects.items():
            number = next(self._numbers)
            names.append((0, 0, number, key))
            offset = 0
            for segment in segments:
                memory.append((segment.ctypes.data, segment.nbytes, 0))
                pieces.append((offset, segment.nbytes, number))
                offset += segment.nbytes
        self.nixl.register_memory([(*place, "") for place in memory], "DRAM")
        self.nixl.register_memory(names, "OBJ")
        here = self.nixl.get_xfer_descs(memory, "DRAM")
        return self.nixl.initialize_xfer(
            operation, here, self.nixl.get_xfer_descs(pieces, "OBJ"), NAME
        )

    def finish(self, handle: Any) -> str:
        """DONE, or the name of the error."""
        return outcome(lambda: self._poll(handle, self.nixl.transfer(handle)))

    def wait(self, handle: Any) -> str:
        """The same of a transfer that is on its way."""
        return outcome(lambda: self._poll(handle, "PROC"))

    def _poll(self, handle: Any, state: str) -> str:
        while state == "PROC":
            state = self.nixl.check_xfer_state(handle)
        return state

    def put(self, objects: Objects) -> str:
        arrays = {key: content(key, sizes) for key, sizes in objects.items()}
        return self.finish(self.prepare("WRITE", arrays))

    def get(self, objects: Objects) -> tuple[str, bool]:
        """The state, and whether all bytes are those that were put."""
        arrays = {k: [np.zeros(size, np.uint8) for size in objects[k]] for k in objects}
        state = self.finish(self.prepare("READ", arrays))
        pairs = ((arrays[key], content(key, objects[key])) for key in objects)
        return state, all(map(np.array_equal, *zip(*map(joined, pairs), strict=True)))

    def present(self, keys: list[str]) -> list[bool]:
        asked = [(0, 0, 0, key) for key in keys]
        answers = self.nixl.query_memory(asked, "NEARKV", mem_type="OBJ")
        return [answer is not None for answer in answers]


def joined(pair: tuple[list[np.ndarray], list[np.ndarray]]) -> list[np.ndarray]:
    return [np.concatenate(arrays) for arrays in pair]


def outcome(call: Callable[[], str]) -> str:
    try:
        return call()
    except Exception as error:
        return type(error).__name__


@contextmanager
def told() -> Iterator[list[str]]:
    """A list that has, afterwards, what anybody in this process wrote to standard error."""
    lines: list[str] = []
    with tempfile.TemporaryFile("w+") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            lines += file.read().splitlines()


def build() -> dict[str, str]:
    try:
        return {"plugin": str(nearkv.nixl.build_plugin())}
    except HeadersMissing as error:
        return {"missing": str(error)}


def put(parameters: dict[str, str], objects: Objects) -> str:
    return Agent(parameters).put(objects)


def get(parameters: dict[str, str], objects: Objects) -> dict[str, Any]:
    agent = Agent(parameters)
    present = agent.present(list(objects))
    state, same = agent.get(objects)
    return {"present": present, "state": state, "same": same}


def each(parameters: dict[str, str], objects: Objects) -> dict[str, list]:
    """Reads one object after the other, twice."""
    agent = Agent(parameters)
    return {key: [agent.get({key: objects[key]}) for _ in range(2)] for key in objects}


def beginning(key: str, size: int) -> list[int]:
    """The first bytes of an object of one descriptor."""
    return content(key, [size])[0][:64].tolist()


def replace(parameters: dict[str, str]) -> list[str]:
    """Writes a key twice; whose bytes a read then has."""
    agent = Agent(parameters)
    first, second, read = (np.full(4096, fill, np.uint8) for fill in (1, 2, 0))
    for array in (first, second):
        assert agent.finish(agent.prepare("WRITE", {"key": [array]})) == "DONE"
    assert agent.finish(agent.prepare("READ", {"key": [read]})) == "DONE"
    return sorted({int(byte) for byte in read})


def refuse(parameters: list[dict[str, str]]) -> list[list[str]]:
    """What is said of each set of parameters; a backend that is made says nothing."""
    answers = []
    for given in parameters:
        with told() as lines:
            outcome(lambda given=given: str(Agent(given)))
        answers.append(lines)
    return answers


def misuse(parameters: dict[str, str]) -> dict[str, Any]:
    """Transfers that no store can make, and numbers that name two objects."""
    agent = Agent(parameters)
    small, large = np.zeros(100, np.uint8), np.zeros(300, np.uint8)
    assert agent.put({"key": [200]}) == "DONE"
    pieces = agent.nixl.get_xfer_descs([(100, 100, 0)], "OBJ")
    here = agent.nixl.get_xfer_descs([(small.ctypes.data, 100, 0)], "DRAM")
    agent.nixl.register_memory([(small.ctypes.data, 100, 0, "")], "DRAM")
    with told() as lines:
        answers = {
            "too small": agent.finish(agent.prepare("READ", {"key": [small]})),
            "too large": agent.finish(agent.prepare("READ", {"key": [large]})),
            "part": outcome(
                lambda: str(agent.nixl.initialize_xfer("READ", here, pieces, NAME, b""))
            ),
            "number": outcome(lambda: str(agent.nixl.register_memory([(0, 0, 0, "b")], "OBJ"))),
            "file": outcome(lambda: str(agent.nixl.register_memory([(0, 0, 1, "b")], "FILE"))),
        }
    return answers | {"told": lines, "after": agent.get({"key": [200]})}


def cancel(parameters: dict[str, str], count: int, size: int) -> dict[str, int]:
    """Releases a write that is on its way; how many objects are there, and how many are whole."""
    agent = Agent(parameters)
    sizes = {f"cancelled {i}": [size] for i in range(count)}
    arrays = {key: content(key, size) for key, size in sizes.items()}
    handle = agent.prepare("WRITE", arrays)
    state = agent.nixl.transfer(handle)
    agent.nixl.release_xfer_handle(handle)
    for (array,) in arrays.values():
        array[:] = 0  # It is the caller's again.
    there = [
        key for key, is_there in zip(sizes, agent.present(list(sizes)), strict=True) if is_there
    ]
    whole = [key for key in there if agent.get({key: sizes[key]}) == ("DONE", True)]
    return {"state": state, "there": len(there), "whole": len(whole)}


def leave(parameters: dict[str, str], objects: Objects) -> str:
    """Ends with a transfer on its way, whose memory stays as long as the process."""
    agent = Agent(parameters)
    kept.append(agent._held)
    handle = agent.prepare("WRITE", {key: content(key, sizes) for key, sizes in objects.items()})
    return agent.nixl.transfer(handle)


def outlive(parameters: dict[str, str], objects: Objects, folder: str) -> dict[str, Any]:
    """The daemon of a folder dies under a transfer, and another one takes its place."""
    with Daemon(Path(folder)) as daemon:
        agent = Agent(parameters)
        before = agent.put(objects)
        arrays = {k: [np.zeros(size, np.uint8) for size in objects[k]] for k in objects}
        handle = agent.prepare("READ", arrays)
        os.kill(daemon.process_id, signal.SIGSTOP)
        posted = agent.nixl.transfer(handle)
        daemon.kill()
        during = agent.wait(handle)
        while_away = agent.put(objects)
        daemon.start()
        again = agent.finish(handle)
        after = agent.get(objects)
    return {
        "before": before,
        "posted": posted,
        "during": during,
        "while_away": while_away,
        "again": again,
        "after": after,
    }


def release_while_stopped(
    parameters: dict[str, str], objects: Objects, daemon: int
) -> dict[str, Any]:
    """A transfer is released while the daemon is stopped, and once more when it goes on."""
    agent = Agent(parameters)
    arrays = {key: content(key, sizes) for key, sizes in objects.items()}
    handle = agent.prepare("WRITE", arrays)
    os.kill(daemon, signal.SIGSTOP)
    posted = agent.nixl.transfer(handle)
    began_s = time.monotonic()
    with told() as lines:
        stopped = outcome(lambda: str(agent.nixl.release_xfer_handle(handle)))
    waited_s = time.monotonic() - began_s
    os.kill(daemon, signal.SIGCONT)
    continued = outcome(lambda: str(agent.nixl.release_xfer_handle(handle)))
    there = [key for key in objects if agent.present([key]) == [True]]
    whole = [agent.get({key: objects[key]}) == ("DONE", True) for key in there]
    return {
        "posted": posted,
        "stopped": stopped,
        "waited_s": waited_s,
        "told": lines,
        "continued": continued,
        "whole": all(whole),
    }


def share(parameters: dict[str, str], threads: int, rounds: int) -> list[bool]:
    """Threads that use one agent, each its own objects."""
    from nixl_cu12._api import nixl_thread_sync_t

    agent = Agent(parameters, sync_mode=nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT)
    sound = [False] * threads

    def work(number: int) -> None:
        objects = [
            {f"{number} {i} {j}": [1000 + i, 2000 + j] for j in range(8)} for i in range(rounds)
        ]
        sound[number] = all(
            agent.put(some) == "DONE" and agent.get(some) == ("DONE", True) for some in objects
        )

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sound


def estimate(parameters: dict[str, str]) -> dict[str, Any]:
    """What a transfer of 4 MiB is said to cost: before any was made, and after."""
    agent = Agent(parameters)
    large = agent.prepare("WRITE", {"large": content("large", [4 << 20])})
    small = agent.prepare("WRITE", {"small": content("small", [4 << 10])})
    read = agent.prepare("READ", {"large": [np.zeros(4 << 20, np.uint8)]})
    before = outcome(lambda: str(agent.nixl.estimate_xfer_cost(large)))
    for handle in (small, large) * 10:
        assert agent.finish(handle) == "DONE"
    return {
        "before": before,
        "small": agent.nixl.estimate_xfer_cost(small)[:2],
        "large": agent.nixl.estimate_xfer_cost(large)[:2],
        "read": outcome(lambda: str(agent.nixl.estimate_xfer_cost(read))),
    }


def plugins() -> list[str]:
    """What an agent can load, by name, and does."""
    from nixl_cu12._api import nixl_agent, nixl_agent_config

    with told() as lines:
        agent = nixl_agent(NAME, nixl_agent_config(backends=[]))
        loaded = [name for name in agent.get_plugin_list() if agent.get_plugin_mem_types(name)]
    return [*loaded, *lines]


if __name__ == "__main__":
    asked = question()
    if asked["do"] not in ("build", "plugins", "beginning"):
        nearkv.nixl.add_plugin()
    tell(call(globals(), asked))
