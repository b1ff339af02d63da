"""States in a store: blocks of tokens, each named by all tokens up to its end."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearkv.core import Error
from nearkv.llama_cpp.state import SequenceState, StateLayout
from nearkv.store import MAX_OBJECT_BYTES, Namespace

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Block:
    key: bytes
    first: int
    end: int


class StateBlocks:
    """States of one layout, found by the longest stored prefix of their tokens.

    Whatever begins with the same tokens shares the blocks of `block_tokens` of them; what is over
    at a state's end is an object too, so that a state comes back as long as it was. A store that
    does not answer has nothing and takes nothing.
    """

    def __init__(self, space: Namespace, layout: StateLayout, block_tokens: int) -> None:
        if not 0 < block_tokens * layout.token_bytes <= MAX_OBJECT_BYTES:
            raise ValueError(
                f"block_tokens is between 1 and {MAX_OBJECT_BYTES // layout.token_bytes} for a "
                f"model of {layout.token_bytes} bytes a token, not {block_tokens}"
            )
        self.layout = layout
        self._space = space
        self._block_tokens = block_tokens
        self._said = ""  # The last warning, which is not repeated.

    def save(self, state: SequenceState, tokens: Sequence[int]) -> int:
        """Stores what is not there; gives how many of the tokens are there now, from the first.

        The state may be of more tokens than these. ValueError if it is of fewer, or of another
        layout.
        """
        if state.layout != self.layout or state.tokens < len(tokens):
            raise ValueError(
                f"a state of {state.tokens} tokens is no state of these {len(tokens)}, or of "
                "another layout"
            )
        chain = self._chain(tokens)
        keys = [block.key for block in chain]
        try:
            known = self._space.match_prefix(keys)
            if known == len(keys):
                return len(tokens)
            sources = [
                [np.ascontiguousarray(part) for part in state.block(block.first, block.end)]
                for block in chain[known:]
            ]
            parent = {"parent": keys[known - 1]} if known else {}
            result = self._space.set(keys[known:], sources, chain=True, **parent)
        except Error as error:
            self._tell(str(error))
            return 0
        stored = known + result.leading
        if stored < len(chain):
            self._tell(f"a block was not stored: {result.statuses[result.leading].name}")
        return chain[stored - 1].end if stored else 0

    def find(self, tokens: Sequence[int]) -> int:
        """How many of the tokens, from the first, have their state stored."""
        found = self._find(tokens)
        return found[-1].end if found else 0

    def load(
        self, tokens: Sequence[int], head: bytes, streams: int, sequence: int = 0
    ) -> SequenceState | None:
        """The state of the longest stored prefix, each byte of it verified; None if there is none.

        `head`, `streams`, `sequence`: see StateLayout.blank. Behind a damaged block nothing counts.
        """
        blocks = self._find(tokens)
        while blocks:
            state = self.layout.blank(head, streams, blocks[-1].end, sequence)
            parts = [state.block(block.first, block.end) for block in blocks]
            # Parts of transposed V are not of one piece.
            targets = [[_whole(part) for part in block] for block in parts]
            try:
                result = self._space.get([block.key for block in blocks], targets)
            except Error as error:
                self._tell(str(error))
                return None
            good = 0
            for block, ok, size in zip(blocks, result.bitmap, result.object_bytes, strict=True):
                if not ok or size != (block.end - block.first) * self.layout.token_bytes:
                    break
                good += 1
            if good == len(blocks):
                for block_parts, block_targets in zip(parts, targets, strict=True):
                    for part, target in zip(block_parts, block_targets, strict=True):
                        if target is not part:
                            part[:] = target
                return state
            self._tell(f"a block did not come back: {result.statuses[good].name}")
            blocks = blocks[:good]
        return None

    def _chain(self, tokens: Sequence[int]) -> list[_Block]:
        blocks: list[_Block] = []
        for first in range(0, len(tokens), self._block_tokens):
            blocks.append(self._after(blocks, tokens[first : first + self._block_tokens]))
        return blocks

    def _after(self, blocks: list[_Block], tokens: Sequence[int]) -> _Block:
        parent, first = (blocks[-1].key, blocks[-1].end) if blocks else (b"", 0)
        text = np.asarray(tokens, "<i4").tobytes()
        return _Block(hashlib.sha256(parent + text).digest(), first, first + len(tokens))

    def _find(self, tokens: Sequence[int]) -> list[_Block]:
        chain = self._chain(tokens)
        try:
            found = chain[: self._space.match_prefix([block.key for block in chain])]
            if len(found) == len(chain):
                return found
            # A state may have ended within the next block.
            first, end = chain[len(found)].first, chain[len(found)].end
            ends = [self._after(found, tokens[first:i]) for i in range(first + 1, end)]
            are_there = self._space.present([block.key for block in ends])
        except Error as error:
            self._tell(str(error))
            return []
        return found + [block for block, there in zip(ends, are_there, strict=True) if there][-1:]

    def _tell(self, what: str) -> None:
        if what != self._said:
            _logger.warning("NearKV states: %s", what)
        self._said = what


def _whole(part: np.ndarray) -> np.ndarray:
    return part if part.flags.c_contiguous else np.empty(part.shape, part.dtype)
