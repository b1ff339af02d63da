"""Measures how small and how fast each codec makes KV caches, real and synthetic ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy
import torch

from bench import Context
from bench.data import KvSet, device_uri, pool_of
from bench.data.captured import captured
from bench.data.synthetic import synthetic
from bench.timing import interleave
from nearkv.core import (
    PAGE_TOKENS,
    Codec,
    Dtype,
    RowForm,
    Tensor,
    codec_supports,
    decode_block,
    encode_block,
)
from nearkv.results import Goal, Result

_LOSSLESS = (Codec.NONE, Codec.PLANES_LZ4, Codec.PLANES_ZSTD)
_BLOCKS = 64  # per set and tensor


@dataclass(frozen=True)
class _Blocks:
    """Page-sized blocks of one tensor of one kind of data."""

    data: str
    tensor: Tensor
    rows: list[numpy.ndarray]

    @property
    def name(self) -> str:
        return f"{self.data}/{'k' if self.tensor == Tensor.KEYS else 'v'}"

    @property
    def source_bytes(self) -> int:
        return sum(block.nbytes for block in self.rows)


def run(context: Context) -> Iterator[Result]:
    """Yields the size of each form and codec as a share of bf16, and its speed beside a copy."""
    context.progress("reading a document with the shipped model")
    sets = {
        "document": captured(groups=1),
        "synthetic": (synthetic(16384, 1, groups=1),),
    }
    for data, kv_sets in sets.items():
        yield from _attendable(data, kv_sets, device_uri(context.device, "256MiB"))
        for tensor in (Tensor.KEYS, Tensor.VALUES):
            blocks = _blocks(data, tensor, kv_sets)
            for codec in Codec:
                if codec_supports(codec, tensor, Dtype.BF16, blocks.rows[0].shape[1]):
                    context.progress(f"{blocks.name}: {codec.name}")
                    yield from _measure(blocks, codec, 15 if context.long else 5)


def _attendable(data: str, sets: Sequence[KvSet], uri: str) -> Iterator[Result]:
    """Whole pages as they are attended to, headers included."""
    for form in (RowForm.DELTA4, RowForm.RAW):
        page_bytes = source_bytes = 0
        for kv in sets:
            pool = pool_of(kv, uri, k_form=form, v_form=form)
            page_bytes += pool.usage().page_bytes
            source_bytes += kv.keys.nbytes + kv.values.nbytes
        yield Result(
            name=f"codec/{data}/kv/pages_{form.name.lower()}",
            value=page_bytes / source_bytes,
            unit="of bf16",
            device=uri,
        )


def _blocks(data: str, tensor: Tensor, sets: Sequence[KvSet]) -> _Blocks:
    rows = []
    for kv in sets:
        source = kv.keys if tensor == Tensor.KEYS else kv.values
        pages = source.view(-1, PAGE_TOKENS, source.shape[1]).view(torch.uint16).numpy()
        step = max(1, len(pages) * len(sets) // _BLOCKS)
        rows += [numpy.ascontiguousarray(page) for page in pages[::step]]
    return _Blocks(data, tensor, rows)


def _measure(blocks: _Blocks, codec: Codec, repeat: int) -> Iterator[Result]:
    dim = blocks.rows[0].shape[1]
    encoded = [encode_block(codec, blocks.tensor, rows) for rows in blocks.rows]
    decoded = [decode_block(codec, blocks.tensor, part, Dtype.BF16, dim) for part in encoded]
    if codec in _LOSSLESS and not all(map(numpy.array_equal, blocks.rows, decoded)):
        raise AssertionError(f"{codec.name} lost bits of {blocks.name}")
    name = f"codec/{blocks.name}/{codec.name.lower()}"
    yield Result(
        name=f"{name}/size",
        value=sum(map(len, encoded)) / blocks.source_bytes,
        unit="of bf16",
        goal=_size_goal(codec),
        device="host",
        extra={} if codec in _LOSSLESS else {"relative_error": _error(blocks.rows, decoded)},
    )
    target = numpy.empty_like(blocks.rows[0])
    encode, decode, copy = interleave(
        [
            lambda: [encode_block(codec, blocks.tensor, rows) for rows in blocks.rows],
            lambda: [decode_block(codec, blocks.tensor, part, Dtype.BF16, dim) for part in encoded],
            lambda: [numpy.copyto(target, rows) for rows in blocks.rows],
        ],
        repeat=repeat,
    )
    for what, samples in (("encode", encode), ("decode", decode)):
        yield Result.of_samples(
            f"{name}/{what}",
            samples.per_second(blocks.source_bytes / 1e9),
            "GB/s",
            peer="copy",
            beside=copy.per_second(blocks.source_bytes / 1e9),
            device="host",
        )


def _size_goal(codec: Codec) -> Goal | None:
    if codec == Codec.PLANES_ZSTD:
        return Goal("<=", 0.70)  # cold, lossless
    return None


def _error(rows: list[numpy.ndarray], decoded: list[numpy.ndarray]) -> float:
    exact, got = (
        numpy.concatenate([_floats(block).ravel() for block in blocks])
        for blocks in (rows, decoded)
    )
    return float(numpy.linalg.norm(got - exact) / numpy.linalg.norm(exact))


def _floats(bf16: numpy.ndarray) -> numpy.ndarray:
    return (bf16.astype(numpy.uint32) << 16).view(numpy.float32)
