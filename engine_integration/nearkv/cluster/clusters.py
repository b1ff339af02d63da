"""The two clusters that are compared, each from its start to its end."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearkv.cluster.conversations import Conversation
from nearkv.cluster.figures import Phase
from nearkv.cluster.load import run_load
from nearkv.cluster.processes import Process
from nearkv.cluster.workers import Engine, Pool, Worker, start_pool, start_router


@dataclass(frozen=True)
class Cluster:
    """What stands while the load runs."""

    port: int
    """Of the router."""
    workers: Sequence[Worker]
    others: Sequence[Process]
    """Router, and pool."""

    def cpu_s(self) -> float:
        """CPU time that all processes have taken, those that still run."""
        processes = [*(worker.process for worker in self.workers), *self.others]
        return sum(process.cpu_s() for process in processes)

    def counters(self) -> Counter[str]:
        """Of all workers that are left together."""
        counts: Counter[str] = Counter()
        for worker in self.workers:
            if worker.process.is_running:
                counts.update(worker.counters())
        return counts


@contextmanager
def own_caches(engine: Engine, count: int, folder: Path) -> Iterator[Cluster]:
    """Workers that each prefill and decode, and know of their own blocks alone."""
    with ExitStack() as stack:
        names = [f"worker-{number}" for number in range(count)]
        yield _start(stack, engine, folder, dict.fromkeys(names, "both"), None, prefill_from=0)


@contextmanager
def over_a_pool(
    engine: Engine,
    prefill: int,
    decode: int,
    program: Path,
    size: str,
    prefill_from: int,
    folder: Path,
) -> Iterator[Cluster]:
    """Workers that prefill, workers that decode, and a daemon whose pool is between them.

    Prompts of which `prefill_from` tokens or more are to be computed go to the former first.
    """
    with ExitStack() as stack:
        pool = start_pool(engine, program, folder, size)
        for process in (pool.daemon, pool.publisher):
            stack.enter_context(process)
        roles = {f"prefill-{number}": "prefill" for number in range(prefill)}
        roles |= {f"decode-{number}": "decode" for number in range(decode)}
        yield _start(stack, engine, folder, roles, pool, prefill_from)


def _start(
    stack: ExitStack,
    engine: Engine,
    folder: Path,
    roles: dict[str, str],
    pool: Pool | None,
    prefill_from: int,
) -> Cluster:
    """Workers side by side, and when all are ready the router."""
    workers = []
    for name, role in roles.items():
        workers.append(Worker(name, engine, folder, role, pool.socket if pool else None))
        stack.enter_context(workers[-1].process)
    for worker in workers:
        worker.wait_until_ready()
    router, port = start_router(engine, workers, pool, prefill_from, folder)
    stack.enter_context(router)
    others = [router, *((pool.daemon, pool.publisher) if pool else ())]
    return Cluster(port, workers, others)


def measure(
    name: str,
    cluster: Cluster,
    conversations: Sequence[Conversation],
    model: str,
    max_tokens: int,
    killed: Worker | None,
    tell: Callable[[str], None],
) -> Phase:
    """The load's answers, and where all workers found the tokens of the prompts.

    `killed`, if there is one, is killed when half of the turns are over.
    """
    last_words: Counter[str] = Counter()
    began_s, last_s = cluster.cpu_s(), 0.0

    def kill() -> None:
        nonlocal last_s
        assert killed is not None
        last_words.update(killed.counters())
        last_s = killed.process.cpu_s()
        killed.process.kill()

    turns = run_load(
        conversations,
        cluster.port,
        model,
        max_tokens,
        at_half=None if killed is None else kill,
        tell=tell,
    )
    cpu_s = cluster.cpu_s() + last_s - began_s
    counts = cluster.counters() + last_words
    return Phase(
        name,
        turns,
        cpu_s=cpu_s,
        computed_tokens=counts["local_compute"],
        cached_tokens=counts["local_cache_hit"],
        pool_tokens=counts["external_kv_transfer"],
    )
