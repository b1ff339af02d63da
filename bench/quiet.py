"""The environment in which no pool of threads waits on a core that the next contender needs.

OpenMP's and OpenBLAS's threads spin for 8 to 40 ms after their work, in the expectation of more. In
a comparison the next turn belongs to another contender, which then has a core less. The libraries
read these variables once, when they are loaded, so they are set before anything is imported; child
processes inherit them.
"""

import os

QUIET = {
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "0",  # GNU's OpenMP, of torch and faiss
    "KMP_BLOCKTIME": "0",  # LLVM's and Intel's
    "OPENBLAS_THREAD_TIMEOUT": "4",  # as an exponent of two, in cycles: its least
}
# They bind the thread that calls both sides to one core, where it would wait for the worker that a
# side has there.
_BINDING = ("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND")


def make_quiet() -> None:
    """Sets the variables for this process and its children, whatever they were."""
    os.environ.update(QUIET)
    for name in _BINDING:
        os.environ.pop(name, None)


def as_a_program_of_its_own(threads: int) -> None:
    """Gives an engine back its own way of waiting, with so many threads: as it runs in service."""
    for name in QUIET:
        os.environ.pop(name, None)
    os.environ["OMP_NUM_THREADS"] = str(threads)
