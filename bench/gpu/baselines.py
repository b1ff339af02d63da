"""Attention to what a GPU holds, beside a copy, torch's and, where installed, FlashInfer's."""

import importlib.util
from collections.abc import Callable, Iterator

import torch

from bench import Context, Skipped, each_part
from bench.gpu.place import Place
from nearkv.core import PAGE_TOKENS
from nearkv.cuda import attend_window
from nearkv.results import Result

_DIM = 128
_SCALE = 0.09
_GROUPS = (1, 4, 8)
_WORKSPACE_BYTES = 128 << 20  # What FlashInfer recommends.
_Attention = Callable[[], torch.Tensor]


def _window(place: Place, group: int, batch: int = 8) -> tuple[torch.Tensor, ...]:
    """Queries [batch, kv_heads, group, dim], and keys and values [batch, kv_heads, tokens, dim]."""
    batch, heads, tokens = place.size(batch, 1), place.size(8, 1), place.size(16384, 64)
    rows = torch.randn(batch, heads, group, _DIM, device=place.where)
    kept = torch.randn(2, batch, heads, tokens, _DIM, device=place.where)
    return tuple(part.to(torch.bfloat16) for part in (rows, *kept.unbind(0)))


def run(context: Context, place: Place) -> Iterator[Result]:
    """Yields GB/s beside a copy, and calls per second beside each peer that runs here.

    Raises Skipped for those that do not.
    """
    repeat = 51 if context.long else 9
    source = torch.zeros(place.size(1 << 30, 1 << 16), dtype=torch.uint8, device=place.where)
    for group in _GROUPS:
        context.progress(f"attention, groups of {group}, beside a copy and torch's")
        given = _window(place, group)
        yield _beside_copy(place, f"attend_group_{group}", given, source, repeat)
        peer = "torch's scaled_dot_product_attention"
        yield _beside(place, f"attend_rate_group_{group}", given, peer, _torchs(*given), repeat)
    if missing := _flashinfer_missing(place):
        raise Skipped(f"attention beside FlashInfer's: {missing}")
    peers = (
        ("batch", 8, "FlashInfer's BatchDecodeWithPagedKVCacheWrapper", _flashinfers),
        ("one", 1, "FlashInfer's single_decode_with_kv_cache", _flashinfers_of_one),
    )
    yield from each_part(
        _beside_flashinfers(context, place, group, *peer, repeat)
        for group in _GROUPS
        for peer in peers
    )


def _beside_copy(
    place: Place, name: str, given: tuple[torch.Tensor, ...], source: torch.Tensor, repeat: int
) -> Result:
    """Which share of the bandwidth of the GPU's memory is reached."""
    target = torch.empty_like(source)
    calls = (lambda: attend_window(*given, _SCALE), lambda: target.copy_(source))
    own, copy = place.seconds(calls, repeat)
    least_bytes = sum(part.numel() * part.element_size() for part in given[1:])
    return Result.of_samples(
        f"cuda/{name}",
        own.per_second(least_bytes / 1e9),
        "GB/s",
        peer="copy within the GPU",
        beside=copy.per_second(2 * source.numel() / 1e9),
        device=place.device,
        extra={"least_bytes": least_bytes, "what": "keys and values read once each"},
    )


def _beside_flashinfers(
    context: Context,
    place: Place,
    group: int,
    what: str,
    batch: int,
    peer: str,
    make: Callable[..., _Attention],
    repeat: int,
) -> Iterator[Result]:
    context.progress(f"attention, groups of {group}, beside {peer}")
    given = _window(place, group, batch)
    try:
        call = make(*given)
        call()
    except RuntimeError as error:  # It compiles its kernels at the first call.
        raise Skipped(f"{peer}, groups of {group}: {str(error).splitlines()[-1]}") from error
    yield _beside(place, f"attend_rate_group_{group}_flashinfer_{what}", given, peer, call, repeat)


def _beside(
    place: Place,
    name: str,
    given: tuple[torch.Tensor, ...],
    peer: str,
    call: _Attention,
    repeat: int,
) -> Result:
    output = attend_window(*given, _SCALE)[0]
    torch.testing.assert_close(call().float().reshape(output.shape), output, rtol=0.02, atol=0.02)
    own, other = place.seconds([lambda: attend_window(*given, _SCALE), call], repeat)
    batch, heads, tokens, _ = given[1].shape
    return Result.of_samples(
        f"cuda/{name}",
        own.per_second(1),
        "calls/s",
        peer=peer,
        beside=other.per_second(1),
        device=place.device,
        extra={"tokens": tokens, "batch": batch, "kv_heads": heads},
    )


def _torchs(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> _Attention:
    flat = query.flatten(1, 2).unsqueeze(2)
    return lambda: torch.nn.functional.scaled_dot_product_attention(
        flat, key, value, scale=_SCALE, enable_gqa=query.shape[2] > 1
    )


def _flashinfer_missing(place: Place) -> str:
    """Why FlashInfer cannot be measured here, and what mends that; empty if it can."""
    if not place.is_gpu:
        return "it runs on GPUs alone"
    if importlib.util.find_spec("flashinfer") is None:
        return "it is not installed; pip install flashinfer-python"
    return ""


def _flashinfers(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> _Attention:
    import flashinfer

    batch, heads, group, dim = query.shape
    count = key.shape[2] // PAGE_TOKENS
    pages = tuple(
        part.view(batch, heads, count, PAGE_TOKENS, dim).transpose(1, 2).flatten(0, 1).contiguous()
        for part in (key, value)
    )
    room = torch.zeros(_WORKSPACE_BYTES, dtype=torch.uint8, device=query.device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        room, "HND", use_tensor_cores=_uses_tensor_cores(group)
    )
    numbers = torch.arange(batch * count + 1, dtype=torch.int32, device=query.device)
    wrapper.plan(
        numbers[::count].contiguous(),
        numbers[:-1].contiguous(),
        torch.full((batch,), PAGE_TOKENS, dtype=torch.int32, device=query.device),
        heads * group,
        heads,
        dim,
        PAGE_TOKENS,
        q_data_type=query.dtype,
        kv_data_type=key.dtype,
        sm_scale=_SCALE,
    )
    rows = query.flatten(1, 2)
    return lambda: wrapper.run(rows, pages)


def _flashinfers_of_one(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> _Attention:
    import flashinfer

    rows, tensor_cores = query[0].flatten(0, 1), _uses_tensor_cores(query.shape[2])
    return lambda: flashinfer.single_decode_with_kv_cache(
        rows,
        key[0],
        value[0],
        kv_layout="HND",
        use_tensor_cores=tensor_cores,
        sm_scale=_SCALE,
    )


def _uses_tensor_cores(group: int) -> bool:
    """As FlashInfer advises: for groups that are not small."""
    return group >= 4
