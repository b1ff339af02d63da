"""Runs in vLLM's environment: a connector's manager, asked as vLLM's scheduler asks.

Its argument: a folder for a daemon. Its last line: what each of steps() saw.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from program import question, tell
from vllm.lora.request import LoRARequest
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.file_mapper import FileMapper

from bench.engines.serving import Daemon
from nearkv.vllm import chunk_store
from nearkv.vllm.chunk_store import ChunkStore
from nearkv.vllm.direct import DirectManager
from nearkv.vllm.options import VllmStoreSettings

GROUPS = 2
STEP = ScheduleEndContext(new_req_ids=[], preempted_req_ids=[])
REQUEST = ReqContext("request")


def steps(folder: Path) -> dict[str, Any]:
    config = SimpleNamespace(
        model=SimpleNamespace(name="model", dtype="bf16"),
        groups=[SimpleNamespace(group_id=group) for group in range(GROUPS)],
    )
    chunks = ChunkStore(
        VllmStoreSettings(uri="cpu:?memory=16MiB"), SimpleNamespace(config=config), "layout"
    )
    manager = DirectManager(chunks)
    chunk_store._KEYS_OF_A_LEASE = 2
    # Six keys of both groups in turns, of which the first four are stored.
    keys = [make_offload_key(bytes([number]) * 32, number % GROUPS) for number in range(6)]
    for part in chunks.by_group(keys[:4]):
        part.space.set(part.hashes, [keys[place] for place in part.places]).check()

    def leases() -> int:
        return chunks.store.stats().leases

    def hits() -> list[bool]:
        return [manager.lookup(key, REQUEST) == LookupResult.HIT for key in keys]

    told: dict[str, Any] = {
        "contents": all(
            bytes(part.space[bytes(one)]) == keys[place]
            for part in chunks.by_group(keys[:4])
            for one, place in zip(part.hashes, part.places, strict=True)
        ),
        "other_group": chunks.holds(make_offload_key(bytes([0]) * 32, 1)),
    }
    manager.look_ahead("request", keys)
    told["found"] = hits()
    chunks.erase(keys)
    told["kept_in_the_step"] = len(chunks.present(keys))
    manager.prepare_load(keys[:4], REQUEST)
    manager.on_schedule_end(STEP)
    chunks.erase(keys)
    told["kept_for_the_load"] = len(chunks.present(keys))
    manager.complete_load(keys[:4], REQUEST)
    told["leases_after_the_load"] = leases()

    manager.fail_load(keys[:1])
    manager.look_ahead("request", keys)
    manager.look_ahead("request", keys)
    told["found_after_a_failure"] = hits()
    manager.on_schedule_end(STEP)
    told["leases_after_a_step_without_a_load"] = leases()

    stored = manager.prepare_store(keys, REQUEST).keys_to_store
    told["to_store"] = [keys.index(key) for key in stored]
    told["to_store_at_once_again"] = len(manager.prepare_store(keys, REQUEST).keys_to_store)
    told["layouts"] = layouts()
    told["adapters"] = adapters(folder)
    told["parents"] = parents(chunks)
    told["left_after_a_reset"] = left_after_a_reset(chunks)
    told["left_by_a_daemon"] = left_by_a_daemon(folder)
    return told


def parents(chunks: ChunkStore) -> list[dict[int, int]]:
    """By group, numbers of the chunks that some of a request's follow; it has 4 in each group."""
    context = ReqContext("long")
    keys = [[make_offload_key(bytes([n]) * 32, group) for n in range(4)] for group in range(GROUPS)]
    for end in range(2):  # Two at a time, as they are computed.
        for group in keys:
            for number in (2 * end, 2 * end + 1):
                context.set_offload_key_position(group[number], 32 * (number + 1))
    some = keys[0], keys[0][2:], [*keys[0][1:], *keys[1][3:]]
    return [
        {group: parent[0] for group, parent in chunks.parents_of(asked, context).items()}
        for asked in some
    ]


def adapters(folder: Path) -> dict[str, Any]:
    """What hashes cover of an adapter, by its number, as its files change."""
    weights = folder / "adapter_model.safetensors"

    def covered(number: int, request: str, *, in_place: bool = False) -> Any:
        adapter = LoRARequest("tuned", number, str(folder), load_inplace=in_place)
        asked = SimpleNamespace(
            request_id=request,
            lora_request=adapter,
            mm_features=[],
            cache_salt=None,
            prompt_embeds=None,
        )
        return kv_cache_utils.generate_block_hash_extra_keys(asked, 0, 32, 0)

    weights.write_bytes(b"first")
    told = {"first": covered(1, "a")}
    weights.write_bytes(b"other")
    told |= {"still_loaded": covered(1, "b"), "loaded_anew": covered(2, "c")}
    told["in_place"] = covered(1, "d", in_place=True)
    weights.write_bytes(b"first")
    return told | {"put_back": covered(3, "e")}


def left_after_a_reset(chunks: ChunkStore) -> list[Any]:
    """Of two chunks, how many are there afterwards, and what is said of it."""
    keys = [make_offload_key(bytes([20 + number]) * 32, number % GROUPS) for number in range(2)]
    for part in chunks.by_group(keys):
        part.space.set(part.hashes, [bytes(100)] * len(part.keys)).check()
    try:
        DirectManager(chunks).reset_cache()
        said = ""
    except RuntimeError as error:
        said = str(error)
    return [len(chunks.present(keys)), said]


def left_by_a_daemon(folder: Path) -> list[Any]:
    """As left_after_a_reset(), of one whose engines may not list."""
    config = folder / "nearkv.toml"
    config.write_text(
        f"[[tenant]]\nnumber = 1\nname = 'engines'\nuids = [{os.geteuid()}]\n"
        "permissions = ['read', 'write', 'erase']\n"
    )
    spec = SimpleNamespace(
        config=SimpleNamespace(
            model=SimpleNamespace(name="model", dtype="bf16"),
            groups=[SimpleNamespace(group_id=group) for group in range(GROUPS)],
        )
    )
    with Daemon(folder, size="64MiB", config=config) as daemon:
        options = VllmStoreSettings.parse("test", {"socket": daemon.socket, "tenant": 1})
        return left_after_a_reset(ChunkStore(options, spec, "layout"))


def layouts() -> dict[str, list[str]]:
    """Of K and V in some dtypes, without AMX and with it; all else that a layout names is equal."""
    with (
        mock.patch.object(FileMapper, "from_offloading_spec") as mapper,
        mock.patch.object(torch.cpu, "_is_amx_tile_supported") as has_amx,
    ):
        mapper.return_value.get_run_config.return_value = {}
        told: dict[str, list[str]] = {}
        for has_amx.return_value in (False, True):
            for dtype in ("bfloat16", "float32"):
                model = SimpleNamespace(name="model", dtype=dtype)
                config = SimpleNamespace(model=model, kv_cache_layout=None, extra_config={})
                spec = SimpleNamespace(config=config, blocks_per_chunk=1)
                options = VllmStoreSettings(uri="cpu:", model_version="1")
                layout = chunk_store.layout_of(spec, options, any_ranks=False)
                told.setdefault(dtype, []).append(layout)
    return told


if __name__ == "__main__":
    tell(steps(Path(question())))
