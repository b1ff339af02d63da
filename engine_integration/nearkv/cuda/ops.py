"""Operators of torch.library, which torch.compile sees as they are: nearkv::attend_window, ...

Each works on the current stream.
"""

from collections.abc import Sequence

import _nearkv
import torch

from nearkv.core import Status
from nearkv.cuda import structures
from nearkv.cuda.library import DTYPES, gpu_of


@torch.library.custom_op("nearkv::attend_window", mutates_args=())
def attend_window(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    soft_cap: float = 0.0,
    first: torch.Tensor | None = None,
    end: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, LSE) of one query a row over keys and values that are here, in fp32.

    query [batch, kv_heads, group, head_dim], key and value [batch, kv_heads, tokens, dim], in bf16,
    fp16 or fp32, rows at multiples of 16 bytes. Row b of the batch sees the tokens from first[b] up
    to end[b], int32; by default all. O [batch, kv_heads, group, value_dim] and LSE without the last
    axis; a row that sees nothing has an O of 0 and an LSE of -inf. Raises Error.
    """
    gpu = gpu_of(query.device)
    batch, kv_heads, group, head_dim = query.shape
    tokens, value_dim = value.shape[2:]
    if key.shape != (batch, kv_heads, tokens, head_dim) or value.shape[:2] != key.shape[:2]:
        _refuse("query, key and value are of different shapes")
    if not query.dtype == key.dtype == value.dtype or query.dtype not in DTYPES:
        _refuse("query, key and value are of one type: bf16, fp16 or fp32")
    splits = gpu.splits(batch * kv_heads, tokens)
    rows = batch * kv_heads * group
    output = query.new_empty(splits, rows, value_dim, dtype=torch.float32)
    lse = query.new_empty(splits, rows, dtype=torch.float32)
    work = structures.Attend(
        query=query.data_ptr(),
        key=key.data_ptr(),
        value=value.data_ptr(),
        first=_limits(first, batch, "first"),
        end=_limits(end, batch, "end"),
        output=output.data_ptr(),
        lse=lse.data_ptr(),
        query_strides=_strides(query, "query"),
        key_strides=_strides(key, "key"),
        value_strides=_strides(value, "value"),
        batch=batch,
        kv_heads=kv_heads,
        group=group,
        tokens=tokens,
        head_dim=head_dim,
        value_dim=value_dim,
        splits=splits,
        scale=scale,
        soft_cap=soft_cap,
        dtype=DTYPES[query.dtype],
    )
    gpu.call("attend", work, gpu.stream())
    merged = (output[0], lse[0]) if splits == 1 else merge_parts([output], [lse])
    return merged[0].view(*query.shape[:3], value_dim), merged[1].view(query.shape[:3])


@attend_window.register_fake
def _(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    soft_cap: float = 0.0,
    first: torch.Tensor | None = None,
    end: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = query.shape[:3]
    return (
        query.new_empty(*rows, value.shape[-1], dtype=torch.float32),
        query.new_empty(rows, dtype=torch.float32),
    )


@torch.library.custom_op("nearkv::merge_parts", mutates_args=())
def merge_parts(
    outputs: Sequence[torch.Tensor], lses: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, LSE) of the whole, to the same bits in whichever order its parts come.

    One to four pairs of fp32 tensors [parts, rows, dim] and [parts, rows], contiguous, or of one
    part each without that axis. Raises Error.
    """
    if not 1 <= len(outputs) <= structures.MERGE_SOURCES or len(outputs) != len(lses):
        _refuse(f"there are one to {structures.MERGE_SOURCES} pairs of outputs and LSEs to merge")
    gpu = gpu_of(outputs[0].device)
    sources = [_parts(*pair) for pair in zip(outputs, lses, strict=True)]
    rows, dim = outputs[0].shape[-2:]
    if any(output.shape[-2:] != (rows, dim) for output in outputs):
        _refuse("parts to merge are of the same rows")
    output = outputs[0].new_empty(rows, dim)
    lse = outputs[0].new_empty(rows)
    work = structures.Merge(
        source=(structures.Parts * structures.MERGE_SOURCES)(*sources),
        output=output.data_ptr(),
        lse=lse.data_ptr(),
        rows=rows,
        value_dim=dim,
        sources=len(sources),
    )
    gpu.call("merge", work, gpu.stream())
    return output, lse


@merge_parts.register_fake
def _(
    outputs: Sequence[torch.Tensor], lses: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = outputs[0].shape[-2:]
    return outputs[0].new_empty(shape), outputs[0].new_empty(shape[:1])


def _refuse(why: str) -> None:
    _nearkv.check(Status.BAD_ARGUMENT, why)


def _limits(limits: torch.Tensor | None, batch: int, name: str) -> int | None:
    if limits is None:
        return None
    if limits.dtype != torch.int32 or limits.shape != (batch,) or not limits.is_contiguous():
        _refuse(f"{name} is int32 [batch], contiguous")
    return limits.data_ptr()


def _strides(rows: torch.Tensor, name: str) -> structures.Strides:
    """Of axes of one element no stride counts, whatever torch says it is."""
    if rows.stride(3) != 1 and rows.shape[3] > 1:
        _refuse(f"{name}'s rows are each in one piece; copy it")
    pairs = zip(rows.shape[:3], rows.stride()[:3], strict=True)
    return structures.Strides(*(stride if extent > 1 else 0 for extent, stride in pairs))


def _parts(output: torch.Tensor, lse: torch.Tensor) -> structures.Parts:
    if output.dtype != torch.float32 or lse.dtype != torch.float32:
        _refuse("parts to merge are fp32")
    if lse.dim() not in (1, 2):
        _refuse("parts to merge are [parts, rows, dim] or [rows, dim]; flatten their rows")
    if not output.is_contiguous() or not lse.is_contiguous() or output.shape[:-1] != lse.shape:
        _refuse("parts to merge are contiguous, an LSE for each row of O")
    count = lse.shape[0] if lse.dim() == 2 else 1
    return structures.Parts(output=output.data_ptr(), lse=lse.data_ptr(), count=count)
