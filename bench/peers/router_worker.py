"""An indexer of a router, through its Python binding: fills it, then matches on orders.

Runs in the environment of Dynamo or in ours, and imports nothing else. The first line of output is
{"events_per_s", "bytes_per_block"}; each order "match SEED REQUESTS" is answered by a line of
{"p50_us", "p99_us", "digest"}; the digest is of what was found.
"""

import argparse
import json
import os
import random
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Protocol

_PROMPT_BLOCKS = 8
_SHORTEST, _LONGEST = 50, 250


class Indexer(Protocol):
    """Which workers have which leading blocks of a chain."""

    def store(self, worker: int, chain: Sequence[int]) -> None:
        """The worker has the chain."""

    def match(self, chain: Sequence[int]) -> list[int]:
        """For each worker, how many leading blocks it has."""


class DynamoIndexer:
    """dynamo._core.RadixTree: a thread of its own does the work, as its binding has it."""

    def __init__(self, workers: int) -> None:
        from dynamo._core import RadixTree

        self._tree = RadixTree()
        self._workers = workers
        self._events = 0

    def store(self, worker: int, chain: Sequence[int]) -> None:
        blocks = [{"block_hash": block, "tokens_hash": block} for block in chain]
        stored = {"parent_hash": None, "blocks": blocks}
        event = {"event_id": self._events, "data": {"stored": stored}, "dp_rank": 0}
        self._events += 1
        self._tree.apply_event(worker, json.dumps(event).encode())

    def match(self, chain: Sequence[int]) -> list[int]:
        scores = self._tree.find_matches(chain).scores
        return [scores.get((worker, 0), 0) for worker in range(self._workers)]


class NearKVIndexer:
    """_nearkv.Router: one worker at a time is routed to, which tells of all."""

    def __init__(self, workers: int) -> None:
        from _nearkv import Router, Tier

        self._router = Router("longest_prefix", index_limit_bytes=4 << 30)
        self._tier = Tier.GPU
        self._numbers = [self._router.add_worker(str(each)) for each in range(workers)]

    def store(self, worker: int, chain: Sequence[int]) -> None:
        self._router.store(self._numbers[worker], self._tier, chain)

    def match(self, chain: Sequence[int]) -> list[int]:
        return self._router.match(chain)


def make_chains(blocks: int, seed: int) -> list[list[int]]:
    """Requests that go on from the system prompt or from an earlier request."""
    draw = random.Random(seed)
    prompt = [draw.getrandbits(63) for _ in range(_PROMPT_BLOCKS)]
    chains: list[list[int]] = []
    made = 0
    while made < blocks:
        chain = list(prompt)
        length = draw.randint(_SHORTEST, _LONGEST)
        if chains and draw.random() < 1 / 3:
            earlier = draw.choice(chains)
            chain = earlier[: draw.randrange(_PROMPT_BLOCKS, min(len(earlier), length))]
        made += length - len(chain)
        chain += [draw.getrandbits(63) for _ in range(length - len(chain))]
        chains.append(chain)
    return chains


def resident_bytes() -> int:
    """Of this process."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill(indexer: Indexer, chains: list[list[int]], workers: int) -> dict[str, float]:
    """Tells of all chains; what the first line of output says."""
    before = resident_bytes()
    begin = time.perf_counter()
    for number, chain in enumerate(chains):
        indexer.store(number % workers, chain)
    indexer.match(chains[-1])  # It has worked off what it was told.
    seconds = time.perf_counter() - begin
    blocks = len({block for chain in chains for block in chain})
    return {
        "events_per_s": sum(map(len, chains)) / seconds,
        "bytes_per_block": (resident_bytes() - before) / blocks,
    }


def match(
    indexer: Indexer, chains: list[list[int]], seed: int, requests: int
) -> dict[str, float | int]:
    """What the answer to an order says."""
    draw = random.Random(seed)
    times_us: list[float] = []
    digest = 0
    for _ in range(requests):
        chain = draw.choice(chains)
        begin = time.perf_counter()
        found = indexer.match(chain)
        times_us.append(1e6 * (time.perf_counter() - begin))
        digest = zlib.crc32(repr(found).encode(), digest)
    times_us.sort()
    return {
        "p50_us": times_us[len(times_us) // 2],
        "p99_us": times_us[len(times_us) * 99 // 100],
        "digest": digest,
    }


def main() -> None:
    """Takes orders until there are none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("indexer", choices=("dynamo", "nearkv"))
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    options = parser.parse_args()
    kinds = {"dynamo": DynamoIndexer, "nearkv": NearKVIndexer}
    chains = make_chains(options.blocks, seed=1)
    indexer: Indexer = kinds[options.indexer](options.workers)
    print(json.dumps(fill(indexer, chains, options.workers)), flush=True)
    for line in sys.stdin:
        _, seed, requests = line.split()
        print(json.dumps(match(indexer, chains, int(seed), int(requests))), flush=True)


if __name__ == "__main__":
    main()
