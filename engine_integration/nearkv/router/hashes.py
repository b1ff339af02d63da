"""How engines hash blocks: a router finds a prompt's blocks only if it hashes as they do.

Engines chain: the hash of a block covers the block before it, so that it stands for the whole
prefix. Routers know a block by 64 bits of that hash.
"""

import functools
import hashlib
import pickle
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from nearkv.kv_events.wire import HASHES, BlockHash, number_of


class HashScheme(Protocol):
    """How one kind of engine hashes. Thread safety: every call from any thread."""

    name: str

    def digests(
        self, tokens: Sequence[int], block_tokens: int, parent: bytes | None = None, salt: str = ""
    ) -> list[bytes]:
        """The hashes of whole blocks, in full; a rest of tokens is left out.

        `parent` is the hash of the block before; `salt` is the request's cache_salt.
        """

    def number(self, digest: bytes) -> int:
        """The 64 bits by which routers know a block."""


def block_hashes(
    scheme: HashScheme, tokens: Sequence[int], block_tokens: int, salt: str = ""
) -> np.ndarray:
    """A prompt's blocks as a router wants them: uint64, head first."""
    digests = scheme.digests(tokens, block_tokens, salt=salt)
    return np.array([scheme.number(digest) for digest in digests], dtype=np.uint64)


class VllmHashes:
    """vLLM's --prefix-caching-hash-algo: sha256, sha256_cbor, xxhash or xxhash_cbor, as in 0.32.

    `seed` is the engines' PYTHONHASHSEED. Without it vLLM has a fixed one for SHA-256, and for
    xxhash another one in every process: those need the variable. Adapters, images and embeddings
    are not hashed here.
    """

    _FIXED_SEED = "vllm-none-hash"

    def __init__(self, algorithm: str = "sha256", seed: str = "") -> None:
        """ValueError for an algorithm that is none, or xxhash without a seed.

        ImportError where a package is missing.
        """
        if algorithm not in _VLLM_HASHES:
            raise ValueError(f"vLLM has no hash {algorithm}; it has {', '.join(_VLLM_HASHES)}")
        if algorithm.startswith("xxhash") and not seed:
            raise ValueError(
                f"vLLM begins {algorithm} with other bytes in every process: "
                "start all engines with one PYTHONHASHSEED and give it here as the seed"
            )
        self.name = f"vllm-{algorithm}"
        self._hash = _VLLM_HASHES[algorithm]()
        self._root = self._hash(seed or self._FIXED_SEED)

    def digests(
        self, tokens: Sequence[int], block_tokens: int, parent: bytes | None = None, salt: str = ""
    ) -> list[bytes]:
        """See HashScheme."""
        found = []
        before = parent or self._root
        extra = (("cache_salt", salt),) if salt and parent is None else None
        for block in in_blocks(tokens, block_tokens):
            before = self._hash((before, tuple(block), extra))
            found.append(before)
            extra = None
        return found

    def number(self, digest: bytes) -> int:
        """See HashScheme: the last 8 bytes, as VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES has them."""
        return HASHES["vllm"](digest)


_SGLANG_SALT = b"sglang-cache-salt-v1\0"


class SglangHashes:
    """SGLang's: SHA-256 over the hash before and the tokens, 32 bits each, as in 0.5.23.

    Its kv-events-config's format is "default". Adapters are not hashed here.
    """

    name = "sglang"

    def digests(
        self, tokens: Sequence[int], block_tokens: int, parent: bytes | None = None, salt: str = ""
    ) -> list[bytes]:
        """See HashScheme. ValueError for what is no token."""
        found = []
        before = parent or (hashlib.sha256(_SGLANG_SALT + salt.encode()).digest() if salt else b"")
        for block in in_blocks(tokens, block_tokens):
            try:
                words = array("I", block).tobytes()
            except OverflowError as error:
                raise ValueError(f"a token is a number from 0 to 2**32 - 1: {error}") from error
            before = hashlib.sha256(before + words).digest()
            found.append(before)
        return found

    def number(self, digest: bytes) -> int:
        """See HashScheme: the first 8 bytes."""
        return number_of(HASHES["sglang"](digest))


def scheme_of(name: str, seed: str = "") -> HashScheme:
    """A scheme by its name: sglang, or vllm-ALGORITHM. ValueError for another."""
    if name == SglangHashes.name:
        return SglangHashes()
    engine, _, algorithm = name.partition("-")
    if engine != "vllm":
        schemes = ", ".join(["sglang", *(f"vllm-{algorithm}" for algorithm in _VLLM_HASHES)])
        raise ValueError(f"there is no hash scheme {name}; there are {schemes}")
    return VllmHashes(algorithm, seed)


def agree(scheme: HashScheme, digests: Sequence[bytes], told: Sequence[BlockHash]) -> bool:
    """Whether an engine's blocks have these hashes, as far as both go."""
    for digest, block in zip(digests, told, strict=False):
        is_whole = isinstance(block, bytes) and len(block) > 8
        own = digest if is_whole else scheme.number(digest)
        if own != (block if is_whole else number_of(block)):
            return False
    return True


def in_blocks(tokens: Sequence[int], block_tokens: int) -> Sequence[Sequence[int]]:
    """The tokens of whole blocks; a rest is left out."""
    whole = len(tokens) // block_tokens * block_tokens
    return [tokens[first : first + block_tokens] for first in range(0, whole, block_tokens)]


def _pickled(data: Any) -> bytes:
    return pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL)


def _cbor() -> Callable[[Any], bytes]:
    import cbor2

    return functools.partial(cbor2.dumps, canonical=True)


def _sha256(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda data: hashlib.sha256(encode(data)).digest()


def _xxh3(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    import xxhash

    return lambda data: xxhash.xxh3_128_digest(encode(data))


_VLLM_HASHES: dict[str, Callable[[], Callable[[Any], bytes]]] = {
    "sha256": lambda: _sha256(_pickled),
    "sha256_cbor": lambda: _sha256(_cbor()),
    "xxhash": lambda: _xxh3(_pickled),
    "xxhash_cbor": lambda: _xxh3(_cbor()),
}
