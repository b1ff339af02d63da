"""Measures attention, search and append on the cores, beside torch, faiss and plain scans."""

from collections.abc import Iterator

import faiss
import torch
import torch.nn.functional as functional

from bench import Context, each_part
from bench.by_codes import measure_by_codes
from bench.data import KvSet, device_uri, pool_of
from bench.data.synthetic import synthetic
from bench.footprint import measure_footprint
from bench.near_calls import AttendCall, Search
from bench.timing import interleave
from nearkv.core import AttendMode, RowForm, Select
from nearkv.doctor import cpu_count
from nearkv.results import Goal, Result, Samples

_GROUPS = (4, 8)
_TOP_K = 256
_CHUNK_TOKENS = 512
_STREAM_BYTES = 1 << 29  # well past any last-level cache


def run(context: Context) -> Iterator[Result]:
    """Yields rates and bandwidths, each beside its peer, with all cores on both sides."""
    torch.set_num_threads(cpu_count())
    faiss.omp_set_num_threads(cpu_count())
    yield from each_part([_by_rows(context), measure_by_codes(context), _memory(context)])


def _by_rows(context: Context) -> Iterator[Result]:
    bench = _CpuBench(context)
    for tokens in (32768, 131072, 1048576) if context.long else (32768, 131072):
        for rows in _GROUPS:
            context.progress(f"attention over {tokens} tokens, {rows} query heads")
            kv = synthetic(tokens, rows, groups=2)
            yield from bench.attention(kv)
            if tokens == 131072:
                context.progress(f"top {_TOP_K} of {tokens} tokens, {rows} query heads")
                yield from bench.search(kv)
    context.progress(f"a chunk of {_CHUNK_TOKENS} queries over 8192 tokens")
    yield from bench.prefill(synthetic(8192, 4 * _CHUNK_TOKENS, groups=1))
    context.progress("append")
    yield from bench.append(synthetic(65536, 4, groups=1))


def _memory(context: Context) -> Iterator[Result]:
    context.progress("resident memory")
    yield measure_footprint(context.device)


class _CpuBench:
    def __init__(self, context: Context) -> None:
        self._uri = device_uri(context.device, "1GiB" if not context.long else "2GiB")
        # Where the URI does not say itself when pages are compared with their checksums.
        self._can_compare = self._uri.startswith("cpu:") and "verify=" not in self._uri
        self._repeat = 31 if context.long else 11
        self._stream = torch.ones(_STREAM_BYTES // 8, dtype=torch.int64)

    def attention(self, kv: KvSet) -> Iterator[Result]:
        """Dense attention, to rows as they come and as DELTA4, beside a plain read and torch."""
        queries = kv.queries[:1]
        keys, values = kv.keys[None, None], kv.values[None, None]

        def dense(uri: str, **options: int) -> AttendCall:
            return AttendCall(pool_of(kv, uri, **options), kv, mode=AttendMode.DENSE)

        calls = {
            "dense": dense(self._uri),
            "dense_raw": dense(self._uri, k_form=RowForm.RAW, v_form=RowForm.RAW),
        }
        goals = {"dense": 0.85, "dense_raw": 0.85}
        if self._can_compare:
            calls["dense_verify_always"] = dense(device_uri(self._uri, "1GiB", verify="always"))
            goals["dense_verify_always"] = 0.7 if kv.queries.shape[1] <= 4 else 0.6
        stream, folded, *times = interleave(
            [
                self._stream.sum,
                # The query heads of a KV head as the query length: torch's fastest form.
                lambda: functional.scaled_dot_product_attention(queries[None], keys, values),
                *calls.values(),
            ],
            repeat=self._repeat,
        )
        samples_of = dict(zip(calls, times, strict=True))
        suffix = f"{kv.tokens // 1024}k_g{kv.queries.shape[1]}"
        for name, call in calls.items():
            yield self._result(
                f"cpu/{name}_bandwidth_{suffix}",
                samples_of[name].per_second(call.near_bytes() / 1e9),
                "GB/s",
                peer="plain read",
                beside=stream.per_second(_STREAM_BYTES / 1e9),
                goal=Goal(">=", goals[name], of="ratio"),
            )
        yield self._rate(
            f"cpu/dense_{suffix}",
            samples_of["dense"],
            peer="torch SDPA",
            beside=folded,
            goal=Goal(">=", 6, of="ratio"),
        )

    def prefill(self, kv: KvSet) -> Iterator[Result]:
        """A prompt's chunk, four query heads a KV head, to the pages before it, beside torch."""
        queries = kv.queries[None]
        keys, values = kv.keys[None, None], kv.values[None, None]
        near = AttendCall(pool_of(kv, self._uri), kv, mode=AttendMode.DENSE)
        torch_time, near_time = interleave(
            [lambda: functional.scaled_dot_product_attention(queries, keys, values), near],
            repeat=self._repeat,
        )
        yield self._rate(
            f"cpu/prefill_{_CHUNK_TOKENS}_over_{kv.tokens // 1024}k_g4",
            near_time,
            peer="torch SDPA",
            beside=torch_time,
            goal=Goal(">=", 3, of="ratio"),
        )

    def search(self, kv: KvSet) -> Iterator[Result]:
        """The exact top-k of plain bf16 rows beside faiss."""
        plain = pool_of(kv, self._uri, k_form=RowForm.RAW, v_form=RowForm.RAW)
        index = faiss.IndexFlatIP(kv.keys.shape[1])
        index.add(kv.keys.float().numpy())
        wanted = kv.queries[0].float().numpy()
        full = Search(plain, kv, _TOP_K, mode=Select.FULL)
        faiss_time, full_time = interleave(
            [lambda: index.search(wanted, _TOP_K), full], repeat=self._repeat
        )
        yield self._rate(
            f"cpu/full_top{_TOP_K}_{kv.tokens // 1024}k_g{kv.queries.shape[1]}/faiss",
            full_time,
            peer="faiss IndexFlatIP",
            beside=faiss_time,
            goal=Goal(">=", 5, of="ratio"),
            extra={"near_bytes": full.near_bytes()},
        )

    def append(self, kv: KvSet) -> Iterator[Result]:
        """Encoding on one core, beside a copy of the same rows."""
        source_bytes = 2 * kv.keys.nbytes
        pool = pool_of(kv, device_uri(self._uri, "1GiB", threads=1))
        keys, values = kv.keys[None], kv.values[None]
        target = torch.empty_like(kv.keys)

        def append() -> None:
            pool.drop(1)
            pool.create_sequence(1)
            pool.append(1, 0, keys, values)

        def copy() -> None:
            target.copy_(kv.keys)
            target.copy_(kv.values)

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        own, copied = interleave([append, copy], repeat=self._repeat)
        torch.set_num_threads(threads)
        yield self._result(
            "cpu/append_1_core",
            own.per_second(source_bytes / 1e9),
            "GB/s",
            peer="copy",
            beside=copied.per_second(source_bytes / 1e9),
            goal=Goal(">=", 1),
            extra={"page_bytes_per_source_byte": pool.usage().page_bytes / source_bytes},
        )

    def _rate(self, name: str, own: Samples, *, beside: Samples, **fields: object) -> Result:
        return self._result(name, own.per_second(1), "1/s", beside=beside.per_second(1), **fields)

    def _result(self, name: str, samples: Samples, unit: str, **fields: object) -> Result:
        return Result.of_samples(name, samples, unit, device=self._uri, **fields)
