"""Runs in NIXL's environment: its transfers to NEARKV and to POSIX, and memcpy, in turns.

Its argument: {"folder", "sizes": bytes of a block, "batch_bytes": most of a batch, "repeat"}. Each
line that it writes is a measurement: {"name", "bytes", and for each contender its seconds}.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nearkv.nixl
from bench.timing import interleave

_MOST_BLOCKS = 64


def transfer(agent, operation: str, memory, there, backend: str) -> Callable[[], None]:
    handle = agent.initialize_xfer(operation, memory, there, "bench", backends=[backend])

    def run() -> None:
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)

    return run


def measure(question: dict, agent, numbers, block: int) -> None:
    count = max(1, min(_MOST_BLOCKS, question["batch_bytes"] // block))
    here, other = (np.ones(count * block, np.uint8) for _ in range(2))
    path = Path(question["folder"]) / "posix"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, count * block)
    try:
        names = [next(numbers) for _ in range(count)]
        base = here.ctypes.data
        memory = [(base + i * block, block, 0) for i in range(count)]
        agent.register_memory([(base, here.nbytes, 0, "")], "DRAM")
        objects = [(0, block, name, f"{block} {name}") for name in names]
        objects = agent.register_memory(objects, "OBJ", backends=["NEARKV"])
        pieces = agent.register_memory([(0, here.nbytes, file, "")], "FILE", backends=["POSIX"])
        local = agent.get_xfer_descs(memory, "DRAM")
        in_file = agent.get_xfer_descs([(i * block, block, file) for i in range(count)], "FILE")
        for operation in ("WRITE", "READ"):
            calls = [
                transfer(agent, operation, local, objects.trim(), "NEARKV"),
                transfer(agent, operation, local, in_file, "POSIX"),
                lambda: np.copyto(other, here),
            ]
            samples = interleave(calls, repeat=question["repeat"])
            seconds = [list(one.readings) for one in samples]
            name = f"{operation.lower()}_{block}_x_{count}"
            told = dict(zip(("nearkv", "posix", "memcpy"), seconds, strict=True))
            print(json.dumps({"name": name, "bytes": here.nbytes} | told), flush=True)
        agent.deregister_memory(pieces)
    finally:
        os.close(file)
        path.unlink()


def main() -> None:
    question = json.loads(sys.argv[1])
    nearkv.nixl.add_plugin()
    from nixl_cu12._api import nixl_agent, nixl_agent_config

    agent = nixl_agent("bench", nixl_agent_config(backends=["POSIX"]))
    agent.create_backend("NEARKV", {"uri": f"cpu:{question['folder']}/pool?memory=512MiB"})
    numbers = iter(range(1 << 30))
    for block in question["sizes"]:
        measure(question, agent, numbers, block)


if __name__ == "__main__":
    main()
