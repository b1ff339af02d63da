"""Pages of vLLM's block tables: requests come, share blocks and go; their blocks are used again."""

import importlib.util
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench.engines.environment import ROOT
from nearkv.core import Device, Pool

SLOTS, STEPS, LAYERS, HEAD_DIM = 4096, 200, 2, 16


def load(path: Path) -> ModuleType:
    """A module of nearkv.vllm alone: the package itself wants vLLM."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


far_pages = load(ROOT / "engine_integration" / "nearkv" / "vllm" / "far_pages.py")


@dataclass(eq=False)
class Request:
    prompt_tokens: int
    blocks: list[int] = field(default_factory=list)
    content: list[int] = field(default_factory=list)  # A number for each token, no two alike.


class Scheduler:
    """Hands out blocks as vLLM does, at random."""

    def __init__(self, block_tokens: int, shares: bool) -> None:
        self.random = random.Random(1)
        self.block_tokens, self.shares = block_tokens, shares
        self.requests: list[Request] = []
        self.slots = np.zeros(SLOTS, np.uint16)
        self._next = 0

    def step(self) -> tuple[list[tuple[Request, int]], list[int]]:
        """Requests with their new tokens, and the slots that were written."""
        rng, written, rows = self.random, [], []
        if len(self.requests) < 4 and rng.random() < 0.3:
            self.requests.append(self._arrive())
        if self.requests and rng.random() < 0.1:
            self.requests.remove(rng.choice(self.requests))
        used = {block for request in self.requests for block in request.blocks}
        free = [block for block in range(1, SLOTS // self.block_tokens) if block not in used]
        rng.shuffle(free)
        for request in list(self.requests):
            is_prompt = len(request.content) < request.prompt_tokens
            queries = rng.randrange(1, 200) if is_prompt else 1
            wanted = -(-(len(request.content) + queries) // self.block_tokens)
            if wanted - len(request.blocks) > len(free):
                self.requests.remove(request)
                continue
            while len(request.blocks) < wanted:
                request.blocks.append(free.pop())
            for _ in range(queries):
                self._next = self._next % 60000 + 1
                written.append(self.slot(request, len(request.content)))
                self.slots[written[-1]] = self._next
                request.content.append(self._next)
            rows.append((request, queries))
        return rows, written

    def slot(self, request: Request, position: int) -> int:
        block, offset = divmod(position, self.block_tokens)
        return request.blocks[block] * self.block_tokens + offset

    def _arrive(self) -> Request:
        new = Request(self.random.randrange(1, 700))
        if self.shares and self.requests and self.random.random() < 0.5:
            other = self.random.choice(self.requests)
            blocks = self.random.randrange(len(other.content) // self.block_tokens + 1)
            new.blocks = other.blocks[:blocks]
            new.content = other.content[: blocks * self.block_tokens]
        return new


def simulate(window: int, block_tokens: int, max_sequences: int = 64) -> tuple[int, object]:
    """How often a row's pages were compared with its tokens, and what became of pages."""
    device = Device("cpu:?memory=16MiB")
    shape = {"layers": LAYERS, "kv_heads": 1, "head_dim": HEAD_DIM}
    pool = Pool.create(device, **shape, max_sequences=max_sequences)
    pages = far_pages.FarPages(pool, block_tokens, 64, window)
    scheduler = Scheduler(block_tokens, shares=not window)
    compared = 0

    def read(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = np.repeat(scheduler.slots[slots][None, :, None], HEAD_DIM, 2)
        return rows, rows, np.zeros(0, np.int32)

    for _ in range(STEPS):
        rows, written = scheduler.step()
        if not rows:
            continue
        tables = np.zeros((len(rows), SLOTS // block_tokens), np.int32)
        for table, (request, _) in zip(tables, rows, strict=True):
            table[: len(request.blocks)] = request.blocks
        lengths = [len(request.content) for request, _ in rows]
        begun = pages.begin(tables, lengths, [count for _, count in rows], np.array(written))
        for layer in range(LAYERS):
            for row in begun:
                sequence = row.sequence
                first = max(row.begin, sequence.base) if sequence else row.far
                if row.far > first:
                    keys, _ = pool.read(
                        sequence.number, layer, 0, first - sequence.base, row.far - first
                    )
                    content = rows[row.number][0].content[first : row.far]
                    assert np.asarray(keys)[:, 0].tolist() == content
                    compared += 1
                pages.store(row, layer, read)
    return compared, pages.counts


@pytest.mark.parametrize("block_tokens", [32, 128])
@pytest.mark.parametrize("window", [0, 200])
def test_pages_are_those_of_the_tokens_in_the_blocks(window, block_tokens):
    compared, counts = simulate(window, block_tokens)
    assert compared > 500
    assert counts.overwritten_sequences > 0
    assert counts.forked_tokens > 0


@pytest.mark.parametrize("block_tokens", [32, 128])
@pytest.mark.parametrize("window", [0, 200])
def test_so_are_they_where_a_full_pool_evicts_amid_a_cut(window, block_tokens):
    compared, counts = simulate(window, block_tokens, max_sequences=5)
    assert compared > 100
    assert counts.overwritten_sequences > 0
    assert counts.evicted_sequences > 0


def test_the_simulation_sees_a_stale_page(monkeypatch):
    monkeypatch.setattr(far_pages.FarPages, "_forget_written", lambda self, slots: None)
    with pytest.raises(AssertionError):
        simulate(0, 128)
