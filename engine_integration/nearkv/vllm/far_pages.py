"""Which tokens of vLLM's block tables are in a pool: by content, not by number."""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd

import numpy as np
from nkv_abi import Status

from nearkv.core import PAGE_TOKENS, Error, Pool
from nearkv.gains import GainLearner

# Of a unit that no sequence has, or has no more. vLLM's block 0 is its null block.
_NONE = -1
_KEPT_LOOKUPS = 4096
# After these a pool is not asked again: each answer may take as long as its time limit.
_LOST = (Status.TIMEOUT, Status.IO_ERROR, Status.NO_DEVICE, Status.INTERNAL)

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class StoredSequence:
    """A sequence of the pool, and the slots of vLLM's cache that hold the same tokens."""

    number: int
    base: int
    """The position of its first token: 0, or where a window began when it was made."""
    stored: list[int]
    """By layer: the position after its last token."""
    units: np.ndarray
    """By unit of positions, from 0: the unit of slots with the same content."""
    samples: list[np.ndarray]
    """By layer, and by token from 0: some of its key, to know it by."""
    used: int = 0
    """The step that last wanted it."""

    @property
    def end(self) -> int:
        """The position after the last token that all layers have."""
        return min(self.stored)


@dataclass(eq=False)
class Row:
    """A request in a step: queries [length - queries, length), tokens [base, far) in the pool."""

    number: int
    table: np.ndarray
    length: int
    queries: int
    begin: int
    """The first position that its last query sees."""
    sequence: StoredSequence | None = None
    far: int = 0
    target: int = 0
    """What shall be stored after the step."""


@dataclass
class PageCounts:
    """What became of pages, since the engine began; tokens are counted once for all layers."""

    stored_tokens: int = 0
    forked_tokens: int = 0
    """Shared by a request that goes on otherwise than the one that stored them."""
    overwritten_sequences: int = 0
    """That lost tokens because vLLM used their blocks again."""
    evicted_sequences: int = 0
    refused_rows: int = 0
    """That a full pool turned away: they attended here."""
    attended_rows: int = 0
    """Of all layers' calls."""


@dataclass
class FarPages:
    """The pages of the layers that share block tables, in one pool.

    A step begins with `begin`, which takes the slots that the step writes: what the pool has of
    them is forgotten first, so a page is only ever found through slots that have not been written
    since. Sequences of ended requests stay until their slots are written or the pool is full, and
    requests with the same blocks share them. Not thread-safe.
    """

    pool: Pool
    block_tokens: int
    window_tokens: int
    """The newest tokens of a request, which stay in the engine alone."""
    sliding_window: int = 0
    """That vLLM frees blocks by; 0 if it keeps them all."""
    counts: PageCounts = field(default_factory=PageCounts)

    def __post_init__(self) -> None:
        self.learner = GainLearner(self.pool)
        self._unit = gcd(self.block_tokens, PAGE_TOKENS)
        self._sequences: list[StoredSequence] = []
        self._holders = np.zeros(0, np.int32)  # By unit of slots: how many sequences have it.
        self._found: dict[tuple[bytes, int], StoredSequence] = {}
        self._step = 0
        self._is_lost = False
        self._is_full = False

    def begin(
        self, tables: np.ndarray, lengths: Sequence[int], queries: Sequence[int], slots: np.ndarray
    ) -> list[Row]:
        """The rows of a step that have tokens in the pool, or shall have some after it.

        tables [rows, blocks] of block numbers; lengths with the step's new tokens, of which there
        are queries[row]; slots are those that the step writes.
        """
        self._step += 1
        if self._is_lost:
            return []
        self._forget_written(slots)
        rows = []
        for number, (length, count) in enumerate(zip(lengths, queries, strict=True)):
            target = (length - self.window_tokens) // PAGE_TOKENS * PAGE_TOKENS
            begin = max(0, length - self.sliding_window) if self.sliding_window else 0
            if count > 0 and target > _pages_up(begin):
                row = Row(number, tables[number], length, count, begin, target=target)
                self._find(row)
                rows.append(row)
        return rows

    def is_due(self, row: Row, layer: int) -> bool:
        """Whether pages of a row closed that the pool does not have, and it can code them."""
        is_behind = row.sequence is not None and row.sequence.stored[layer] < row.target
        return is_behind and self.learner.is_ready(layer)

    def store(
        self,
        row: Row,
        layer: int,
        read: Callable[[np.ndarray], tuple[object, object, np.ndarray]],
    ) -> None:
        """Moves what closed: `read` gives keys, values [kv_heads, tokens, dim] and samples."""
        if not self.is_due(row, layer):
            return
        sequence = row.sequence
        begin = sequence.stored[layer]
        keys, values, samples = read(self.slots(row, np.arange(begin, row.target)))
        self.learner.settle(layer, keys)
        if not self._with_room(lambda: self.pool.append(sequence.number, layer, keys, values)):
            row.sequence = None
            return
        sequence.samples[layer] = np.concatenate([sequence.samples[layer], samples])
        sequence.stored[layer] = row.target
        if layer == 0:
            self.counts.stored_tokens += row.target - begin

    def slots(self, row: Row, positions: np.ndarray) -> np.ndarray:
        """Where vLLM's cache holds a row's tokens."""
        blocks = row.table[positions // self.block_tokens].astype(np.int64)
        return blocks * self.block_tokens + positions % self.block_tokens

    def discard(self, sequence: StoredSequence, why: Error | str) -> None:
        """Forgets a sequence whose content is damaged, or not what vLLM's blocks hold."""
        logger.warning("NearKV's attention goes on without a sequence's pages: %s", why)
        self._is_lost |= isinstance(why, Error) and why.status in _LOST
        if sequence in self._sequences:
            self._drop(sequence)

    def _find(self, row: Row) -> None:
        """Gives a row its sequence: one that has its tokens, a fork of one, or a new one."""
        key = (row.table[: -(-row.target // self.block_tokens)].tobytes(), row.target)
        sequence = self._found.get(key)
        if sequence is None or self._is_far_behind(sequence, row):
            units = self._units_of(row)
            sequence = self._match(row, units)
            if sequence is None:
                self.counts.refused_rows += 1
                return
            if len(self._found) >= _KEPT_LOOKUPS:
                self._found.clear()
            self._found[key] = sequence
        sequence.used = self._step
        row.sequence = sequence
        context = (row.length - row.queries) // PAGE_TOKENS * PAGE_TOKENS
        row.far = max(min(sequence.end, row.target, context), sequence.base)

    def _units_of(self, row: Row) -> np.ndarray:
        count = row.target // self._unit
        positions = np.arange(count) * self._unit
        units = self.slots(row, positions) // self._unit
        units[row.table[positions // self.block_tokens] == 0] = _NONE
        return units

    def _match(self, row: Row, units: np.ndarray) -> StoredSequence | None:
        first = _pages_up(row.begin) // self._unit
        best, longest = None, 0
        for sequence in self._sequences:
            theirs = sequence.units
            if len(theirs) <= first or theirs[first] != units[first]:
                continue
            if self._is_far_behind(sequence, row):
                continue
            count = min(len(theirs), len(units))
            differs = np.flatnonzero(theirs[first:count] != units[first:count])
            same = first + int(differs[0]) if len(differs) else count
            # Of equals the fullest, so that forks of one prefix do not store its next page twice.
            if best is None or (same, sequence.end) > (longest, best.end):
                best, longest = sequence, same
        if best is None:
            return self._create(units, first)
        if longest == len(units):
            return best
        tokens = min(longest * self._unit // PAGE_TOKENS * PAGE_TOKENS, best.end)
        if longest < len(best.units):
            best = self._fork(best, tokens)
            if best is None:
                return None
        self._extend(best, units)
        return best

    def _is_far_behind(self, sequence: StoredSequence, row: Row) -> bool:
        """Whether most of a sequence lies before the row's window: a new one costs less."""
        return row.begin - sequence.base > max(2 * self.sliding_window, 16 * PAGE_TOKENS)

    def _create(self, units: np.ndarray, first: int) -> StoredSequence | None:
        number = secrets.randbits(63)
        if not self._with_room(lambda: self.pool.create_sequence(number)):
            return None
        base = first * self._unit
        units = units.copy()
        units[:first] = _NONE
        samples = [np.zeros(base, np.int32)] * self.pool.layers
        sequence = StoredSequence(number, base, [base] * self.pool.layers, units, samples)
        return self._add(sequence)

    def _fork(self, parent: StoredSequence, end: int) -> StoredSequence | None:
        number = secrets.randbits(63)
        parent.used = self._step  # Room is not made of it.
        forks = lambda: self.pool.fork(parent.number, number, end - parent.base)  # noqa: E731
        if not self._with_room(forks):
            return None
        self.counts.forked_tokens += end - parent.base
        samples = [samples[:end] for samples in parent.samples]
        units = parent.units[: end // self._unit].copy()
        return self._add(
            StoredSequence(number, parent.base, [end] * self.pool.layers, units, samples)
        )

    def _add(self, sequence: StoredSequence) -> StoredSequence:
        sequence.used = self._step
        self._sequences.append(sequence)
        self._hold(sequence.units, 1)
        return sequence

    def _extend(self, sequence: StoredSequence, units: np.ndarray) -> None:
        new = units[len(sequence.units) :]
        sequence.units = np.concatenate([sequence.units, new])
        self._hold(new, 1)

    def _hold(self, units: np.ndarray, count: int) -> None:
        units = units[units != _NONE]
        if len(units) and units.max() >= len(self._holders):
            more = 2 * int(units.max()) + 1 - len(self._holders)
            self._holders = np.concatenate([self._holders, np.zeros(more, np.int32)])
        np.add.at(self._holders, units, count)

    def _forget_written(self, slots: np.ndarray) -> None:
        units = np.unique(slots[slots >= 0] // self._unit)
        units = units[units < len(self._holders)]
        units = units[self._holders[units] > 0]
        if not len(units):
            return
        self._found.clear()
        for sequence in list(self._sequences):
            written = np.flatnonzero(np.isin(sequence.units, units))
            # A cut of one before it may have taken its room.
            if len(written) and sequence in self._sequences:
                self.counts.overwritten_sequences += 1
                self._cut(sequence, written)

    def _cut(self, sequence: StoredSequence, written: np.ndarray) -> None:
        """Takes out units that were overwritten, and with them what no row can reach any more."""
        self._hold(sequence.units[written], -1)
        sequence.units[written] = _NONE
        if self.sliding_window:
            # Blocks before a window are used again while what follows is in use.
            alive = np.flatnonzero(sequence.units != _NONE)
            end = int(written[written > alive[0]].min(initial=alive[-1] + 1)) if len(alive) else 0
        else:
            end = int(written[0])
        end = min(end * self._unit, sequence.end) // PAGE_TOKENS * PAGE_TOKENS
        if end > sequence.base:
            self._fork(sequence, end)
        self._drop(sequence)

    def _drop(self, sequence: StoredSequence) -> None:
        self._found.clear()
        self._sequences.remove(sequence)
        self._hold(sequence.units, -1)
        self._try(lambda: self.pool.drop(sequence.number))

    def _with_room(self, call: Callable[[], object]) -> bool:
        """Whether a call was done; while the pool is full, gives up what was wanted longest ago."""
        while not self._try(call):
            idle = [sequence for sequence in self._sequences if sequence.used < self._step]
            if not self._is_full or not idle:
                return False
            self.counts.evicted_sequences += 1
            self._drop(min(idle, key=lambda sequence: sequence.used))
        return True

    def _try(self, call: Callable[[], object]) -> bool:
        try:
            call()
            return True
        except Error as error:
            self._is_full = error.status == Status.POOL_FULL
            self._is_lost |= error.status in _LOST
            if not self._is_full:
                logger.warning("NearKV's attention goes on without its pool: %s", error)
            return False


def _pages_up(tokens: int) -> int:
    return -(-tokens // PAGE_TOKENS) * PAGE_TOKENS
