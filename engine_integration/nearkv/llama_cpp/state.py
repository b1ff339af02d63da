"""The bytes of a state of llama.cpp, and the planes of K and V in them, which tokens divide.

A state is a head, then, for the one stream of cells that has any: the cells' positions, the K of
each layer, the V of each layer. K is a row of bytes for each cell, and so is V with flash
attention; without it V lies transposed, for each of its elements a row of all cells.
"""

import struct
from dataclasses import dataclass
from typing import Self

import numpy as np

_CELL = np.dtype([("position", "<i4"), ("sequences", "<u4"), ("sequence", "<i4")])
_COUNT = struct.Struct("<I")
_V_AND_LAYERS = struct.Struct("<II")  # Whether V is transposed, how many layers.
_ROWS = struct.Struct("<iQ")  # ggml's type, the bytes of a cell.
_COLUMNS = struct.Struct("<iII")  # ggml's type, the bytes of an element, elements of a cell.


class UnknownState(ValueError):
    """The bytes are not the state of one sequence in one cache of keys and values."""


@dataclass(frozen=True)
class Plane:
    """One layer's K or V: `columns` rows of all cells, each cell with `cell_bytes` in each."""

    head: bytes
    columns: int
    cell_bytes: int

    @property
    def token_bytes(self) -> int:
        """All that belongs to one token."""
        return self.columns * self.cell_bytes


@dataclass(frozen=True)
class StateLayout:
    """What states have to agree in to be interchangeable."""

    layers: int
    transposed: bool
    planes: tuple[Plane, ...]

    @property
    def token_bytes(self) -> int:
        """K and V of a token, in all layers."""
        return sum(plane.token_bytes for plane in self.planes)

    def blank(self, head: bytes, streams: int, tokens: int, sequence: int = 0) -> "SequenceState":
        """A state of `tokens` at positions from 0 on, whose planes are to be filled.

        `head` is what comes before the count of streams; of those the first has all cells.
        """
        cells = np.zeros(tokens, _CELL)
        cells["position"] = np.arange(tokens)
        cells["sequences"] = 1
        cells["sequence"] = sequence
        parts = [
            head,
            _COUNT.pack(streams),
            _COUNT.pack(tokens),
            cells.tobytes(),
            _V_AND_LAYERS.pack(self.transposed, self.layers),
        ]
        start = sum(map(len, parts))
        heads = sum(len(plane.head) for plane in self.planes)
        others = bytes(_COUNT.size * (streams - 1))
        data = np.empty(start + heads + tokens * self.token_bytes + len(others), np.uint8)
        data[:start] = np.frombuffer(b"".join(parts), np.uint8)
        planes = []
        for plane in self.planes:
            planes_start = start + len(plane.head)
            data[start:planes_start] = np.frombuffer(plane.head, np.uint8)
            start = planes_start + tokens * plane.token_bytes
            planes.append(data[planes_start:start].reshape(plane.columns, -1))
        data[start:] = np.frombuffer(others, np.uint8)
        return SequenceState(self, data, tokens, planes)


@dataclass
class SequenceState:
    """A state's bytes, and views of its planes in them."""

    layout: StateLayout
    data: np.ndarray
    tokens: int
    planes: list[np.ndarray]

    def block(self, first: int, end: int) -> list[np.ndarray]:
        """Views of what each plane has of tokens [first, end)."""
        sizes = (plane.cell_bytes for plane in self.layout.planes)
        return [
            plane[:, first * size : end * size]
            for plane, size in zip(self.planes, sizes, strict=True)
        ]

    @classmethod
    def parse(cls, data: np.ndarray, head_bytes: int) -> Self:
        """The state in bytes of llama.cpp's, which it refers to.

        UnknownState for memory of other kinds (sliding windows, recurrent states, positions of more
        than one dimension), for cells of more than one sequence, and for positions that leave out
        one.
        """
        reader = _Reader(data, head_bytes)
        try:
            return cls._read(reader)
        except struct.error as error:
            raise UnknownState(f"a state ends early: {error}") from error

    @classmethod
    def _read(cls, reader: "_Reader") -> Self:
        (streams,) = reader.unpack(_COUNT)
        tokens = 0
        while streams and not tokens:
            (tokens,) = reader.unpack(_COUNT)
            streams -= 1
        if not tokens:
            raise UnknownState("the sequence is empty")
        cells = reader.take(tokens * _CELL.itemsize).view(_CELL)
        if np.any(cells["sequences"] != 1) or np.any(cells["sequence"] != cells["sequence"][0]):
            raise UnknownState("there are cells of more than one sequence, or of another kind")
        order = np.argsort(cells["position"])
        if np.any(cells["position"][order] != np.arange(tokens)):
            raise UnknownState("the positions of the sequence are not 0, 1, 2 and so on")
        transposed, layers = reader.unpack(_V_AND_LAYERS)
        kinds: list[Plane] = []
        planes: list[np.ndarray] = []
        end = len(reader.data) - streams * _COUNT.size
        while len(kinds) < layers or reader.at < end:
            plane = reader.plane(is_columns=bool(transposed) and len(kinds) >= layers)
            kinds.append(plane)
            planes.append(reader.take(tokens * plane.token_bytes).reshape(plane.columns, -1))
        if reader.at != end or len(kinds) > 2 * layers or reader.data[end:].any():
            raise UnknownState("there is more than one cache of keys and values")
        state = cls(
            StateLayout(layers, bool(transposed), tuple(kinds)), reader.data, tokens, planes
        )
        return state if np.all(order[1:] > order[:-1]) else state._in_order(order)

    def _in_order(self, order: np.ndarray) -> Self:
        """A copy whose cells are in the order of their positions."""
        planes = []
        for kind, plane in zip(self.layout.planes, self.planes, strict=True):
            cells = plane.reshape(kind.columns, self.tokens, kind.cell_bytes)
            planes.append(cells[:, order].reshape(kind.columns, -1))
        return type(self)(self.layout, self.data, self.tokens, planes)


class _Reader:
    def __init__(self, data: np.ndarray, at: int) -> None:
        self.data = data
        self.at = at

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))

    def take(self, size: int) -> np.ndarray:
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise UnknownState(f"a state of {len(self.data)} bytes ends within a part of {size}")
        self.at += size
        return taken

    def plane(self, *, is_columns: bool) -> Plane:
        start = self.at
        if is_columns:
            _, size, columns = self.unpack(_COLUMNS)
        else:
            _, size = self.unpack(_ROWS)
            columns = 1
        if not size or not columns:
            raise UnknownState("a layer's K or V has no bytes")
        return Plane(self.data[start : self.at].tobytes(), columns, size)
