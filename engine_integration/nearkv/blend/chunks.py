"""K and V of chunks in an object store, found by the chunks' tokens alone."""

import hashlib
import logging
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from nearkv.blend.model import BlendModel
from nearkv.core import Error
from nearkv.store import MAX_OBJECT_BYTES, Job, Namespace, ObjectStore

_logger = logging.getLogger(__name__)

KV = tuple[torch.Tensor, torch.Tensor]
"""K and V [1, heads, tokens, head_dim] of one layer."""


class TextChunkStore:
    """Chunks of one model. Each layer of a chunk is an object: K of all heads, then V.

    Chunks of other models, dtypes, rotations or salts are never found. A store that does not answer
    has nothing and takes nothing, which is logged once.
    """

    def __init__(self, store: ObjectStore, model: BlendModel, tenant: int, salt: bytes) -> None:
        dtype = str(model.dtype).removeprefix("torch.")
        layout = f"chunk-LKVHTD rope-{model.rope}"
        self._space: Namespace = store.namespace(
            model.identity, dtype, layout, tenant=tenant, salt=salt
        )
        self._layers = len(model.layers)
        self._token_bytes = 2 * model.kv_heads * model.head_dim * model.dtype.itemsize
        self._said = ""

    @property
    def most_tokens(self) -> int:
        """Of a chunk."""
        return MAX_OBJECT_BYTES // self._token_bytes

    def names(self, tokens: Sequence[int]) -> list[bytes]:
        """Keys of a chunk's layers."""
        content = hashlib.sha256(np.asarray(tokens, "<i4").tobytes()).digest()
        return [content + layer.to_bytes(2, "little") for layer in range(self._layers)]

    def held(self, chunks: Sequence[list[bytes]]) -> list[bool]:
        """Of which chunks, by their names, all layers are there."""
        try:
            there = self._space.present([name for names in chunks for name in names])
        except Error as error:
            self._tell(str(error))
            return [False] * len(chunks)
        rows = zip(*[iter(there)] * self._layers, strict=True)
        return [all(row) for row in rows]

    def save(self, names: list[bytes], layers: Sequence[KV]) -> bool:
        """Stores a chunk; whether all of it is there now."""
        pieces = [_pieces(layer, slice(None)) for layer in layers]
        try:
            result = self._space.set(names, pieces, overwrite=True)
        except Error as error:
            self._tell(str(error))
            return False
        if not result.all_ok:
            self._tell(f"a chunk was not stored: {result.statuses[result.leading].name}")
        return result.all_ok

    def load(
        self, chunks: Sequence[list[bytes]], places: Sequence[slice], targets: Sequence[KV]
    ) -> Iterator[list[bool]]:
        """Layer by layer: copies chunks to their places in K and V of all tokens.

        While the caller uses a layer the next one is being read. Gives which chunks came whole.
        """
        jobs: deque[Job | None] = deque()
        try:
            for layer in range(self._layers):
                for ahead in range(layer + len(jobs), min(layer + 2, self._layers)):
                    jobs.append(self._submit(ahead, chunks, places, targets[ahead]))
                job = jobs.popleft()
                yield self._whole(job, places) if job else [False] * len(chunks)
        finally:
            for job in filter(None, jobs):
                job.cancel()
                job.wait()

    def _submit(
        self, layer: int, chunks: Sequence[list[bytes]], places: Sequence[slice], target: KV
    ) -> Job | None:
        if not chunks:
            return None
        pieces = [_pieces(target, place) for place in places]
        try:
            return self._space.submit_get([names[layer] for names in chunks], pieces)
        except Error as error:
            self._tell(str(error))
            return None

    def _whole(self, job: Job, places: Sequence[slice]) -> list[bool]:
        result = job.wait()
        sizes = [(place.stop - place.start) * self._token_bytes for place in places]
        came = zip(result.bitmap, result.object_bytes, sizes, strict=True)
        return [ok and got == size for ok, got, size in came]

    def _tell(self, what: str) -> None:
        if what != self._said:
            _logger.warning("NearKV chunks: %s", what)
        self._said = what


def _pieces(layer: KV, place: slice) -> list[torch.Tensor]:
    """Rows of each head, K first, as memory of the host: parts of `layer` if that is there."""
    return [rows[place].cpu().contiguous() for tensor in layer for rows in tensor[0]]
