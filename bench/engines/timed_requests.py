"""Requests of a made-up trace, for a simulator as a file and for live servers as tokens in time."""

import json
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from nearkv.cluster.client import Answer, complete

BLOCK_TOKENS = 512
"""What a hash of the trace stands for, in Mooncake's format."""
DOCUMENT_TOKENS = BLOCK_TOKENS
"""What half of the made prompts begin with."""

_names = count(1)


@dataclass(frozen=True)
class TimedRequest:
    """A prompt by its blocks, and when it comes."""

    at_s: float
    hash_ids: tuple[int, ...]
    """Of each block of BLOCK_TOKENS, the last of which may be part of one."""
    prompt_tokens: int
    output_tokens: int

    def tokens(self, vocabulary: range) -> list[int]:
        """Tokens that are equal where hash_ids are."""
        whole: list[int] = []
        for hash_id in self.hash_ids:
            whole += random.Random(hash_id).choices(vocabulary, k=BLOCK_TOKENS)
        return whole[: self.prompt_tokens]


def new_request(at_s: float, prompt_tokens: int, output_tokens: int) -> TimedRequest:
    """One whose blocks no other request of this process has."""
    blocks = -(-prompt_tokens // BLOCK_TOKENS)
    names = tuple(next(_names) for _ in range(blocks))
    return TimedRequest(at_s, names, prompt_tokens, output_tokens)


def make_requests(
    seed: int, number: int, rate_per_s: float, own_tokens: int, output_tokens: int
) -> list[TimedRequest]:
    """Poisson arrivals; half of the prompts begin with one of four documents of a block.

    What is a prompt's own, and what it writes, is spread exponentially about its mean.
    """
    draw = random.Random(seed)
    documents = [next(_names) for _ in range(4)]
    requests = []
    at_s = 0.0
    for _ in range(number):
        at_s += draw.expovariate(rate_per_s)
        own = new_request(
            at_s,
            min(16 + round(draw.expovariate(1 / own_tokens)), 3 * BLOCK_TOKENS),
            min(2 + round(draw.expovariate(1 / output_tokens)), 4 * output_tokens),
        )
        begins = (draw.choice(documents),) if draw.random() < 0.5 else ()
        whole = begins + own.hash_ids, own.prompt_tokens + DOCUMENT_TOKENS * len(begins)
        requests.append(TimedRequest(own.at_s, *whole, own.output_tokens))
    return requests


def write_trace(requests: Sequence[TimedRequest], path: Path) -> None:
    """As Mooncake's: a line of JSON for each request."""
    lines = [
        json.dumps(
            {
                "timestamp": round(1000 * one.at_s),
                "input_length": one.prompt_tokens,
                "output_length": one.output_tokens,
                "hash_ids": one.hash_ids,
            }
        )
        for one in requests
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def send_in_time(
    requests: Sequence[TimedRequest], ports: Sequence[int], model: str, vocabulary: range
) -> list[Answer]:
    """All of them at their times, to the servers in turn; ClusterError if one is not answered."""
    prompts = [one.tokens(vocabulary) for one in requests]
    stop = threading.Event()
    begin_s = time.monotonic() + 0.2  # When all threads are there.

    def ask(index: int) -> Answer:
        one = requests[index]
        stop.wait(max(0.0, begin_s + one.at_s - time.monotonic()))
        port = ports[index % len(ports)]
        return complete(port, model, prompts[index], one.output_tokens, ignore_eos=True)

    with ThreadPoolExecutor(len(requests)) as pool:
        try:
            return list(pool.map(ask, range(len(requests))))
        except BaseException:
            stop.set()
            raise
