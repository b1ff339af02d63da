"""In a comparison, a contender that waits leaves its cores to the one whose turn it is."""

import os
import subprocess
import sys

import pytest

from bench.__main__ import list_benches
from bench.contender import Contender
from bench.quiet import QUIET
from nearkv.doctor import cpu_count

_SPINNING = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "100000000"}

# Prints the CPU time in ms that the process takes while it sleeps, after each contender's turn.
_IDLE = """
import time
{first}
import faiss, numpy, torch
from nearkv.core import Device, Pool
torch.set_num_threads(2)
faiss.omp_set_num_threads(2)
rows = torch.randn(1, 1, 65536, 64).bfloat16()
index = faiss.IndexFlatIP(64)
index.add(rows[0, 0].float().numpy())
matrix = numpy.ones((600, 600), numpy.float32)
pool = Pool.create(Device("cpu:?memory=64MiB"), layers=1, kv_heads=1, head_dim=64, max_sequences=1)
pool.create_sequence(1)
pool.append(1, 0, rows[0], rows[0])
query = rows[0, :, :4].contiguous()
turns = {{
    "torch": lambda: rows.sum(),
    "faiss": lambda: index.search(rows[0, 0, :4].float().numpy(), 64),
    "numpy": lambda: matrix @ matrix,
    "nearkv": lambda: pool.attend(1, 0, query, scale=0.125),
}}
for name, turn in turns.items():
    turn()
    began_s = time.process_time()
    time.sleep(0.1)
    print(name, 1e3 * (time.process_time() - began_s))
"""


def _run(program: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """In a process whose user wants threads to spin."""
    search = os.pathsep.join(filter(None, sys.path))
    inherited = {name: value for name, value in os.environ.items() if name not in QUIET}
    return subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=inherited | _SPINNING | {"PYTHONPATH": search} | variables,
        capture_output=True,
        text=True,
        check=True,
    )


def _idle_ms(first: str) -> dict[str, float]:
    """Of each contender, in a process that begins with the line `first`."""
    lines = _run(_IDLE.format(first=first), {}).stdout.splitlines()
    return {name: float(ms) for name, ms in (line.split() for line in lines)}


@pytest.mark.skipif(cpu_count() < 2, reason="one core: a pool of threads has nobody to wait for")
class TestWaitingThreads:
    def test_sleep_in_a_bench_whatever_its_user_has_set(self):
        idle_ms = _idle_ms("import bench")
        assert set(idle_ms) == {"torch", "faiss", "numpy", "nearkv"}
        assert {name: ms for name, ms in idle_ms.items() if ms > 2} == {}

    def test_spin_elsewhere_and_this_check_sees_it(self):
        idle_ms = _idle_ms("pass")
        assert idle_ms["torch"] > 5
        assert idle_ms["faiss"] > 5


def test_benches_say_so_before_they_load_a_library():
    """GNU's OpenMP prints, whenever it is loaded, what it was told to obey."""
    benches = ", ".join(f"bench.{name}" for name in list_benches())
    told = _run(f"import {benches}", {"OMP_DISPLAY_ENV": "verbose"}).stderr
    spins = [line.strip() for line in told.splitlines() if "GOMP_SPINCOUNT" in line]
    assert spins, "no bench loads GNU's OpenMP: this test sees nothing"
    assert set(spins) == {"GOMP_SPINCOUNT = '0'"}


def test_a_device_has_all_cores_although_its_user_binds_openmps():
    program = "import bench.cpu, os; print(len(os.sched_getaffinity(0)))"
    cores = _run(program, {"GOMP_CPU_AFFINITY": "0"}).stdout
    assert int(cores) == cpu_count()


def test_a_contenders_process_sleeps_too():
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    with Contender("a peer", [sys.executable, "-c", program]) as peer:
        assert peer.ready.items() >= QUIET.items()
