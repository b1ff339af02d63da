"""Prefixes in a store: the states that recurrent layers keep of them, and K and V in blocks."""

import hashlib
import inspect
import json
import logging
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from transformers.cache_utils import Cache

from nearkv.core import PAGE_TOKENS, Error
from nearkv.store import MAX_OBJECT_BYTES, Namespace
from nearkv.store.model_identity import model_identity
from nearkv.transformers.parts import CacheParts, States

_logger = logging.getLogger(__name__)
# K and V blocks that are handed to the store, or asked of it, at once.
_BLOCKS = 64
_PIECES = struct.Struct("<I")
# Transformers' Mamba of the first version starts from nothing, whatever there was before, if it
# gets more than one token.
_ONE_TOKEN = {"mamba", "falcon_mamba", "jamba", "zamba"}
# What two loads of the same weights may differ in.
_VOLATILE = {"_name_or_path", "transformers_version", "architectures"}


class Prefilled(NamedTuple):
    """What prefill() has done."""

    logits: torch.Tensor
    """Of the prompt's last token, [vocabulary]."""
    reused_tokens: int
    """That came from the store."""


class PrefixStates:
    """What a model keeps of prefixes, found by their tokens, the longest first.

    A snapshot is one object: the states after exactly n tokens, with K and V of the tokens behind
    the last whole block. K and V before them are blocks of 64 tokens, which all prefixes that
    begin alike share; of Infini-attention, those of the segment that is not over, and a snapshot
    has the matrices of all before it. Objects do not change: whatever goes on from one does so on a
    copy. A snapshot can be gone on from wherever it ends, so save() where prompts part: a state
    cannot be cut. For batches of one; a store that does not answer has nothing and takes nothing.
    """

    def __init__(self, space: Namespace, config: Any, model_version: str = "") -> None:
        """`space` is for one dtype; models of other configs or weights do not find what it has.

        Weights are told by the files of the model that has this config, or by `model_version`,
        which has to name what was changed in memory: an adapter, or weights.
        """
        self._space = space
        named = {key: value for key, value in config.to_dict().items() if key not in _VOLATILE}
        self._config = json.dumps(named, sort_keys=True, default=str)
        name, revision = config.name_or_path, getattr(config, "_commit_hash", None)
        if name or model_version:  # A model that was never stored has nothing but its namespace.
            self._config += model_identity(name, model_version, revision=revision)
        self._said = ""  # The last warning, which is not repeated.

    def save(self, tokens: Sequence[int], cache: Cache | States) -> bool:
        """Stores what a cache holds after exactly these tokens; whether it is there now.

        Raises ValueError for a cache of another length, of several sequences, or of other layers:
        those that attend are a NearKVCache's or a NearKVInfiniCache's. Also where K and V were
        rounded, by rest() of this cache or of a fork, or by a retention: others would take them
        for exact ones. A list of tensors is the state of RWKV.
        """
        parts = CacheParts(cache)
        parts.check(len(tokens))
        if any(layer.sequences.are_rounded for layer in parts.attending):
            raise ValueError("K and V of this cache were rounded: by rest(), or by its retention")
        names = self._names(tokens, parts)
        if not len(tokens):
            return False
        try:
            if not self._save_blocks(names, parts, len(tokens)):
                return False
            known = self._space.exists(names.snapshot(len(tokens), 0))
            return bool(known) or self._save_snapshot(names, parts, len(tokens))
        except Error as error:
            self._tell(str(error))
            return False

    def find(self, tokens: Sequence[int], cache: Cache | States) -> int:
        """How many of the tokens, from the first, the longest snapshot is of; 0: there is none.

        For a cache such as this one, which is not changed.
        """
        ends = self._ends(self._names(tokens, CacheParts(cache)))
        return ends[0] if ends else 0

    def load(self, tokens: Sequence[int], cache: Cache | States) -> int:
        """Fills an empty cache with the longest snapshot, each byte verified; gives its tokens.

        0: there is none, and the cache is still empty. What is damaged or half evicted does not
        count. Raises ValueError for a cache that is not empty or not of this model, and Error if
        the cache's pool is full.
        """
        parts = CacheParts(cache)
        parts.check(0)
        names = self._names(tokens, parts)
        for end in self._ends(names):
            try:
                found = self._load(names, parts, end)
            except Error as error:
                self._tell(str(error))
                return 0
            if found is not None:
                parts.fill(end, *found)
                return end
        return 0

    def prefill(
        self,
        model: torch.nn.Module,
        tokens: Sequence[int],
        cache: Cache | States,
        *,
        every_tokens: int | None = None,
    ) -> Prefilled:
        """Runs a prompt into an empty cache, but for its longest stored prefix.

        Stores what the cache holds at each multiple of `every_tokens`, and at the prompt's end.
        The last token is always computed.
        """
        if not len(tokens):
            raise ValueError("a prompt has at least one token")
        if every_tokens is not None and every_tokens < 1:
            raise ValueError(f"every_tokens is {every_tokens}; it must be at least 1")
        first = known = self.load(tokens[:-1], cache)
        stops = range(0, len(tokens), every_tokens)[1:] if every_tokens else ()
        logits = None
        for stop in (*(stop for stop in stops if stop > known), len(tokens)):
            step = 1 if first and model.config.model_type in _ONE_TOKEN else stop - first
            for begin in range(first, stop, step):
                logits = _forward(model, tokens[begin : begin + step], cache)
            self.save(tokens[:stop], cache)
            first = stop
        return Prefilled(logits, known)

    def _save_blocks(self, names: "_Names", parts: CacheParts, tokens: int) -> bool:
        if not parts.attending:
            return True
        keys = names.blocks(parts.first_token(tokens), tokens)
        known = self._space.match_prefix(keys)
        for begin in range(known, len(keys), _BLOCKS):
            some = keys[begin : begin + _BLOCKS]
            sources = [parts.block(number) for number in range(begin, begin + len(some))]
            parent = keys[begin - 1] if begin else b""
            result = self._space.set(some, sources, chain=True, parent=parent)
            if result.leading < len(some):
                self._tell(f"a block was not stored: {result.statuses[result.leading].name}")
                return False
        return True

    def _save_snapshot(self, names: "_Names", parts: CacheParts, tokens: int) -> bool:
        data = safetensors.torch.save(parts.snapshot(tokens))
        step = MAX_OBJECT_BYTES - _PIECES.size
        pieces = [memoryview(data)[at : at + step] for at in range(0, len(data), step)]
        # The first, which says how many there are, comes last.
        for number in reversed(range(len(pieces))):
            head = [_PIECES.pack(len(pieces))] if number == 0 else []
            result = self._space.set(names.snapshot(tokens, number), [*head, pieces[number]])
            if not result.all_ok:
                self._tell(f"a state was not stored: {result.statuses[0].name}")
                return False
        return True

    def _load(
        self, names: "_Names", parts: CacheParts, end: int
    ) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]] | None:
        snapshot = self._load_snapshot(names, end)
        if snapshot is None:
            return None
        keys = names.blocks(parts.first_token(end), end) if parts.attending else []
        blocks = parts.blank(len(keys))
        for begin in range(0, len(keys), _BLOCKS):
            some = keys[begin : begin + _BLOCKS]
            targets = [[rows[begin + i] for rows in blocks] for i in range(len(some))]
            result = self._space.get(some, targets)
            if not result.all_ok:
                self._tell("K and V of a stored state are gone")
                return None
        return snapshot, blocks

    def _load_snapshot(self, names: "_Names", end: int) -> dict[str, torch.Tensor] | None:
        found = self._space.get(names.snapshot(end, 0))
        if not found.all_ok:
            return None
        first = bytes(found.buffers[0])
        (count,) = _PIECES.unpack_from(first)
        data = first[_PIECES.size :]
        if count > 1:
            others = self._space.get([names.snapshot(end, number) for number in range(1, count)])
            if not others.all_ok:
                self._tell("a part of a stored state is gone")
                return None
            data = b"".join([data, *map(bytes, others.buffers)])
        try:
            return safetensors.torch.load(data)
        except SafetensorError as error:
            self._tell(f"a stored state is none: {error}")
            return None

    def _ends(self, names: "_Names") -> list[int]:
        """Where snapshots end, the longest first."""
        keys = [names.snapshot(end, 0) for end in range(1, names.tokens + 1)]
        try:
            there = self._space.present(keys) if keys else []
        except Error as error:
            self._tell(str(error))
            return []
        return [end for end, found in enumerate(there, 1) if found][::-1]

    def _names(self, tokens: Sequence[int], parts: CacheParts) -> "_Names":
        return _Names(f"{self._config}{parts.kind()}".encode(), tokens)

    def _tell(self, what: str) -> None:
        if what != self._said:
            _logger.warning("NearKV prefixes: %s", what)
        self._said = what


class _Names:
    """Keys of what is stored of some tokens: each stands for all tokens up to its end.

    They have 32 bytes, so that the store keeps them as they are.
    """

    def __init__(self, root: bytes, tokens: Sequence[int]) -> None:
        self.tokens = len(tokens)
        digest = hashlib.sha256(hashlib.sha256(root).digest())
        self._digests = [digest.digest()]
        for token in np.asarray(tokens, "<i4"):
            digest.update(token.tobytes())
            self._digests.append(digest.copy().digest())

    def snapshot(self, end: int, piece: int) -> bytes:
        return b"state" + _PIECES.pack(piece) + self._digests[end][:23]

    def blocks(self, first: int, end: int) -> list[bytes]:
        ends = range(first + PAGE_TOKENS, end + 1, PAGE_TOKENS)
        return [b"rows " + self._digests[end][:27] for end in ends]


def _forward(model: torch.nn.Module, tokens: Sequence[int], cache: Cache | States) -> torch.Tensor:
    """Logits after the last of some tokens, [vocabulary]."""
    inputs = torch.as_tensor(np.asarray(tokens, np.int64), device=model.device)[None]
    named = inspect.signature(model.forward).parameters
    with torch.no_grad():
        if isinstance(cache, list):
            output = model(inputs, state=cache or None, use_cache=True)
            cache[:] = output.state
        else:
            name = "past_key_values" if "past_key_values" in named else "cache_params"
            output = model(inputs, use_cache=True, **{name: cache})
    return output.logits[0, -1]
