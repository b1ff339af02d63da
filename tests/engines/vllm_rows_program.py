"""Runs in vLLM's environment: rows that vLLM's kernels cached for the CPU, as NearKV reads them.

Its argument: [{"dtype", "isa", "block_tokens", "head_dim"}, ..]. Its last line: for each, whether
all K and V come back, and samples are of the keys; or {"error"}.
"""

import torch
from program import each, question, tell
from vllm import _custom_ops as ops

from nearkv.vllm.kv_rows import packed_rows

BLOCKS, KV_HEADS, PADDING = 5, 3, 7


def is_read_back(dtype: str, isa: str, block_tokens: int, head_dim: int) -> bool:
    torch.manual_seed(1)
    tokens = BLOCKS * block_tokens
    keys, values = torch.randn(2, tokens, KV_HEADS, head_dim).to(getattr(torch, dtype))
    slots = torch.randperm(tokens)
    # Layers of other kinds may have longer pages, which pad these.
    pages = torch.zeros(BLOCKS, KV_HEADS * 2 * block_tokens * head_dim + PADDING, dtype=keys.dtype)
    cache = pages[:, :-PADDING].unflatten(1, (KV_HEADS, block_tokens, 2 * head_dim))
    halves = cache.view(BLOCKS, KV_HEADS, 2 * block_tokens, head_dim).chunk(2, dim=2)
    ops.cpu_attn_reshape_and_cache(keys, values, *halves, slots, isa, 1.0, 1.0, "auto")
    reader = packed_rows(cache.dtype, block_tokens, head_dim, isa)
    read = reader.read(cache, reader.places(cache, slots))
    channels = (slots * 7 % head_dim)[:, None]
    sampled = keys[:, 0].gather(1, channels).flatten().view(torch.uint8)
    samples = (
        torch.from_numpy(reader.sample(cache, reader.sampled(cache, slots)))
        .flatten()
        .view(torch.uint8)
    )
    return all(map(torch.equal, (*read, samples), (keys, values, sampled)))


if __name__ == "__main__":
    tell(each(question(), lambda layout: is_read_back(**layout)))
