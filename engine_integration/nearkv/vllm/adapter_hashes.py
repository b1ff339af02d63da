"""What vLLM's block hashes have of a LoRA adapter: its files, beside its name and path."""

import functools
from typing import Any

from vllm.v1.core import kv_cache_utils
from vllm.v1.request import Request

from nearkv.store.model_identity import model_identity


def hash_adapters_files(version: str) -> None:
    """From now on this process's hashes cover an adapter's files, or `version` if it is given.

    As the files were when the adapter got its number in the engine; those of one that is loaded in
    place are looked at for each request. To be called before requests are hashed.
    """
    plain = kv_cache_utils._gen_lora_extra_hash_keys
    plain = getattr(plain, "__wrapped__", plain)
    known: dict[tuple[int, str], tuple[str, str]] = {}

    @functools.wraps(plain)
    def with_files(request: Request) -> list[tuple[Any, ...]]:
        keys: list[tuple[Any, ...]] = plain(request)
        adapter = request.lora_request
        if adapter is None:
            return keys
        name = adapter.lora_int_id, adapter.lora_path
        asked = request.request_id if adapter.load_inplace else ""
        if name not in known or known[name][0] != asked:
            known[name] = asked, model_identity(adapter.lora_path, version)
        return [*keys, ("lora_files", known[name][1])]

    kv_cache_utils._gen_lora_extra_hash_keys = with_files
