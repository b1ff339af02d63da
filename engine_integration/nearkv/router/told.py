"""Blocks that are found by what engines told of them, because only engines can hash them."""

import hashlib
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from nearkv.kv_events.latest import Latest
from nearkv.kv_events.wire import BlockHash, number_of
from nearkv.router.hashes import in_blocks


class ToldBlocks:
    """Of adapters (LoRA): the hash of a block covers the adapter's path, which no event has.

    Engines tell the adapter's name and the tokens: those, and the block before, lead to the hash.
    Where two engines have one name for two adapters, that of which was told last is found.
    Thread safety: every call from any thread.
    """

    def __init__(self) -> None:
        self._numbers: Latest[bytes, int] = Latest()
        self.adapters: set[str] = set()
        """Those of which any engine told."""

    def learn(
        self,
        adapter: str,
        salt: str,
        parent: BlockHash | None,
        blocks: Iterable[tuple[Sequence[int], BlockHash]],
    ) -> None:
        """Tokens and hashes of blocks, each behind the one before. ValueError for nonsense."""
        before = _root(adapter, salt) if parent is None else _name(number_of(parent))
        self.adapters.add(adapter)
        for tokens, block in blocks:
            self._numbers.put(_key(before, tokens), number_of(block))
            before = _name(number_of(block))

    def find(self, adapter: str, salt: str, tokens: Sequence[int], block_tokens: int) -> np.ndarray:
        """A prompt's blocks as far as they were told: uint64, head first."""
        found: list[int] = []
        before = _root(adapter, salt)
        for block in in_blocks(tokens, block_tokens):
            if (number := self._numbers.get(_key(before, block))) is None:
                break
            found.append(number)
            before = _name(number)
        return np.array(found, dtype=np.uint64)


def _root(adapter: str, salt: str) -> bytes:
    return repr((adapter, salt)).encode()


def _name(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _key(before: bytes, tokens: Sequence[int]) -> bytes:
    try:
        return hashlib.sha256(before + array("I", tokens).tobytes()).digest()[:16]
    except OverflowError as error:
        raise ValueError(f"a token is a number from 0 to 2**32 - 1: {error}") from error
