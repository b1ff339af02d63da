"""What depends on the version of SGLang, 0.5.23, and nothing else."""

from typing import Any

import sglang
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage,
    HiCacheStorageConfig,
    HiCacheStorageExtraInfo,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
    PoolTransferResult,
)
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.runtime_context import get_device, get_lora, get_model, get_spec

from nearkv.store.model_identity import model_identity
from nearkv.versions import check_version

__all__ = [
    "HiCacheStorage",
    "HiCacheStorageConfig",
    "HiCacheStorageExtraInfo",
    "PoolHitPolicy",
    "PoolName",
    "PoolTransfer",
    "PoolTransferResult",
    "buffers_of",
    "is_rank_sharded",
    "model_settings",
    "page_tokens_of",
]

check_version(sglang, "0.5.23", "nearkv.sglang")


def is_rank_sharded(name: str, pool: Any, config: HiCacheStorageConfig) -> bool:
    """Whether each tensor-parallel rank has pages of its own, of which others know nothing."""
    replicated = config.is_mla_model and not isinstance(pool, MHATokenToKVPoolHost)
    return name == PoolName.MAMBA or not replicated


def model_settings(version: str) -> dict[str, Any]:
    """What model_identity() is to know of the server's models; nothing where there is no server.

    With those of its adapters that hashes of pages know by name and path alone.
    """
    try:
        told, draft, adapters = get_model(), get_spec(), get_lora().lora_paths or []
    except ValueError:
        return {}
    others = [draft.speculative_draft_model_path]
    others += [getattr(one, "lora_path", one) for one in adapters]
    return {
        "name": told.model_path,
        "revision": told.revision,
        "overrides": told.json_model_override_args,
        "quantization": told.quantization,
        "dtype": told.dtype,
        "weights": f"random {get_device().random_seed}" if told.load_format == "dummy" else "",
        "others": [(path, model_identity(path, version)) for path in others if path],
    }


def page_tokens_of(pool: Any) -> int:
    """How many host indices make a page."""
    return getattr(pool, "logical_page_size", None) or pool.page_size


def buffers_of(pool: Any) -> list[Any]:
    """The tensors in which all pages of a host pool lie; none if it holds no bytes."""
    if hasattr(pool, "get_hybrid_pool_buffer"):
        buffers = pool.get_hybrid_pool_buffer()
    else:
        buffers = pool.kv_buffer if isinstance(pool.kv_buffer, list) else [pool.kv_buffer]
    return [buffer for buffer in buffers if buffer is not None and buffer.numel()]
