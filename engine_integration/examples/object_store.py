"""KV blocks in an object store: set, find the longest prefix, get layer by layer after a restart.

Run it with the path of a file, in memory or on a DAX device, that the blocks shall live in.
"""

import asyncio
import hashlib
import sys

import torch

from nearkv.store import Namespace, ObjectStore

LAYERS, BLOCK_TOKENS, HEADS, HEAD_DIM = 4, 16, 2, 64


def block_keys(blocks: int) -> list[bytes]:
    """Hashes as an engine makes them: of the block's tokens and all before."""
    return [hashlib.sha256(b"prompt" * i).digest() for i in range(1, blocks + 1)]


def open_namespace(store: ObjectStore) -> Namespace:
    """Who shares blocks: all that makes their bytes what they are, and a secret of the tenant."""
    return store.namespace("llama-3-8b", "bf16", "LBHNC", tenant=1, salt=b"of tenant 1")


async def load(space: Namespace, keys: list[bytes], cache: torch.Tensor) -> int:
    """Reads the longest stored prefix into a cache [layers, blocks, ...], a layer ahead."""
    found = keys[: space.match_prefix(keys)]
    with space.pin(found, duration_s=10):
        # While the model uses a layer, the next one is being read.
        async for layer in space.layers_async(found, LAYERS, list(cache[:, : len(found)])):
            layer.check()
    return len(found)


def main(path: str) -> None:
    uri = f"cpu:{path}?memory=64MiB"
    keys = block_keys(12)
    shape = (LAYERS, 12, 2, BLOCK_TOKENS, HEADS, HEAD_DIM)
    cache = torch.randn(shape).to(torch.bfloat16)

    store = ObjectStore.create(uri)
    space = open_namespace(store)
    # One object per block: its pieces are gathered from where each layer's cache has them.
    pieces = [[cache[layer, block] for layer in range(LAYERS)] for block in range(8)]
    space.set(keys[:8], pieces, chain=True, parts=LAYERS).check()
    del store, space  # Or a crash: what was OK is in the file.

    with ObjectStore.open(uri) as store:
        loaded = torch.zeros_like(cache)
        blocks = asyncio.run(load(open_namespace(store), keys, loaded))
        equal = torch.equal(loaded[:, :blocks], cache[:, :blocks])
        print(f"{blocks} of {len(keys)} blocks found, {'equal' if equal else 'DIFFERENT'}")
        print(f"{store.stats().hits} parts read, {store.stats().recovered} objects recovered")


if __name__ == "__main__":
    main(sys.argv[1])
