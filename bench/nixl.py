"""Measures NIXL's transfers through NearKV's plug-in, beside its POSIX plug-in and memcpy.

Store and file lie in the same folder of shared memory; blocks of 4 KiB to 64 MiB, in batches of up
to 64 blocks or 64 MiB. One process, one agent, in turns.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import Context
from bench.engines.environment import make_environment
from nearkv.results import Result, Samples

_WORKER = Path(__file__).parent / "engines" / "nixl_worker.py"
_SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]


def run(context: Context) -> Iterator[Result]:
    """Yields GB/s of writes and reads, each beside POSIX and beside memcpy."""
    environment = make_environment("nixl")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        question = {
            "folder": folder,
            "sizes": _SIZES[:2] if context.tiny else _SIZES,
            "batch_bytes": 64 << 20,
            "repeat": 31 if context.long else 7,
        }
        command = [environment.python, _WORKER, json.dumps(question)]
        variables = os.environ | environment.variables
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    context.progress(json.loads(line)["name"])
                    yield from _results(json.loads(line))
        if process.returncode != 0:
            raise RuntimeError("NIXL's process failed; what it said is above")


def _results(told: dict) -> Iterator[Result]:
    ours, posix, memcpy = (
        Samples(tuple(told[name])).per_second(told["bytes"] / 1e9)
        for name in ("nearkv", "posix", "memcpy")
    )
    for peer, beside in (("POSIX plug-in", posix), ("memcpy", memcpy)):
        name = f"nixl/{told['name']}/{peer.split()[0].lower()}"
        yield Result.of_samples(name, ours, "GB/s", device="cpu:", peer=peer, beside=beside)
