"""Room in pools that prompts are promised before they are computed."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from nearkv.router.config import WorkerConfig


@dataclasses.dataclass(frozen=True)
class Room:
    """Of one pool."""

    capacity_bytes: float
    """That prompts under way may take together; 0: no limit."""
    reserved_bytes: float


class PoolRoom:
    """Who stores in which pool, how much each takes, and what of it is promised.

    A pool keeps what is not leased only until others need its room: where prompts under way are
    more than it holds, they throw out each other's blocks before anybody has loaded them. One event
    loop uses it.
    """

    def __init__(self) -> None:
        self._pool_of: dict[str, str] = {}
        self._capacities: dict[str, float] = {}
        self._reserved: Counter[str] = Counter()

    def take(self, worker: WorkerConfig) -> None:
        """Knows an engine or a pool, as it is now."""
        if worker.url:
            self._pool_of[worker.name] = worker.pool
        else:
            self._capacities[worker.name] = worker.capacity_bytes

    def remove(self, name: str) -> None:
        """Knows it no more; what was promised is given back by whoever has it."""
        self._pool_of.pop(name, None)
        self._capacities.pop(name, None)

    def has(self, engine: str, size_bytes: float) -> bool:
        """Whether so much more fits where this engine stores; always, where there is no limit."""
        pool = self._pool_of.get(engine, "")
        capacity = self._capacities.get(pool, 0)
        return not capacity or self._reserved[pool] + size_bytes <= capacity

    def neighbours(self, engine: str, names: Sequence[str]) -> list[str]:
        """Those of them that store in other pools than this engine does."""
        pool = self._pool_of.get(engine, "")
        return [name for name in names if self._pool_of.get(name, "") != pool]

    def reserve(self, engine: str, size_bytes: float) -> "Reservation":
        """Promises it, whether it fits or not."""
        return Reservation(self._reserved, self._pool_of.get(engine, ""), size_bytes)

    def state(self) -> Mapping[str, Room]:
        """Of all pools."""
        return {
            pool: Room(capacity, self._reserved[pool])
            for pool, capacity in self._capacities.items()
        }


class Reservation(AbstractContextManager):
    """One prompt's room, until release(). A context manager."""

    def __init__(self, reserved: Counter[str], pool: str, size_bytes: float) -> None:
        self._reserved, self._pool, self._size_bytes = reserved, pool, size_bytes
        reserved[pool] += size_bytes

    def release(self) -> None:
        """Gives it back; the second time nothing happens."""
        self._reserved[self._pool] -= self._size_bytes
        self._size_bytes = 0

    def __exit__(self, *exception: object) -> None:
        self.release()
