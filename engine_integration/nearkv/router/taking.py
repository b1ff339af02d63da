"""What events of a worker mean for the index."""

from collections.abc import Iterable, Mapping
from typing import Any

import _nearkv
import numpy as np
from _nearkv import Tier

from nearkv.core import Error
from nearkv.kv_events.latest import Latest
from nearkv.kv_events.wire import BlockHash, number_of
from nearkv.router.hashes import HashScheme, agree, in_blocks
from nearkv.router.media import UnknownMedium, tier_of
from nearkv.router.ranks import RankedWorker
from nearkv.router.told import ToldBlocks

Events = Iterable[tuple[str, Mapping[str, Any]]]

# Of each worker, as many beginnings of prompts are hashed again, and after them every so many.
_FIRST_CHECKS = 8
_CHECK_EVERY = 64
_CHECKED_BLOCKS = 4


class HashMismatch(ValueError):
    """A worker hashes otherwise than the router: its blocks could never be found."""


class OtherBlockSize(ValueError):
    """A worker has blocks of another size, of which the router cannot make its own."""


class EventTaker:
    """Brings events into the index. Thread safety: those of one worker one at a time."""

    def __init__(
        self,
        core: _nearkv.Router,
        scheme: HashScheme,
        block_tokens: int,
        media: Mapping[str, Tier],
        told: ToldBlocks,
    ) -> None:
        """`media`: tiers of places beside the known ones; `told` learns blocks of adapters."""
        self._core = core
        self._scheme = scheme
        self._block_tokens = block_tokens
        self._media = media
        self._told = told
        self._digests: Latest[int, bytes] = Latest()  # Of larger blocks' last parts.

    def take(self, worker: RankedWorker, number: int, events: Events) -> None:
        """Takes up events of the rank of that number; see Router.apply."""
        events = list(events)
        worker.groups.learn(events)
        left_out: Exception | None = None
        for kind, fields in events:
            try:
                if kind == "AllBlocksCleared":
                    self._core.clear(number)
                elif worker.groups.counts(fields["group_idx"]):
                    tier = tier_of(fields["medium"], self._media)
                    if kind == "BlockRemoved":
                        self._core.remove(number, tier, _numbers_of(fields["block_hashes"]))
                    else:
                        self._core.store(number, tier, self._stored(worker, fields))
            except (UnknownMedium, OtherBlockSize, Error) as error:
                left_out = left_out or error
        if left_out:
            raise left_out

    def _stored(self, worker: RankedWorker, fields: Mapping[str, Any]) -> np.ndarray:
        """Hashes of the router's own blocks of which an event tells."""
        told, tokens, size = fields["block_hashes"], fields["token_ids"], fields["block_size"]
        own, parent = self._block_tokens, fields["parent_block_hash"]
        if tokens and not isinstance(tokens[0], int):
            raise HashMismatch(
                f"{worker.name} hashes pairs of tokens, as SGLang does for EAGLE, and none of its"
                " blocks is found: start it without speculative decoding to have them found"
            )
        if size and size != own:
            return self._parts(worker, fields)
        if not tokens or fields["covers_more"]:
            return _numbers_of(told)
        if fields["adapter"]:
            blocks = zip(in_blocks(tokens, own), told, strict=True)
            self._told.learn(fields["adapter"], fields["salt"], parent, blocks)
        elif parent is None and not fields["salt"] and _is_to_be_checked(worker):
            begin = tokens[: own * _CHECKED_BLOCKS]
            if not agree(self._scheme, self._scheme.digests(begin, own), told):
                raise HashMismatch(
                    f"{worker.name} hashes blocks otherwise than {self._scheme.name}: start vLLM"
                    " with --prefix-caching-hash-algo and PYTHONHASHSEED as the router's scheme and"
                    " seed have them, or give the router the engine's"
                )
        return _numbers_of(told)

    def _parts(self, worker: RankedWorker, fields: Mapping[str, Any]) -> np.ndarray:
        """Hashes of the router's blocks within larger ones, if the engine hashes by them.

        Engines of hybrid models hash by a size that divides those of all groups: the hash of a
        larger block is that of the last part in it. OtherBlockSize, unless it is only of this
        prompt that the parts are not known, because of an image or an adapter.
        """
        told, tokens, size = fields["block_hashes"], fields["token_ids"], fields["block_size"]
        own, parent = self._block_tokens, fields["parent_block_hash"]
        is_whole = parent is None or (isinstance(parent, bytes) and len(parent) > 8)
        before = parent if is_whole else self._digests.get(number_of(parent))
        if tokens and size % own == 0 and (is_whole or before):
            digests = self._scheme.digests(tokens, own, before, fields["salt"])
            last = digests[size // own - 1 :: size // own]
            if agree(self._scheme, last, told):
                worker.has_parts = True
                for digest in last:
                    self._digests.put(self._scheme.number(digest), digest)
                return _numbers_of([self._scheme.number(digest) for digest in digests])
        if worker.has_parts or (fields["covers_more"] and fields["is_told"]) or fields["adapter"]:
            return _numbers_of([])
        raise OtherBlockSize(
            f"{worker.name} has blocks of {size} tokens, the router of {own}, and these are left"
            f" out: start the engine with --block-size {own} (SGLang: --page-size {own}), or give"
            f" the router a cost model with block_tokens = {size}"
        )


def _is_to_be_checked(worker: RankedWorker) -> bool:
    worker.checks += 1
    return worker.checks <= _FIRST_CHECKS or worker.checks % _CHECK_EVERY == 0


def _numbers_of(blocks: Iterable[BlockHash]) -> np.ndarray:
    return np.array([number_of(block) for block in blocks], dtype=np.uint64)
