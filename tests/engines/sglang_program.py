"""Runs in SGLang's environment: its own host pools and controllers, asked one line at a time.

Each line of input is {"do": what, "name": of a cache, ..}, or {"do": "parse", "words"} of a
server's command; each line of output its answer, or {"error"}. Stand-ins: those of sglang_absent,
and the allocator of the device pool, of which a controller asks but the pool.
"""

import argparse
import json
import os
import sys
import threading
from array import array
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import sglang_absent  # noqa: F401
import torch
from sglang.srt.lora.lora_registry import LoRARef
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, MLATokenToKVPool
from sglang.srt.mem_cache.pool_host.base import host_memory_budget_scope
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.utils import get_storage_hash_str
from sglang.srt.runtime_context import create_context, get_parallel, use_context
from sglang.srt.server_args import ServerArgs

LAYERS = 4
HOST_PAGES = 40
WAIT_S = 30


def serving(models: dict[str, str] | None) -> AbstractContextManager:
    """As in a process of a server of these folders: model, adapter and draft."""
    if models is None:
        return nullcontext()
    arguments = ServerArgs(
        model_path=models["model"],
        speculative_draft_model_path=models["draft"],
        lora_paths=[LoRARef(lora_name="adapter", lora_path=models["adapter"])],
        device="cpu",
    )
    return use_context(create_context(arguments, role="scheduler"))


class _DeviceAllocator:
    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def get_kvcache(self) -> Any:
        return self._pool


def host_pool(device: Any, layout: str, page_tokens: int, pages: int, **more: Any) -> Any:
    kind = MLATokenToKVPoolHost if more else MHATokenToKVPoolHost
    with host_memory_budget_scope(2 << 30):
        return kind(
            device.get_device_pool_infos()[0].buffer_info,
            pages / 2,
            0,
            page_tokens,
            layout,
            pin_memory=False,
            device_capacity_tokens=device.size,
            start_layer=0,
            end_layer=LAYERS - 1,
            **more,
        )


def pools(
    kind: str, layout: str, page_tokens: int, dtype: str, heads: int, pages: int = HOST_PAGES
) -> tuple[Any, Any]:
    """A device pool and a host pool."""
    common = {
        "size": 2 * page_tokens,
        "page_size": page_tokens,
        "dtype": getattr(torch, dtype),
        "layer_num": LAYERS,
        "device": "cpu",
        "enable_memory_saver": False,
    }
    if kind == "mla":
        device = MLATokenToKVPool(**common, kv_lora_rank=64, qk_rope_head_dim=16)
        more = {"target_layer_num": LAYERS, "override_kv_cache_dim": device.kv_cache_dim}
        return device, host_pool(device, layout, page_tokens, pages, **more)
    device = MHATokenToKVPool(**common, head_num=heads, head_dim=64)
    return device, host_pool(device, layout, page_tokens, pages)


def content(page_hash: str, like: torch.Tensor) -> torch.Tensor:
    """The flat page of this hash, of random bytes."""
    generator = torch.Generator().manual_seed(int(page_hash[:15], 16))
    count = like.numel() * like.element_size()
    drawn = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator)
    return drawn.view(like.dtype)


def differs(pool: Any, index: int, page_hash: str) -> bool:
    page = pool.get_data_page(index, flat=True)
    return not torch.equal(page.view(torch.uint8), content(page_hash, page).view(torch.uint8))


class Cache:
    """A controller with its threads, its host pools, and the storage of its configuration."""

    def __init__(
        self,
        extra: dict[str, Any],
        *,
        kind: str = "mha",
        layout: str = "page_first",
        page_tokens: int = 64,
        dtype: str = "bfloat16",
        heads: int = 2,
        host_pages: int = HOST_PAGES,
        model: str | None = "model",
        tp: tuple[int, int] = (0, 1),
        pp: tuple[int, int] = (0, 1),
        served: dict[str, str] | None = None,
    ) -> None:
        device, self.host = pools(kind, layout, page_tokens, dtype, heads, host_pages)
        self.page_tokens = page_tokens
        ranks = {"tp_rank": tp[0], "tp_size": tp[1], "pp_rank": pp[0], "pp_size": pp[1]}
        ranks |= {"attn_dcp_size": 1, "attn_dcp_rank": 0, "attn_dp_size": 1}
        with serving(served), get_parallel().override(**ranks):
            self.controller = HiCacheController(
                _DeviceAllocator(device),
                self.host,
                page_tokens,
                None,
                threading.Event(),
                io_backend="direct",
            )
            self.controller.attach_storage_backend("dynamic", 1, model, extra)
        self.storage = self.controller.storage_backend

    def hashes(self, first: int, pages: int, salt: str | None = None) -> tuple[RadixKey, list[str]]:
        """Tokens of a document, and the hashes of its pages."""
        tokens = array("q", range(first, first + pages * self.page_tokens))
        key = RadixKey(tokens, cache_salt=salt)
        return key, get_storage_hash_str(key, None, page_size=self.page_tokens)

    def indices(self, pages: int) -> torch.Tensor:
        taken = self.host.alloc(pages * self.page_tokens)
        assert taken is not None
        return taken

    def fill(self, pool: Any, indices: torch.Tensor, names: list[str], step: int) -> None:
        for number, name in enumerate(names):
            at = int(indices[number * step])
            page = content(name, pool.get_data_page(at, flat=True))
            pool.set_from_flat_data_page(at, page)

    def store(self, first: int, pages: int, salt: str | None = None) -> int:
        """Pages of a document that the controller's backup thread has stored."""
        key, names = self.hashes(first, pages, salt)
        indices = self.indices(pages)
        self.fill(self.host, indices, names, self.page_tokens)
        self.controller.write_storage(indices, key.token_ids, names)
        done = self.controller.ack_backup_queue.get(timeout=WAIT_S)
        self.host.free(indices)
        return done.completed_tokens // self.page_tokens

    def load(self, first: int, pages: int, salt: str | None = None) -> list[int]:
        """Pages found, pages loaded, and pages loaded with other bytes than were stored."""
        key, names = self.hashes(first, pages, salt)
        found = self.controller.prefetch("request", key)
        assert self.controller.prefetch_hit_queue.get(timeout=WAIT_S) is found
        hits = found.storage_hit_count // self.page_tokens
        found.host_indices = indices = self.indices(hits)
        for number in range(hits):
            zero = torch.zeros_like(self.host.get_data_page(0, flat=True))
            self.host.set_from_flat_data_page(int(indices[number * self.page_tokens]), zero)
        self.controller.prefetch_buffer.put(found)
        loaded = 0
        while not (told := self.controller.ack_prefetch_queue.get(timeout=WAIT_S)).completed_req:
            loaded = told.completed_tokens // self.page_tokens
        at = [int(indices[number * self.page_tokens]) for number in range(loaded)]
        wrong = sum(differs(self.host, i, name) for i, name in zip(at, names, strict=False))
        self.host.free(indices)
        return [hits, loaded, wrong]

    def direct(self, first: int, pages: int, index_count: int) -> list[Any]:
        """What storage answers to calls with so many indices: set, get and exists."""
        _, names = self.hashes(first, pages)
        indices = torch.arange(index_count)
        return [
            self.storage.batch_set_v1(names, indices),
            self.storage.batch_get_v1(names, indices),
            self.storage.batch_exists(names),
        ]

    def exists(self, first: int, pages: int, gone: list[int]) -> int:
        """The leading run, when some keys are others."""
        _, names = self.hashes(first, pages)
        return self.storage.batch_exists(
            [name[::-1] if number in gone else name for number, name in enumerate(names)]
        )

    def sample(self, first: int, page: int) -> str:
        """The first bytes of a page, in hexadecimal."""
        _, names = self.hashes(first, page + 1)
        flat = content(names[page], self.host.get_data_page(0, flat=True))
        return flat.view(torch.uint8)[:64].numpy().tobytes().hex()

    def add_pools(self) -> None:
        """Host pools of a sliding window and of a draft model, beside that of KV."""
        self.side = {}
        for name in (PoolName.SWA, PoolName.DRAFT):
            _, pool = pools("mha", self.host.layout, self.page_tokens, "bfloat16", 1)
            self.side[name] = pool
            self.storage.register_mem_host_pool_v2(pool, name)
        self.storage.register_mem_host_pool_v2(self.host, PoolName.KV)
        self.storage.on_host_pools_registered()

    def transfers(self, names: list[str], wanted: dict[str, list[int]], policy: dict) -> list:
        """Pages, by their numbers in a document, of each pool."""
        policies = {name: PoolHitPolicy(value) for name, value in policy.items()}
        return [
            PoolTransfer(
                name=PoolName(name),
                keys=[names[number] for number in numbers],
                host_indices=torch.arange(len(numbers) * self.page_tokens),
                hit_policy=policies.get(name, PoolHitPolicy.ALL_PAGES),
            )
            for name, numbers in wanted.items()
        ]

    def v2(
        self, first: int, pages: int, what: str, wanted: dict, policy: dict | None = None
    ) -> Any:
        """batch_set_v2, batch_get_v2 (with the number of wrong pages) or batch_exists_v2."""
        _, names = self.hashes(first, pages)
        moved = self.transfers(names, wanted, policy or {})
        all_pools = {PoolName.KV: self.host} | self.side
        if what == "exists":
            found = self.storage.batch_exists_v2(names, moved)
            hits = {str(name): count for name, count in found.extra_pool_hit_pages.items()}
            return [found.kv_hit_pages, hits, found.restorable_prefix_pages]
        if what == "set":
            for each in moved:
                self.fill(all_pools[each.name], each.host_indices, each.keys, self.page_tokens)
            stored = self.storage.batch_set_v2(moved)
            return {str(name): flags for name, flags in stored.items()}
        loaded = self.storage.batch_get_v2(moved)
        wrong = sum(
            differs(all_pools[each.name], number * self.page_tokens, name)
            for each in moved
            for number, name in enumerate(each.keys)
            if loaded[each.name][number]
        )
        return [{str(name): flags for name, flags in loaded.items()}, wrong]

    def clear(self) -> bool:
        """What storage says of it."""
        return self.storage.clear()

    def close(self) -> None:
        """As the engine detaches storage."""
        self.controller.detach_storage_backend()


def parse(words: list[str]) -> dict[str, Any]:
    """What SGLang's server is told by the words of its command."""
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    told = vars(parser.parse_args(words))
    return {name: value for name, value in told.items() if isinstance(value, str | int)}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    caches: dict[str, Cache] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        do, name = asked.pop("do"), asked.pop("name", "")
        try:
            if do == "parse":
                answer: Any = parse(**asked)
            elif do == "open":
                caches[name] = Cache(**asked)
                answer = None
            else:
                answer = getattr(caches[name], do)(**asked)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}; {error.__cause__!r}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
