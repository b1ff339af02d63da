"""The storage backend: pages of HiCache's host pools as objects of a NearKV store."""

import dataclasses
import difflib
import hashlib
import json
import logging
import threading
from collections.abc import Sequence
from typing import Any

import torch

from nearkv.core import Error
from nearkv.sglang import compat
from nearkv.sglang.pages import HostPages
from nearkv.store import MAX_OBJECT_BYTES, Job, Namespace, Status
from nearkv.store.model_identity import model_identity
from nearkv.store.settings import StoreSettings

logger = logging.getLogger(__name__)

_KV = compat.PoolName.KV.value
_RANKED = "{rank}"


@dataclasses.dataclass
class HiCacheSettings(StoreSettings):
    """What --hicache-storage-backend-extra-config may say."""

    interface_v1: int = 0
    """SGLang's own, has to be 1: pages go straight between host pool and store."""

    @classmethod
    def of(cls, config: compat.HiCacheStorageConfig) -> "HiCacheSettings":
        """ValueError names what is wrong, and what may be meant.

        A name that is like none of these is SGLang's own, of whatever version.
        """
        given = dict(config.extra_config or {})
        names = [field.name for field in dataclasses.fields(cls)]
        others = [name for name in given if not difflib.get_close_matches(name, names)]
        settings = cls.parse("NearKV's HiCache storage", given, others)
        if not settings.interface_v1:
            raise ValueError('NearKV\'s HiCache storage needs "interface_v1": 1 beside class_name')
        if _RANKED in settings.uri:
            rank = f"{config.pp_rank}-{config.attn_cp_rank}-{config.dp_rank}-{config.tp_rank}"
            settings.uri = settings.uri.replace(_RANKED, rank)
        elif settings.uri and config.tp_size * config.pp_size * config.attn_cp_size > 1:
            raise ValueError(
                f"a file has one owner: put {_RANKED} into the path of uri, or give the socket of "
                "a daemon, which all ranks share"
            )
        return settings


def layout_of(
    config: compat.HiCacheStorageConfig, model: str, name: str, pool: Any, pages: HostPages
) -> str:
    """What pages of a pool have to agree in to be interchangeable, beside dtype and rank."""
    identity = {
        "model": model,
        "pool": name,
        "class": type(pool).__name__,
        "layout": pool.layout,
        "page_tokens": pages.page_tokens,
        "piece_bytes": pages.piece_bytes,
        "layers": [getattr(pool, "start_layer", None), getattr(pool, "end_layer", None)],
        "pp": [config.pp_rank, config.pp_size],
        "cp": [config.attn_cp_rank, config.attn_cp_size],
        "dcp": [config.dcp_rank, config.dcp_size],
        "tp_size": config.tp_size if compat.is_rank_sharded(name, pool, config) else 1,
        "format": getattr(pool, "storage_format_tag", None),
    }
    text = json.dumps(identity, sort_keys=True)
    return f"sglang-{name}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@dataclasses.dataclass
class _Pool:
    """A host pool, and the objects that its pages are."""

    pages: HostPages
    space: Namespace


class NearKVHiCache(compat.HiCacheStorage):
    """Pages by their hashes: what the store acknowledged outlives the engine.

    SGLang's hashes tell tokens apart, and requests' salts; which model, dtype, layout, rank and
    engine's salt they are of is the namespace's. Nothing that goes wrong with a page raises: it is
    not found, or not stored. A page that does not come whole is not found from then on, as the
    store drops it. Thread safety: all calls, once the pools are registered.
    """

    def __init__(self, storage_config: compat.HiCacheStorageConfig, kwargs: Any = None) -> None:
        """ValueError or nearkv.core.Error say why there can be no such backend."""
        self._config = storage_config
        self._settings = HiCacheSettings.of(storage_config)
        version = self._settings.model_version
        told = {"name": storage_config.model_name or ""} | compat.model_settings(version)
        self._model = model_identity(version=version, **told)
        self._store = self._settings.open()
        self._pools: dict[str, _Pool] = {}
        self._said = threading.local()  # The last warning of each thread, which is not repeated.

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """The pool of KV pages. ValueError if its layout is none that can be stored."""
        super().register_mem_pool_host(mem_pool_host)
        self.register_mem_host_pool_v2(mem_pool_host, _KV)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: str) -> None:
        """Any pool, by its name."""
        name = _name_of(host_pool_name)
        pages = HostPages(host_pool)
        if pages.page_bytes > MAX_OBJECT_BYTES:
            raise ValueError(
                f"a page of {pages.page_bytes} bytes is no object of a NearKV store, which has "
                f"{MAX_OBJECT_BYTES} at most: take a smaller --page-size"
            )
        sharded = compat.is_rank_sharded(name, host_pool, self._config)
        space = self._store.namespace(
            self._config.model_name or "",
            str(host_pool.dtype).removeprefix("torch."),
            layout_of(self._config, self._model, name, host_pool, pages),
            tenant=self._settings.tenant,
            rank=self._config.tp_rank if sharded else 0,
            salt=self._settings.salt.encode(),
        )
        self._pools[name] = _Pool(pages, space)

    def batch_get_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: compat.HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Fills KV pages of the host pool; True for each that came whole."""
        return self._move(_KV, keys, host_indices, extra_info, stores=False)

    def batch_set_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: compat.HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Stores KV pages of the host pool; True for each that is there now."""
        return self._move(_KV, keys, host_indices, extra_info, stores=True)

    def batch_exists(
        self, keys: list[str], extra_info: compat.HiCacheStorageExtraInfo | None = None
    ) -> int:
        """How many KV pages from the first on are there."""
        present = self._present(_KV, keys)
        return present.index(False) if False in present else len(present)

    def batch_get_v2(
        self,
        transfers: list[compat.PoolTransfer],
        extra_info: compat.HiCacheStorageExtraInfo | None = None,
    ) -> dict[str, list[bool]]:
        """As batch_get_v1(), for pages of several pools."""
        return {
            each.name: self._move(each.name, each.keys, each.host_indices, extra_info, stores=False)
            for each in transfers
        }

    def batch_set_v2(
        self,
        transfers: list[compat.PoolTransfer],
        extra_info: compat.HiCacheStorageExtraInfo | None = None,
    ) -> dict[str, list[bool]]:
        """As batch_set_v1(), for pages of several pools."""
        return {
            each.name: self._move(each.name, each.keys, each.host_indices, extra_info, stores=True)
            for each in transfers
        }

    def batch_exists_v2(
        self,
        keys: list[str],
        pool_transfers: list[compat.PoolTransfer] | None = None,
        extra_info: compat.HiCacheStorageExtraInfo | None = None,
    ) -> compat.PoolTransferResult:
        """The longest prefix that all pools can restore, and how far each of them reaches."""
        kv_pages = self.batch_exists(keys, extra_info)
        hits = {compat.PoolName.KV: kv_pages} if kv_pages else {}
        restorable = set(range(1, kv_pages + 1))
        for transfer in pool_transfers or []:
            if transfer.hit_policy == compat.PoolHitPolicy.BLOCK_GROUPS:
                continue  # Such a pool gates nothing; one that is not reported has no verdict.
            present = self._present(transfer.name, keys[:kv_pages])
            window = kv_pages
            if transfer.hit_policy == compat.PoolHitPolicy.TRAILING_PAGES:
                window = max(1, len(transfer.keys or ()))
            reached = {
                end for end in range(1, kv_pages + 1) if all(present[max(0, end - window) : end])
            }
            if reached:
                hits[transfer.name] = max(reached)
            restorable &= reached
        return compat.PoolTransferResult(max(restorable, default=0), hits, sorted(restorable))

    def exists(self, key: str) -> bool:
        """Whether a KV page is there."""
        return self.batch_exists([key]) == 1

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> None:
        """Nothing: with interface_v1, SGLang does not copy pages out of the pool and back."""

    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[None]:
        """As get()."""
        return [None] * len(keys)

    def set(
        self,
        key: str,
        value: Any = None,
        target_location: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """Stores nothing, as get()."""
        return False

    def batch_set(
        self,
        keys: list[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """As set()."""
        return False

    def clear(self) -> bool:
        """Erases the pages of these pools. False if they stay: a daemon lists to its users only."""
        spaces = {pool.space.number: pool.space for pool in self._pools.values()}
        try:
            if not self._store.namespaces():
                logger.error("NearKV's HiCache storage: the daemon does not let it clear")
                return False
            listed: dict[int, list[bytes]] = {number: [] for number in spaces}
            for info in self._store.objects():
                if info.namespace_number in listed:
                    listed[info.namespace_number].append(info.key)
            ends = [spaces[number].erase(keys) for number, keys in listed.items()]
        except Error as error:
            self._tell(error)
            return False
        return all(end in (Status.OK, Status.NOT_FOUND) for each in ends for end in each.statuses)

    def close(self) -> None:
        """Ends what is under way, and closes the store. Again: does nothing."""
        self._pools.clear()
        self._store.close()

    def _present(self, name: str, keys: Sequence[str]) -> list[bool]:
        try:
            pool = self._pools[_name_of(name)]
            if not pool.pages.holds_bytes:
                return [True] * len(keys)  # An anchor of other pools, which decide.
            return pool.space.present([_key_of(key) for key in keys])
        except (Error, KeyError, ValueError) as error:
            self._tell(error)
            return [False] * len(keys)

    def _move(
        self,
        name: str,
        keys: Sequence[str] | None,
        host_indices: torch.Tensor | None,
        extra_info: compat.HiCacheStorageExtraInfo | None,
        *,
        stores: bool,
    ) -> list[bool]:
        keys = keys or []
        try:
            pool = self._pools[_name_of(name)]
            if not keys or not pool.pages.holds_bytes:
                return [True] * len(keys)
            index_count = 0 if host_indices is None else len(host_indices)
            if index_count != len(keys) * pool.pages.page_tokens:
                raise ValueError(
                    f"{len(keys)} pages of {pool.pages.page_tokens} tokens have not "
                    f"{index_count} host indices"
                )
            names = [_key_of(key) for key in keys]
            pieces = pool.pages.pieces(host_indices)
            job = self._submit(pool.space, names, pieces, extra_info, stores=stores)
            result = job.wait_or_cancel()
        except (Error, KeyError, ValueError) as error:
            self._tell(error)
            return [False] * len(keys)
        return result.bitmap if stores else result.whole(pool.pages.page_bytes)

    def _submit(
        self,
        space: Namespace,
        names: list[bytes],
        pieces: list[list[memoryview]],
        extra_info: compat.HiCacheStorageExtraInfo | None,
        *,
        stores: bool,
    ) -> Job:
        if not stores:
            return space.submit_get(names, pieces)
        before = (extra_info.prefix_keys if extra_info else None) or []
        parent = _key_of(before[-1]) if before else b""
        return space.submit_set(names, pieces, chain=True, parent=parent)

    def _tell(self, error: Exception) -> None:
        if str(error) != getattr(self._said, "text", ""):
            logger.warning("NearKV's HiCache storage: %r", error)
        self._said.text = str(error)


def _name_of(pool_name: str) -> str:
    return getattr(pool_name, "value", pool_name)


def _key_of(page_hash: str) -> bytes:
    """A page's hash, which the engine gives in hexadecimal, as bytes; other keys as they are."""
    try:
        digest = bytes.fromhex(page_hash)
    except ValueError:
        digest = b""
    return digest if 2 * len(digest) == len(page_hash) == 64 else page_hash.encode()
