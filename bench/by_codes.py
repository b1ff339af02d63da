"""Attention and search by codes, beside reading all rows: rates, bytes and errors."""

from collections.abc import Iterator

import numpy

from bench import Context, Skipped
from bench.data import KvSet, coded_pool_of, device_uri, pool_of
from bench.data.synthetic import synthetic
from bench.near_calls import AttendCall, Search, recall, relative_errors
from bench.timing import interleave
from nearkv.core import AttendMode, Error, Pool, RowForm, Select, Status
from nearkv.results import Goal, Result, Samples

_ERROR = 0.1
_TAIL_K = 64
_TOP_K = 256
_GROUPS = 17  # of queries: one that attends, the others tell gains
_MOST_NS = {(64, 3): 3, (128, 4): 5, (128, 8): 8}
"""Goals by channels and query heads: of one core, for a token of a KV head."""


def measure_by_codes(context: Context) -> Iterator[Result]:
    """Yields rates beside dense attention and a full scan. Skipped where a device has no codes.

    On `cpu:` they are of one core.
    """
    uri = device_uri(context.device, "1GiB" if not context.long else "2GiB")
    if uri.startswith("cpu:"):
        uri = device_uri(uri, "1GiB", threads=1)
    repeat = 31 if context.long else 11
    for tokens in (32768, 131072, 1048576) if context.long else (32768, 131072):
        for dim, rows in _MOST_NS:
            context.progress(f"by codes, {tokens} tokens, {dim} channels, {rows} query heads")
            kv = synthetic(tokens, rows, dim=dim, groups=_GROUPS)
            try:
                coded = coded_pool_of(kv, uri)
            except Error as error:
                if error.status != Status.UNSUPPORTED:
                    raise
                raise Skipped(f"{uri} has no codes") from error
            bench = _ByCodes(kv, uri, repeat)
            yield from bench.attention(coded)
            if tokens == 131072:
                yield from bench.search(coded)


class _ByCodes:
    def __init__(self, kv: KvSet, uri: str, repeat: int) -> None:
        self._kv, self._uri, self._repeat = kv, uri, repeat
        self._shape = kv.queries.shape[2], kv.queries.shape[1]
        self._suffix = "{}k_d{}_g{}".format(kv.tokens // 1024, *self._shape)

    def attention(self, coded: Pool) -> Iterator[Result]:
        """TAIL, and BOUNDED to an error of 10 %."""
        bound = numpy.zeros(self._kv.queries.shape[1], numpy.float32)
        dense = AttendCall(coded, self._kv, mode=AttendMode.DENSE)
        tail = AttendCall(coded, self._kv, mode=AttendMode.TAIL, top_k=_TAIL_K)
        bounded = AttendCall(coded, self._kv, mode=AttendMode.BOUNDED, error=_ERROR, bound=bound)
        exact = dense().output
        beside, *all_samples = interleave([dense, tail, bounded], repeat=self._repeat)
        for name, call, samples in (
            (f"tail{_TAIL_K}", tail, all_samples[0]),
            (f"bounded_{100 * _ERROR:g}_percent", bounded, all_samples[1]),
        ):
            extra = {
                "relative_errors": relative_errors(call().output, exact),
                "near_bytes": call.near_bytes(),
                "dense_near_bytes": dense.near_bytes(),
            }
            yield self._rate(
                f"cpu/{name}_{self._suffix}",
                samples,
                peer="dense",
                beside=beside,
                goal=Goal(">=", 1, of="ratio"),
                extra=extra | ({"bounds": bound.tolist()} if call is bounded else {}),
            )
            yield Result(
                name=f"cpu/{name}_{self._suffix}/per_token",
                value=samples.median * 1e9 / self._kv.tokens,
                unit="ns per token and KV head",
                goal=Goal("<=", _MOST_NS[self._shape]),
                device=self._uri,
            )

    def search(self, coded: Pool) -> Iterator[Result]:
        """STATISTICAL beside the full scan of plain bf16 rows."""
        plain = pool_of(self._kv, self._uri, k_form=RowForm.RAW, v_form=RowForm.RAW)
        full = Search(plain, self._kv, _TOP_K, mode=Select.FULL)
        search = Search(coded, self._kv, _TOP_K, mode=Select.STATISTICAL)
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
