"""What lies far: the pool that fits a model, and its sequences."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from nearkv.core import MAX_GROUP, PAGE_TOKENS, Codec, ColdPages, Device, Dtype, Error, Pool, Status
from nearkv.gains import GainLearner, load_gains
from nearkv.retainer import Retainer, Retention
from nearkv.sparse import SparseLatents
from nearkv.transformers.shape import shape_of
from nearkv.transformers.visible import ALL, NONE

_Result = TypeVar("_Result")
_DTYPES = {torch.bfloat16: Dtype.BF16, torch.float16: Dtype.FP16}
_LOSSY = {Codec.INT4, Codec.INT8, Codec.FP8}
_ASKED = 8  # Newest queries of a step that a retention learns of.


def make_pool(
    config: Any,
    device: Device | str = "cpu:",
    *,
    dtype: torch.dtype = torch.bfloat16,
    max_sequences: int = 64,
    codes: bool = False,
    gains: str | Path | None = None,
) -> Pool:
    """Formats a device for a model's K and V; what the device held is lost.

    `dtype` is what K and V are kept in, as a rule the model's. A row of a batch, or a beam, is one
    sequence of the pool. `codes`: pages get them, for a FarAttention that is not DENSE; they add a
    quarter to a page. `gains`: a file of nearkv.gains for the codes; without one a cache learns
    gains from its first prompt. Raises ValueError for a model that does not fit, with what to do.
    """
    if dtype not in _DTYPES:
        raise ValueError(
            f"a pool holds bfloat16 or float16, not {dtype}: load the model so, or have K and V "
            "rounded: make_pool(config, dtype=torch.bfloat16), NearKVCache(pool, rounded=True)"
        )
    shape = shape_of(config)
    if shape.index_dim:
        raise ValueError(
            f"{config.model_type} attends to what an indexer picks: use NearKVSparseCache("
            "make_sparse_latents(model.config))"
        )
    if not shape.attending:
        raise ValueError(
            f"{config.model_type} keeps no K and V, so that it needs no pool: its states go with "
            "DynamicCache(config=model.config), and prefixes to nearkv.transformers.PrefixStates"
        )
    if gains and not codes:
        raise ValueError("gains are for codes: make_pool(config, codes=True, gains=...)")
    pool = Pool.create(
        Device(device) if isinstance(device, str) else device,
        layers=shape.attending,
        dtype=_DTYPES[dtype],
        max_sequences=max_sequences,
        codes=codes,
        **shape.rows,
    )
    if gains:
        load_gains(pool, gains)
    return pool


@dataclass
class _SharedRows:
    """What is so of all sequences that came from one by forks."""

    are_rounded: bool


class Sequences:
    """The sequences of a pool that one cache owns, one for each row of its batch.

    SparseLatents have sequences too, which are created, shared and dropped in the same way.
    """

    def __init__(self, pool: Pool | SparseLatents, retention: Retention | None = None) -> None:
        self.pool, self.retention = pool, retention
        self.ids: list[int] = []
        self.learner = GainLearner(pool) if isinstance(pool, Pool) else None
        self.retainers: dict[int, Retainer] = {}
        self._shared = self._unshared()

    @property
    def are_rounded(self) -> bool:
        """Whether a lossy codec may have had pages of these rows, or of forks, which share them."""
        return self._shared.are_rounded

    def create(self, count: int) -> None:
        """Makes `count` empty sequences."""
        for _ in range(count):
            sequence = self._fresh()
            self.pool.create_sequence(sequence)
            self.ids.append(sequence)
            if self.retention:
                self.retainers[self.ids[-1]] = Retainer(self.pool, self.ids[-1], self.retention)

    def append(self, row: int, layer: int, keys: torch.Tensor, values: torch.Tensor | None) -> None:
        """Adds whole pages to a layer of a row."""
        if self.learner:
            self.learner.settle(layer, keys)
        self.pool.append(self.ids[row], layer, keys, values)
        if self.retention:
            self.retainers[self.ids[row]].append(layer, keys)

    def recall(self, layer: int, query: torch.Tensor, scale: float) -> None:
        """By a retention: what the newest queries find in all pages stays or comes back.

        query [batch, kv_heads, group, queries, head_dim].
        """
        newest = query[..., -max(1, min(_ASKED, MAX_GROUP // query.shape[2])) :, :]
        for sequence, rows in zip(self.ids, newest.flatten(2, 3), strict=True):
            if retainer := self.retainers.get(sequence):
                rows = rows.contiguous().cpu()
                retainer.ask(layer, rows, scale=scale)
                retainer.settle(layer)

    def create_for(self, alike: Sequence[bool]) -> None:
        """Makes an empty sequence for each row; one that is like the row before it has that one's.

        For rows that nothing is added to later on.
        """
        for is_alike in alike:
            if is_alike:
                self.ids.append(self.ids[-1])
            else:
                self.create(1)

    def select(self, rows: Sequence[int]) -> None:
        """Makes row i what row rows[i] was; rows that repeat stay one sequence."""
        self._keep([self.ids[row] for row in rows])

    def attend(
        self, layer: int, query: torch.Tensor, windows: torch.Tensor, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(O, LSE) in fp32 of one layer, query [batch, kv_heads, group, queries, head_dim].

        windows [batch, queries]: ALL, NONE or the tokens that a query sees; what they leave to
        the pool goes there in one call for all KV heads, and, if they are all alike, for all rows.
        """
        if self.retention:
            if not torch.isin(windows, torch.tensor([ALL, NONE])).all():
                raise ValueError(
                    "this layer sees a window of its tokens; a retention is for models whose "
                    "layers all see all tokens"
                )
            options["cold"] = ColdPages.SKIP
        if (windows == windows[0, 0]).all() and windows[0, 0] != NONE:
            return self._attend(self.ids, layer, query, int(windows[0, 0]), options)
        output = query.new_zeros(*query.shape[:-1], self.pool.value_dim, dtype=torch.float32)
        lse = torch.full(query.shape[:-1], -torch.inf, device=query.device)
        for window in windows.unique().tolist():
            for row, sequence in enumerate(self.ids if window != NONE else ()):
                seeing = (windows[row] == window).nonzero().flatten()
                if len(seeing):
                    part = self._attend(sequence, layer, query[row, :, :, seeing], window, options)
                    output[row, :, :, seeing], lse[row, :, :, seeing] = part
        return output, lse

    def read(
        self, row: int, layer: int, head: int, begin: int, end: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """K and V rows of tokens [begin, end) of one row and KV head, as Pool.read gives them."""
        place = (self.ids[row], layer, head, begin, end - begin)
        if self.retention:
            pages = range(begin // PAGE_TOKENS, -(-end // PAGE_TOKENS))
            self.pool.transcode_pages(*place[:3], list(pages), Codec.NONE)
        return self._warmly(lambda: self.pool.read(*place))

    def read_in_place(
        self, row: int, layer: int, head: int, begin: int, end: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same from where they lie in this machine's memory, of a RAW pool: no command."""
        place = (self.ids[row], layer, head)
        pages = self._warmly(lambda: self.pool.rows_in_place(*place))
        keys, values = zip(*pages, strict=True)
        return np.concatenate(keys)[begin:end], np.concatenate(values)[begin:end]

    def cool(self, codec: Codec) -> None:
        """Compresses all pages, those that others share too; whoever reads them warms them."""
        self._shared.are_rounded |= codec in _LOSSY
        for sequence in dict.fromkeys(self.ids):
            self.pool.transcode(sequence, codec)

    def rearrange(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        """Makes row i what row rows[i] was, `tokens[row]` long; rows that repeat share pages."""
        with self._forking() as fork:
            kept: list[int] = []
            for row in rows:
                source = self.ids[row]
                kept.append(fork(source, tokens[row]) if source in kept else source)
        self._keep(kept)

    @contextmanager
    def truncating(self, tokens: Sequence[int]) -> Iterator[None]:
        """Cuts row i to its first tokens[i] tokens, whole pages, when the block ends well.

        What may fail for want of room is done before the block.
        """
        with self._forking() as fork:
            cut = [fork(*pair) for pair in zip(self.ids, tokens, strict=True)]
            yield
        self._keep(cut)

    def fork(self, tokens: Sequence[int]) -> "Sequences":
        """Sequences that share these rows' first tokens."""
        copy = Sequences(self.pool, self.retention)
        copy._shared, copy.learner = self._shared, self.learner
        with self._forking() as fork:
            copy.ids = [fork(*pair) for pair in zip(self.ids, tokens, strict=True)]
        copy.retainers = {
            child: self.retainers.pop(child) for child in copy.ids if child in self.retainers
        }
        return copy

    def drop(self) -> None:
        """Gives all pages back."""
        self._keep([])
        self._shared = self._unshared()

    def _unshared(self) -> _SharedRows:
        return _SharedRows(self.retention is not None and self.retention.cold in _LOSSY)

    def _attend(
        self,
        which: int | list[int],
        layer: int,
        query: torch.Tensor,
        window: int,
        options: dict[str, Any],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = query.flatten(-3, -2).contiguous().cpu()
        asked = {"window": window, **options}
        output, lse = self._warmly(lambda: self.pool.attend(which, layer, rows, **asked))
        return (
            torch.from_numpy(output).to(query.device).reshape(*query.shape[:-1], -1),
            torch.from_numpy(lse).to(query.device).reshape(query.shape[:-1]),
        )

    def _warmly(self, call: Callable[[], _Result]) -> _Result:
        """What a call gives; pages that it finds compressed are warmed."""
        try:
            return call()
        except Error as error:
            if error.status != Status.COLD_PAGE:
                raise
        self.cool(Codec.NONE)
        return call()

    def _fresh(self) -> int:
        # At random, because other caches, and processes before this one, use the same pool.
        return secrets.randbits(63)

    def _fork(self, source: int, tokens: int) -> int:
        child = self._fresh()
        self.pool.fork(source, child, tokens)
        if self.retention:
            self.retainers[child] = self.retainers[source].fork(child, tokens)
        return child

    @contextmanager
    def _forking(self) -> Iterator[Callable[[int, int], int]]:
        """Forks sequences; all or none of them stay."""
        made: list[int] = []

        def fork(source: int, tokens: int) -> int:
            made.append(self._fork(source, tokens))
            return made[-1]

        try:
            yield fork
        except BaseException:
            with suppress(Error):
                self._drop(made)
            raise

    def _keep(self, kept: list[int]) -> None:
        dropped = [source for source in dict.fromkeys(self.ids) if source not in kept]
        self.ids = kept
        self._drop(dropped)

    def _drop(self, sequences: Sequence[int]) -> None:
        """Drops each, whatever becomes of the others."""
        failed: Error | None = None
        for sequence in sequences:
            self.retainers.pop(sequence, None)
            try:
                self.pool.drop(sequence)
            except Error as error:
                failed = failed or error
        if failed is not None:
            raise failed


def drop_quietly(sequences: Sequences) -> None:
    """Drops when nobody is left to tell of a failure."""
    try:
        sequences.drop()
    except Error:
        return
