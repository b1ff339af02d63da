"""Prompts of known chunks, in any order, without computing all of them again."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache

from nearkv.blend.chunks import KV, TextChunkStore
from nearkv.blend.in_place import InPlace
from nearkv.blend.layers import BlendLayer
from nearkv.blend.model import BlendModel
from nearkv.blend.selection import Rule, choose_before
from nearkv.store import ObjectStore


@dataclass(frozen=True)
class Blend:
    """A prompt's K and V, and what it took.

    `cache` is for model.generate(torch.cat([tokens, question], 1), past_key_values=cache);
    NearKVCache.take() moves it to a pool.
    """

    tokens: torch.Tensor
    """[1, tokens] of all chunks."""
    cache: DynamicCache
    found_chunks: int
    """Whose K and V the store held; the others' were computed."""
    computed_tokens: tuple[int, ...]
    """Of each layer: tokens that were computed in their place."""


class ChunkBlender:
    """Prefills prompts made of chunks whose K and V a store holds (CacheBlend, EuroSys '25).

    Each chunk is computed once, apart, and stored under its tokens. A prompt loads its chunks'
    K and V layer by layer, rotates keys to their new positions, and computes a share of the tokens
    again, which then see what stands before their chunk. What comes out depends on the chunks, not
    on which of them were stored. Not thread-safe, nor beside other calls of the model.
    """

    def __init__(
        self, model: PreTrainedModel, store: ObjectStore, *, tenant: int = 0, salt: bytes = b""
    ) -> None:
        """UnsuitableModel, a ValueError, says what of the model is in the way."""
        self._model = BlendModel(model)
        self._chunks = TextChunkStore(store, self._model, tenant, salt)

    def add(self, chunk: Sequence[int]) -> bool:
        """Computes and stores a chunk, if it is not stored; whether it is now."""
        tokens = self._checked(chunk)
        names = self._chunks.names(tokens.tolist())
        held = self._chunks.held([names])[0]
        return held or self._chunks.save(names, self._model.compute(tokens))

    @torch.no_grad()
    def blend(
        self,
        chunks: Sequence[Sequence[int]],
        *,
        ratio: float = 0.15,
        rule: Rule = Rule.DEVIATION,
        seed: int = 0,
    ) -> Blend:
        """K and V of the chunks, one after the other.

        `ratio`: the share of the tokens behind the first chunk that is computed in its place, as a
        mean over the layers. 0: none, K and V stand together as they are; 1: all, as behind a
        known prefix. The first chunk is a prefix, and right as it is. Rule.DEVIATION computes all
        tokens in the first layer to find out, and counts from the second on. `seed`: of RANDOM.
        ValueError for chunks that are empty, too long, or no tokens of the model.
        """
        if not 0 <= ratio <= 1:
            raise ValueError(f"ratio is {ratio}; it is a share of tokens, from 0 to 1")
        if not chunks:
            raise ValueError("there are no chunks to blend")
        self._model.check_attention()
        parts = [self._checked(chunk) for chunk in chunks]
        tokens = torch.cat(parts)[None]
        shape = (1, self._model.kv_heads, tokens.shape[1], self._model.head_dim)
        blank = partial(torch.empty, shape, dtype=self._model.dtype, device=self._model.device)
        cache = DynamicCache()
        cache.layers = [BlendLayer(blank(), blank(), len(parts[0])) for _ in self._model.layers]
        # What is computed anyway is not loaded.
        reused = _Reused(self._model, self._chunks, parts[:1] if ratio == 1 else parts)
        rows = _rows(rule, ratio, [len(part) for part in parts], seed).to(tokens.device)
        computed = [0] * len(cache.layers)
        with closing(reused.fill(cache)) as ready:
            if len(rows):
                narrow_to = ratio if rule is Rule.DEVIATION and ratio < 1 else None
                work = InPlace(self._model, cache, rows, ready, narrow_to)
                work.run(tokens)
                computed = work.computed
            for _ in ready:
                pass
        return Blend(tokens, cache, reused.found, tuple(computed))

    def _checked(self, chunk: Sequence[int]) -> torch.Tensor:
        tokens = torch.as_tensor(chunk, dtype=torch.long, device=self._model.device)
        if tokens.dim() != 1 or not 0 < len(tokens) <= self._chunks.most_tokens:
            raise ValueError(
                f"a chunk is a list of 1 to {self._chunks.most_tokens} tokens, not of shape "
                f"{list(tokens.shape)}; split what is longer"
            )
        if int(tokens.min()) < 0 or int(tokens.max()) >= self._model.vocabulary:
            raise ValueError(f"tokens of {self._model.name} are 0 to {self._model.vocabulary - 1}")
        return tokens


class _Reused:
    """Chunks of one prompt, and where their K and V come from."""

    def __init__(
        self, model: BlendModel, store: TextChunkStore, chunks: Sequence[torch.Tensor]
    ) -> None:
        self._model = model
        self._store = store
        self._chunks = chunks
        self._names = [store.names(chunk.tolist()) for chunk in chunks]
        ends = list(accumulate(len(chunk) for chunk in chunks))
        self._places = [
            slice(end - len(chunk), end) for chunk, end in zip(chunks, ends, strict=True)
        ]
        held = store.held(self._names)
        self._loaded = [number for number, is_held in enumerate(held) if is_held]
        self.found = len(self._loaded)
        self._apart: dict[int, list[KV]] = {}
        for number, is_held in enumerate(held):
            if not is_held:
                self._compute(number)

    def fill(self, cache: DynamicCache) -> Iterator[None]:
        """Layer by layer: puts K and V into a cache, keys rotated to their places."""
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        # A store copies to host memory.
        hosts = [tuple(map(_in_host_memory, layer)) for layer in layers]
        names = [self._names[chunk] for chunk in self._loaded]
        places = [self._places[chunk] for chunk in self._loaded]
        for number, came in enumerate(self._store.load(names, places, hosts)):
            for chunk, is_whole in zip(self._loaded, came, strict=True):
                if not is_whole and chunk not in self._apart:
                    self.found -= 1
                    self._compute(chunk)
            for tensor, host in zip(layers[number], hosts[number], strict=True):
                if tensor is not host:
                    tensor.copy_(host)
            keys, values = layers[number]
            for chunk, computed in self._apart.items():
                keys[:, :, self._places[chunk]], values[:, :, self._places[chunk]] = computed[
                    number
                ]
            for place in self._places[1:]:
                keys[:, :, place] = self._model.move(keys[:, :, place], place.start)
            yield

    def _compute(self, chunk: int) -> None:
        self._apart[chunk] = self._model.compute(self._chunks[chunk])
        self._store.save(self._names[chunk], self._apart[chunk])


def _rows(rule: Rule, ratio: float, lengths: Sequence[int], seed: int) -> torch.Tensor:
    """Of a prompt of chunks: the tokens that enter the first layer."""
    first, *others = lengths
    if rule is Rule.DEVIATION:
        return torch.arange(first, first + sum(others) if ratio > 0 else first)
    return first + choose_before(rule, ratio, others, torch.Generator().manual_seed(seed))


def _in_host_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or room for it in host memory if it is elsewhere."""
    return tensor if tensor.device.type == "cpu" else torch.empty_like(tensor, device="cpu")
