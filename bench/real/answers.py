"""What the device under test answers to captured queries, beside exact attention in float64."""

from dataclasses import dataclass

import numpy as np
import torch

from bench.data import device_uri
from bench.real.caches import CACHES
from bench.real.captures import LayerCapture
from bench.real.reading import attention
from nearkv.core import AttendMode, Device, NearStats, Pool, RowForm, Select

_MEMORY = "256MiB"
BF16_BYTES = 2


@dataclass(frozen=True)
class Query:
    """One token's queries of a layer, bf16 [kv_heads, group, dim]; it sees the first `tokens`."""

    rows: torch.Tensor
    tokens: int
    exact: torch.Tensor
    """What attention in float64 over the bf16 K and V answers, [kv_heads, group, dim]."""

    @property
    def pairs(self) -> int:
        """(Query, head) pairs."""
        return self.rows.shape[0] * self.rows.shape[1]


@dataclass(frozen=True)
class JudgedAnswer:
    """An approximate attention's answers to a Query: of each pair the relative error.

    `bound` is the error that was claimed, `share` the bytes read of those of the visible K and V
    in bf16; `is_dense`: whether the device read all of them.
    """

    errors: np.ndarray
    share: float
    bound: np.ndarray | None = None
    is_dense: bool = False


def coded_pool(uri: str, keys: torch.Tensor, values: torch.Tensor, gains: torch.Tensor) -> Pool:
    """A pool whose sequence 1 has K and V, bf16 [kv_heads, tokens, dim], as layer 0.

    Rows lie there in bf16, so that bytes read of them are what they are in an engine's memory;
    gains: int8 [kv_heads, dim].
    """
    heads, _, dim = keys.shape
    pool = Pool.create(
        Device(device_uri(uri, _MEMORY)),
        layers=1,
        kv_heads=heads,
        head_dim=dim,
        value_dim=values.shape[-1],
        k_form=RowForm.RAW,
        v_form=RowForm.RAW,
        codes=True,
    )
    for head, own in enumerate(gains.numpy()):
        pool.set_gains(0, head, own)
    pool.create_sequence(1)
    pool.append(1, 0, keys, values)
    return pool


def dense_bytes(keys: torch.Tensor, values: torch.Tensor, tokens: int) -> int:
    """Bytes of the first rows of K and V [kv_heads, tokens, dim] in bf16."""
    return BF16_BYTES * keys.shape[0] * tokens * (keys.shape[-1] + values.shape[-1])


class Layer:
    """A captured layer: its exact answers, and what K and V in bf16 are in bytes."""

    def __init__(self, capture: LayerCapture) -> None:
        self.capture = capture
        self._keys = capture.keys.double()
        self._values = capture.values.double()

    def query(self, place: int) -> Query:
        """The query at `positions[place]`."""
        return self.query_of(self.capture.queries[place], self.capture.positions[place] + 1)

    def query_of(self, rows: torch.Tensor, tokens: int) -> Query:
        """The query of rows, bf16 [kv_heads, group, dim], that see the first `tokens`."""
        keys, values = self._keys[:, :tokens], self._values[:, :tokens]
        exact = attention(rows.flatten(0, 1)[:, None], keys, values, self.capture.scale)[:, 0]
        return Query(rows, tokens, exact.unflatten(0, rows.shape[:2]))

    def errors(self, query: Query, told: torch.Tensor) -> np.ndarray:
        """Relative errors of outputs [kv_heads, group, dim], flat."""
        exact = query.exact
        return ((told - exact).norm(dim=-1) / exact.norm(dim=-1)).flatten().numpy()

    def dense_bytes(self, tokens: int) -> int:
        """Bytes of the first rows of K and V in bf16."""
        return dense_bytes(self.capture.keys, self.capture.values, tokens)


class CodedLayer:
    """A captured layer on the device under test, in pages with codes and with rows in bf16.

    With `cache`, the rows are what that one of CACHES keeps, as they would be read of colder pages;
    the bytes are still those of bf16.
    """

    def __init__(self, layer: Layer, uri: str, cache: str | None = None) -> None:
        capture = layer.capture
        self._layer = layer
        rows = capture.keys, capture.values
        if cache is not None:
            rows = tuple(each.bfloat16() for each in CACHES[cache].keep(*rows))
        self._pool = coded_pool(uri, *rows, capture.gains)

    def attend(self, query: Query, mode: AttendMode, **options: float) -> JudgedAnswer:
        """ATTEND in BOUNDED or TAIL."""
        bound = np.zeros(query.pairs, np.float32)
        self._pool.reset_stats()
        output, _ = self._pool.attend(
            1,
            0,
            query.rows,
            scale=self._layer.capture.scale,
            mode=mode,
            tokens=query.tokens,
            bound=bound,
            **options,
        )
        stats = self._pool.stats()
        return JudgedAnswer(
            self._layer.errors(query, torch.from_numpy(output).double()),
            stats.near_bytes / self._layer.dense_bytes(query.tokens),
            bound,
            stats.dense_fallbacks > 0,
        )

    def search(self, query: Query, k: int, z16: int) -> tuple[float, int]:
        """STATISTICAL TOPK: bytes read of those of K, and pairs whose ids equal FULL's."""
        equal, read = 0, 0
        for head, rows in enumerate(query.rows):
            ids, near = self._top(head, rows, query.tokens, k, mode=Select.STATISTICAL, z16=z16)
            exact, _ = self._top(head, rows, query.tokens, k, mode=Select.FULL)
            equal += sum(set(own) == set(full) for own, full in zip(ids, exact, strict=True))
            read += near.near_bytes
        return 2 * read / self._layer.dense_bytes(query.tokens), equal

    def _top(
        self, head: int, rows: torch.Tensor, tokens: int, k: int, **how: int
    ) -> tuple[list[list[int]], NearStats]:
        self._pool.reset_stats()
        scale = self._layer.capture.scale
        ids, _, _ = self._pool.top_k(1, 0, head, rows, k, scale=scale, tokens=tokens, **how)
        return ids.tolist(), self._pool.stats()
