"""The two halves of TensorRT-LLM's KV cache connector: what to move, and moving it."""

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Sequence
from typing import Any

import torch
from tensorrt_llm._torch.pyexecutor.kv_cache_connector import (
    KvCacheConnectorScheduler,
    KvCacheConnectorWorker,
    SchedulerOutput,
)

from nearkv.core import Error
from nearkv.store import Namespace
from nearkv.store.model_identity import model_identity
from nearkv.store.settings import StoreSettings

logger = logging.getLogger(__name__)

SETTINGS = "NEARKV_TENSORRT_LLM"
"""The variable with the settings as JSON: TensorRT-LLM hands none to a connector."""


@dataclasses.dataclass
class ConnectorSettings(StoreSettings):
    """What the variable may say."""

    model: str = ""
    """Keeps models apart, with the checkpoint's folder where it is empty."""

    @classmethod
    def of_environment(cls, llm_args: Any) -> "ConnectorSettings":
        """ValueError names what is wrong, and what may be meant."""
        settings = cls.parse(SETTINGS, json.loads(os.environ.get(SETTINGS, "{}")))
        if settings.uri:
            raise ValueError(f"{SETTINGS}: scheduler and workers share a daemon: give its socket")
        if llm_args.tensor_parallel_size * llm_args.pipeline_parallel_size > 1:
            raise ValueError(
                "NearKV's connector for TensorRT-LLM is for one rank: it cannot tell that another "
                "rank's block is damaged before it has promised it"
            )
        settings.model = settings.model or str(llm_args.model)
        return settings


@dataclasses.dataclass
class BlockMoves:
    """Of one step: keys of blocks, and where in the cache they are."""

    loads: list[tuple[bytes, int]] = dataclasses.field(default_factory=list)
    saves: list[tuple[list[bytes], list[int], bytes]] = dataclasses.field(default_factory=list)
    """Of each request, with the key of the block before."""


@dataclasses.dataclass
class _Request:
    """Keys of its whole blocks of the prompt, and what is under way."""

    keys: list[bytes]
    blocks: list[int] = dataclasses.field(default_factory=list)
    first_load: int = 0
    end_of_loads: int = 0
    saved: int = 0


def keys_of(tokens: Sequence[int], block_tokens: int, salt: str = "") -> list[bytes]:
    """Of each whole block, a digest of its tokens and all before them."""
    before = hashlib.sha256(salt.encode()).digest()
    keys = []
    for first in range(0, len(tokens) - block_tokens + 1, block_tokens):
        block = b"".join(token.to_bytes(8, "big") for token in tokens[first : first + block_tokens])
        before = hashlib.sha256(before + block).digest()
        keys.append(before)
    return keys


def _open_space(settings: ConnectorSettings, llm_args: Any) -> tuple[Any, Namespace]:
    store = settings.open()
    model = model_identity(str(llm_args.model), settings.model_version)
    layout = f"tensorrt-llm-{llm_args.kv_cache_config.tokens_per_block}-{model}"
    dtype = f"{llm_args.dtype}-{llm_args.kv_cache_config.dtype}"
    space = store.namespace(
        settings.model, dtype, layout, tenant=settings.tenant, salt=settings.salt.encode()
    )
    return store, space


class NearKVConnectorScheduler(KvCacheConnectorScheduler):
    """Which blocks are loaded and saved.

    The interface has no word for a load that fails, so blocks are promised once they were read,
    and verified, and are leased until the next step has loaded them.
    """

    def __init__(self, llm_args: Any) -> None:
        """ValueError or nearkv.core.Error say why there can be none."""
        super().__init__(llm_args)
        self._settings = ConnectorSettings.of_environment(llm_args)
        self._store, self._space = _open_space(self._settings, llm_args)
        self._block_tokens = llm_args.kv_cache_config.tokens_per_block
        self._requests: dict[int, _Request] = {}

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Tokens of verified blocks after those that are computed; the last token is left."""
        tokens = request.get_tokens(0)
        asked = _Request(keys_of(tokens, self._block_tokens, str(request.cache_salt_id or "")))
        self._requests[request.request_id] = asked
        first, partial = divmod(num_computed_tokens, self._block_tokens)
        asked.first_load = asked.end_of_loads = asked.saved = first
        if partial:
            return 0, False
        wanted = asked.keys[first : (len(tokens) - 1) // self._block_tokens]
        try:
            self._space.pin(wanted)
            found = self._space.get(wanted).leading if wanted else 0
        except Error as error:
            logger.warning("NearKV: %s", error)
            found = 0
        asked.end_of_loads = asked.saved = first + found
        return found * self._block_tokens, False

    def update_state_after_alloc(self, request: Any, block_ids: list[int]) -> None:
        """Where the request's blocks are."""
        if asked := self._requests.get(request.request_id):
            asked.blocks = list(block_ids)

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> BlockMoves:
        """What the worker moves in this step: promised blocks in, computed ones out."""
        moves = BlockMoves()
        for data in [*scheduler_output.new_requests, *scheduler_output.cached_requests]:
            asked = self._requests.get(data.request_id)
            if asked is None:
                continue
            if data in scheduler_output.new_requests:
                asked.blocks = list(data.new_block_ids)
            else:
                asked.blocks += data.new_block_ids
            loads = range(asked.first_load, asked.end_of_loads)
            moves.loads += [(asked.keys[number], asked.blocks[number]) for number in loads]
            asked.first_load = asked.end_of_loads
            # Valid before this step: a block is saved in the step after the one that filled it.
            end = data.computed_position // self._block_tokens
            saves = slice(asked.saved, min(end, len(asked.keys), len(asked.blocks)))
            if saves.start < saves.stop:
                parent = asked.keys[saves.start - 1] if saves.start else b""
                moves.saves.append((asked.keys[saves], asked.blocks[saves], parent))
            asked.saved = max(asked.saved, end)
        return moves

    def request_finished(self, request: Any, cache_block_ids: list[int]) -> bool:
        """False: all is saved by then."""
        self._requests.pop(request.request_id, None)
        return False


class NearKVConnectorWorker(KvCacheConnectorWorker):
    """Moves whole blocks, before and after a forward pass, by way of host memory."""

    def __init__(self, llm_args: Any) -> None:
        """As NearKVConnectorScheduler."""
        super().__init__(llm_args)
        settings = ConnectorSettings.of_environment(llm_args)
        self._store, self._space = _open_space(settings, llm_args)
        self._cache: torch.Tensor | None = None

    def register_kv_caches(self, kv_cache_tensor: torch.Tensor) -> None:
        """The cache, of blocks first."""
        self._cache = kv_cache_tensor

    def start_load_kv(self, stream: Any) -> None:
        """Loads what was promised. RuntimeError ends the engine before it computes wrong."""
        loads = self._metadata.loads
        if not loads or self._cache is None:
            return
        host = [torch.empty_like(self._cache[block], device="cpu") for _, block in loads]
        result = self._space.get([key for key, _ in loads], [_bytes_of(block) for block in host])
        sizes = {block.nbytes for block in host}
        if not result.all_ok or set(result.object_bytes) != sizes:
            raise RuntimeError(
                "NearKV: a block that was verified a step ago does not come; TensorRT-LLM has no "
                "way to compute it again: start it again"
            )
        for (_, block), source in zip(loads, host, strict=True):
            self._cache[block].copy_(source)

    def wait_for_layer_load(self, layer_idx: int, stream: Any) -> None:
        """All layers were loaded."""

    def save_kv_layer(self, layer_idx: int, stream: Any) -> None:
        """Blocks are saved whole."""

    def wait_for_save(self, stream: Any) -> None:
        """Stores what the step has computed; what is not stored is computed again some day."""
        saves = self._metadata.saves
        if not saves or self._cache is None:
            return
        stream.synchronize()
        for keys, blocks, parent in saves:
            host = [_bytes_of(self._cache[block].cpu().contiguous()) for block in blocks]
            try:
                result = self._space.set(keys, host, chain=True, parent=parent)
            except Error as error:
                logger.warning("NearKV: %s", error)
                return
            if not result.all_ok:
                logger.warning("NearKV: %d of %d blocks stored", sum(result.bitmap), len(keys))

    def get_finished(
        self, finished_gen_req_ids: list[int], started_loading_req_ids: list[int]
    ) -> tuple[list[int], list[int]]:
        """Nothing is under way between steps."""
        return [], []


def _bytes_of(block: torch.Tensor) -> torch.Tensor:
    return block.view(-1).view(torch.uint8)
