"""Chunks of vLLM's KV cache as objects of a store: their names, and which of them are there."""

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import compress
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
from vllm.config import VllmConfig
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.v1.kv_offload.base import (
    Medium,
    OffloadingEvent,
    OffloadingSpec,
    OffloadKey,
    ReqContext,
    get_offload_block_hash,
    get_offload_group_idx,
    make_offload_key,
)
from vllm.v1.kv_offload.config import OffloadingConfig
from vllm.v1.kv_offload.file_mapper import FileMapper

from nearkv.core import Error
from nearkv.store import Lease, Namespace, ObjectStore, ObjectStoreStats, StoreEventKind
from nearkv.store.model_identity import model_identity
from nearkv.vllm.adapter_hashes import hash_adapters_files
from nearkv.vllm.options import VllmStoreSettings

logger = init_logger(__name__)

MODEL_SETTINGS = "nearkv_model"

_KEPT_EVENTS = 65536
_KEYS_OF_A_LEASE = 1024  # What a request to a daemon has room for.
_GROUP_BYTES = len(make_offload_key(b"", 0))
_AMX_BLOCK_TOKENS = 32  # Its kernels are taken for blocks of so many tokens, or a multiple.
_T = TypeVar("_T")


def layout_of(
    spec: OffloadingSpec, options: VllmStoreSettings, *, any_ranks: bool, **more: Any
) -> str:
    """What chunks have to agree in to be interchangeable: what vLLM's file tier names, and weights.

    `any_ranks`: engines may differ in their parallelism where vLLM says that it does not matter.
    """
    identity = FileMapper.from_offloading_spec(
        root_dir="",
        offloading_spec=spec,
        blocks_per_file=spec.blocks_per_chunk,
        parallel_agnostic=any_ranks,
    ).get_run_config()
    identity |= {**_layout_names(spec.config), "model": _model_of(spec.config, options), **more}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), default=str)
    return f"vllm-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _layout_names(config: OffloadingConfig) -> dict[str, str | None]:
    """How K and V lie inside a block: vLLM's name for it, and what a CPU's kernels pack them for.

    Those for AMX pack bfloat16 in a way that no other processor's kernels read.
    """
    packed_for = None
    if current_platform.is_cpu():
        from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

        packed_for = _get_attn_isa(getattr(torch, config.model.dtype), _AMX_BLOCK_TOKENS)
    return {"kv_cache_layout": config.kv_cache_layout, "packed_for": packed_for}


def model_settings(vllm_config: VllmConfig) -> dict[str, Any]:
    """What an engine was told of its models that changes K and V, for extra_config[MODEL_SETTINGS].

    As it was told: what engines make of it may differ between their processes.
    """
    model, draft = vllm_config.model_config, vllm_config.speculative_config
    loaded = str(vllm_config.load_config.load_format)
    return {
        "revision": model.revision,
        "code_revision": model.code_revision,
        "config_path": model.hf_config_path,
        "overrides": repr(getattr(model.hf_overrides, "__qualname__", model.hf_overrides)),
        "quantization": str(model.quantization),
        "dtype": str(model.dtype),
        "weights": f"random {model.seed}" if loaded == "dummy" else loaded,
        "draft": [draft.model, draft.revision] if draft else None,
    }


def _model_of(config: OffloadingConfig, options: VllmStoreSettings) -> str:
    settings = dict(config.extra_config.get(MODEL_SETTINGS, {}))
    if draft := settings.pop("draft", None):
        settings["draft"] = model_identity(draft[0], options.model_version, revision=draft[1])
    return model_identity(config.model.name, options.model_version, **settings)


class GroupKeys(NamedTuple):
    """Those of some keys that belong to one KV cache group."""

    group: int
    space: Namespace
    keys: Sequence[OffloadKey]
    places: Sequence[int]
    """Of each, where it stands among all keys."""
    hashes: np.ndarray
    """The blocks' hashes, which are the objects' keys: rows of bytes."""
    parent: bytes = b""
    """The hash of the block that the first of them follows, if that is known."""


class _SharedStores:
    """Stores that scheduler and worker of one process use together: a file has one owner.

    Thread safety: all calls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple, tuple[ObjectStore, int]] = {}

    def acquire(self, options: VllmStoreSettings) -> ObjectStore:
        """A store, opened if nobody has it open."""
        with self._lock:
            store, users = self._open.get(self._place(options)) or (options.open(), 0)
            self._open[self._place(options)] = store, users + 1
        return store

    def release(self, options: VllmStoreSettings) -> None:
        """Closes it after its last user."""
        with self._lock:
            store, users = self._open.pop(self._place(options))
            if users > 1:
                self._open[self._place(options)] = store, users - 1
            else:
                store.close()

    @staticmethod
    def _place(options: VllmStoreSettings) -> tuple:
        return options.uri, options.socket


class ChunkStore:
    """The chunks of one engine: by vLLM's keys, each KV cache group a namespace.

    What a store cannot answer, a daemon that is away for one, is said once and counts as nothing
    there. Thread safety: none, but for the jobs of its namespaces.
    """

    _stores: ClassVar = _SharedStores()

    def __init__(self, options: VllmStoreSettings, spec: OffloadingSpec, layout: str) -> None:
        """nearkv.core.Error if there is no store."""
        self._options = options
        hash_adapters_files(options.model_version)
        self.store: ObjectStore = self._stores.acquire(options)
        self._spaces = {
            group.group_id: self.store.namespace(
                spec.config.model.name,
                spec.config.model.dtype,
                layout,
                group=group.group_id,
                tenant=options.tenant,
                salt=options.salt.encode(),
            )
            for group in spec.config.groups
        }
        self._groups = {space.number: group for group, space in self._spaces.items()}
        self._said = ""  # The last warning, which is not repeated.
        self._told: set[OffloadKey] | None = None
        self._is_told_all = False
        if options.enable_kv_events and spec.kv_events_config.enable_kv_cache_events:
            self._told = set()
            self.store.watch(_KEPT_EVENTS)
        elif options.enable_kv_events:
            logger.warning("enable_kv_events of NearKV needs vLLM's KV events: there are none")

    def by_group(
        self, keys: Collection[OffloadKey], context: ReqContext | None = None
    ) -> Iterator[GroupKeys]:
        """The keys in as many parts as there are groups among them.

        With their request's context each part is in the order of its tokens, and has its parent.
        """
        if not keys:
            return
        names, order = list(keys), range(len(keys))
        parents: dict[int, bytes] = {}
        if context is not None:
            ends = [context.get_offload_key_position(key) or 0 for key in names]
            order = sorted(order, key=ends.__getitem__)
            names = [names[place] for place in order]
            parents = self.parents_of(names, context)
        # vLLM's keys are as long as each other: a hash, and the number of a group.
        rows = np.frombuffer(b"".join(names), np.uint8).reshape(len(names), -1)
        hashes = rows[:, :-_GROUP_BYTES]
        if len(self._spaces) == 1:
            [(group, space)] = self._spaces.items()
            yield GroupKeys(group, space, names, order, hashes, parents.get(group, b""))
            return
        groups = rows[:, -_GROUP_BYTES:].copy().view(">u4")[:, 0]
        for group in np.unique(groups).tolist():
            ours = np.flatnonzero(groups == group)
            of_group = [names[place] for place in ours.tolist()]
            places = [order[place] for place in ours.tolist()]
            parent = parents.get(group, b"")
            yield GroupKeys(group, self._spaces[group], of_group, places, hashes[ours], parent)

    def parents_of(self, keys: Sequence[OffloadKey], context: ReqContext) -> dict[int, bytes]:
        """Of some of a request's keys, by group: the hash of what the first one follows."""
        positions = context._offload_key_positions  # All of the request's, in each group's order.
        if len(self._spaces) == 1:
            firsts = dict.fromkeys(self._spaces, keys[0]) if keys else {}
        else:
            firsts = {get_offload_group_idx(key): key for key in reversed(keys)}
        if len(firsts) == 1 and keys[0] == next(iter(positions), None):
            return {}  # Nothing is before it.
        parents: dict[int, bytes] = {}
        reached = set()
        for key in reversed(positions):
            group = get_offload_group_idx(key)
            if group in reached:
                parents.setdefault(group, get_offload_block_hash(key))
            elif key == firsts.get(group):
                reached.add(group)
            if len(parents) == len(firsts):
                break
        return parents

    def holds(self, key: OffloadKey) -> bool:
        """Whether one key is there."""
        space = self._spaces[get_offload_group_idx(key)]
        return self.ask(False, space.__contains__, get_offload_block_hash(key))

    def present(self, keys: Collection[OffloadKey]) -> set[OffloadKey]:
        """Which of the keys are there."""
        there: set[OffloadKey] = set()
        for part in self.by_group(keys):
            there.update(compress(part.keys, self.ask([], part.space.present, part.hashes)))
        return there

    def touch(self, keys: Collection[OffloadKey]) -> None:
        """Marks chunks as used."""
        for part in self.by_group(keys):
            self.ask(None, part.space.touch, part.hashes)

    def pin(self, keys: Collection[OffloadKey]) -> tuple[set[OffloadKey], list[Lease]]:
        """Keeps those that are there until each lease is given to unpin(), or for a minute."""
        there: set[OffloadKey] = set()
        leases = []
        for part in self.by_group(keys):
            for begin in range(0, len(part.keys), _KEYS_OF_A_LEASE):
                some = slice(begin, begin + _KEYS_OF_A_LEASE)
                lease = self.ask(None, part.space.pin, part.hashes[some])
                if lease is not None and lease.id:
                    leases.append(lease)
                    is_there = lease.bitmap
                else:  # There is nothing, or there are no more leases to be had.
                    is_there = self.ask([], part.space.present, part.hashes[some])
                there.update(compress(part.keys[some], is_there))
        return there, leases

    def unpin(self, leases: Collection[Lease]) -> None:
        """Ends what pin() began."""
        for lease in leases:
            self.ask(False, lease.unpin)

    def erase(self, keys: Collection[OffloadKey]) -> None:
        """Deletes chunks, and forgets what has come of unfinished ones."""
        for part in self.by_group(keys):
            job = self.ask(None, part.space.submit_erase, part.hashes)
            if job is not None:
                self.ask(None, job.wait_or_cancel)  # A daemon may be silent.

    def erase_all(self) -> None:
        """Deletes every chunk that this engine could find. RuntimeError if some may stay."""
        keys = self._all()
        if keys:
            self.erase(keys)
            keys = self._all()
        if keys is None:
            raise RuntimeError(
                "NearKV cannot list what it stored, and so not delete it: the daemon is away, or "
                "its configuration does not give this engine's tenant the permission admin"
            )
        if keys:
            raise RuntimeError(f"NearKV: {len(keys)} chunks stay in the store: they are in use")

    def take_events(self, medium: Medium, ownership: str | None) -> list[OffloadingEvent]:
        """What came and what went since the last call, whoever stored it; first, all there is."""
        if self._told is None:
            return []
        changes, missed = self.ask(([], 0), self.store.take_events)
        everything = None
        if missed or not self._is_told_all:
            everything = self.ask(None, self._all)
            # A daemon that does not list to this engine will not do so later either.
            self._is_told_all = everything is not None or self.answers()
        if everything is not None:
            came, gone = set(everything) - self._told, self._told - set(everything)
        else:
            came, gone = set(), set()
            for change in changes:
                if (group := self._groups.get(change.namespace_number)) is None:
                    continue
                key = make_offload_key(change.key, group)
                is_new = change.kind == StoreEventKind.STORED
                (came if is_new else gone).add(key)
                (gone if is_new else came).discard(key)
            came -= self._told
            gone &= self._told
        self._told |= came
        self._told -= gone
        return [
            OffloadingEvent(
                keys=list(keys),
                medium=medium,
                removed=removed,
                locality=self._options.event_locality,
                ownership=ownership,
            )
            for keys, removed in ((gone, True), (came, False))
            if keys
        ]

    def stats(self) -> ObjectStoreStats | None:
        """The whole store's; None if it does not answer."""
        return self.ask(None, self.store.stats)

    def answers(self) -> bool:
        """Whether the store does; a daemon that is silent is waited for once."""
        space = next(iter(self._spaces.values()))
        return self.ask(False, lambda: space.describe(b"any key") is None)

    def ask(self, otherwise: _T, call: Callable[..., _T], *arguments: Any) -> _T:
        """What a call gives; `otherwise`, and a warning, if the store fails."""
        try:
            return call(*arguments)
        except Error as error:
            self.tell(error)
            return otherwise

    def tell(self, error: Error) -> None:
        """A warning, unless it was the last one too."""
        if str(error) != self._said:
            logger.warning("NearKV: %s", error)
        self._said = str(error)

    def close(self) -> None:
        """Lets go of the store. Jobs have ended before."""
        self._stores.release(self._options)

    def _all(self) -> list[OffloadKey] | None:
        """None where the daemon is away, or lists to administrators alone."""
        if not self._groups:
            return []
        if not self.store.namespaces():
            return None
        return [
            make_offload_key(info.key, self._groups[info.namespace_number])
            for info in self.store.objects()
            if info.namespace_number in self._groups
        ]
