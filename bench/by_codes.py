"""Attention and search by codes, beside reading all rows: rates, bytes and errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench import Context, Skipped, each_part
from bench.data import KvSet, coded_pool_of, device_uri, pool_of
from bench.data.synthetic import synthetic
from bench.near_calls import AttendCall, LayersCall, Search, recall, relative_errors
from bench.real.answers import coded_pool
from bench.real.captures import SMOLLM2, CaptureSource, joined
from bench.real.texts import JUDGED, TextMissing
from bench.timing import interleave
from nearkv.core import AttendMode, Error, Pool, RowForm, Select, Status
from nearkv.real_models import ModelError, fetch_model
from nearkv.results import Goal, Result, Samples

_ERROR = 0.1
_TAIL_K = 64
_TOP_K = 256
_GROUPS = 17  # of queries: one that attends, the others tell gains
_MOST_NS = {(64, 3): 3, (128, 4): 5, (128, 8): 8}
"""Goals by channels and query heads: of one core, for a token of a KV head."""


def measure_by_codes(context: Context) -> Iterator[Result]:
    """Yields rates beside dense attention and a full scan. Skipped where a device has no codes.

    On `cpu:` they are of one core. The keys and values are a real model's, and longer ones made by
    rule, of which more must be read for an error.
    """
    uri = device_uri(context.device, "1GiB" if not context.long else "2GiB")
    if uri.startswith("cpu:"):
        uri = device_uri(uri, "1GiB", threads=1)
    repeat = 31 if context.long else 11
    yield from each_part([_of_model(context, uri, repeat), _of_synthetic(context, uri, repeat)])


def _of_model(context: Context, uri: str, repeat: int) -> Iterator[Result]:
    try:
        source = CaptureSource(SMOLLM2, fetch_model(SMOLLM2.model), context.progress)
        captures = source.layers_of(JUDGED[0])
    except (ModelError, TextMissing) as error:
        raise Skipped(f"attention by codes to a real model's keys: {error}") from error
    for name, layers in ((SMOLLM2.name, captures), (f"{SMOLLM2.name}_joined", joined(captures))):
        context.progress(f"by codes, {name}, {len(layers)} layers")
        with _codes_of(uri):
            pools = [coded_pool(uri, own.keys, own.values, own.gains) for own in layers]
        heads, group, dim = layers[0].queries.shape[1:]
        token_heads = len(layers) * heads * SMOLLM2.tokens
        bench = _ByCodes(uri, name, (dim, group), token_heads, repeat)
        yield from bench.attention(partial(LayersCall, pools, layers))


def _of_synthetic(context: Context, uri: str, repeat: int) -> Iterator[Result]:
    for tokens in (32768, 131072, 1048576) if context.long else (32768, 131072):
        for dim, rows in _MOST_NS:
            context.progress(f"by codes, {tokens} tokens, {dim} channels, {rows} query heads")
            kv = synthetic(tokens, rows, dim=dim, groups=_GROUPS)
            with _codes_of(uri):
                coded = coded_pool_of(kv, uri)
            suffix = f"{tokens // 1024}k_d{dim}_g{rows}"
            bench = _ByCodes(uri, suffix, (dim, rows), tokens, repeat)
            yield from bench.attention(partial(AttendCall, coded, kv))
            if tokens == 131072:
                yield from bench.search(kv, coded)


@contextmanager
def _codes_of(uri: str) -> Iterator[None]:
    """Makes pools with codes there, or skips what needs them."""
    try:
        yield
    except Error as error:
        if error.status != Status.UNSUPPORTED:
            raise
        raise Skipped(f"{uri} has no codes") from error


class _ByCodes:
    """Calls to one set or to a model's layers; each attends to `token_heads` tokens of KV heads."""

    def __init__(
        self, uri: str, suffix: str, shape: tuple[int, int], token_heads: int, repeat: int
    ) -> None:
        self._uri, self._suffix, self._repeat = uri, suffix, repeat
        self._most_ns = _MOST_NS.get(shape)
        self._token_heads = token_heads

    def attention(self, call: Callable[..., AttendCall | LayersCall]) -> Iterator[Result]:
        """TAIL, and BOUNDED to an error of 10 %, by calls with such options."""
        dense = call(mode=AttendMode.DENSE)
        tail = call(mode=AttendMode.TAIL, top_k=_TAIL_K)
        bounded = call(mode=AttendMode.BOUNDED, error=_ERROR)
        exact = dense().output
        beside, *all_samples = interleave([dense, tail, bounded], repeat=self._repeat)
        for name, own, samples in (
            (f"tail{_TAIL_K}", tail, all_samples[0]),
            (f"bounded_{100 * _ERROR:g}_percent", bounded, all_samples[1]),
        ):
            yield self._rate(
                f"cpu/{name}_{self._suffix}",
                samples,
                peer="dense",
                beside=beside,
                goal=Goal(">=", 1, of="ratio"),
                extra={
                    "relative_errors": relative_errors(own().output, exact),
                    "near_bytes": own.near_bytes(),
                    "dense_near_bytes": dense.near_bytes(),
                    "bounds": own.bounds.ravel().tolist(),
                },
            )
            yield Result(
                name=f"cpu/{name}_{self._suffix}/per_token",
                value=samples.median * 1e9 / self._token_heads,
                unit="ns per token and KV head",
                goal=None if self._most_ns is None else Goal("<=", self._most_ns),
                device=self._uri,
            )

    def search(self, kv: KvSet, coded: Pool) -> Iterator[Result]:
        """STATISTICAL beside the full scan of plain bf16 rows."""
        plain = pool_of(kv, self._uri, k_form=RowForm.RAW, v_form=RowForm.RAW)
        full = Search(plain, kv, _TOP_K, mode=Select.FULL)
        search = Search(coded, kv, _TOP_K, mode=Select.STATISTICAL)
        found = recall(search().ids, full().ids)
        full_time, own = interleave([full, search], repeat=self._repeat)
        name = f"cpu/statistical_top{_TOP_K}_{self._suffix}"
        yield self._rate(
            f"{name}/full_scan",
            own,
            peer="full scan of bf16 rows",
            beside=full_time,
            extra={
                "recall": found,
                "near_bytes": search.near_bytes(),
                "peer_near_bytes": full.near_bytes(),
            },
        )
        byte_ratio = full.near_bytes() / search.near_bytes()
        yield Result(
            name=f"{name}/byte_ratio_reached",
            value=full_time.median / own.median / byte_ratio,
            unit="of the byte ratio",
            goal=Goal(">=", 0.8),
            device=self._uri,
            extra={"byte_ratio": byte_ratio, "time_ratio": full_time.median / own.median},
        )

    def _rate(self, name: str, own: Samples, *, beside: Samples, **fields: object) -> Result:
        return Result.of_samples(
            name,
            own.per_second(1),
            "1/s",
            beside=beside.per_second(1),
            device=self._uri,
            **fields,
        )
