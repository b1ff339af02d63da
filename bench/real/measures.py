"""All that is measured of one model at one length: the device's answers beside other methods'."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bench.real.anchors import Anchors, KeptCache
from bench.real.answers import CodedLayer, JudgedAnswer, Layer, Query
from bench.real.caches import CACHES
from bench.real.captures import LayerCapture, Subject
from bench.real.tally import Claims, Tally
from nearkv.core import AttendMode

ERRORS = {"error_10": 0.10, "error_05": 0.05}
TAIL_TOKENS = 64
SEARCHED_TOKENS = 256
SEARCH_Z16 = 6 * 16
TAIL = f"tail_{TAIL_TOKENS}"


@dataclass
class Measures:
    """Of one subject. `methods`: answers at the full length; `claims`: of BOUNDED, by its error.

    `form` tells captures that are made of the subject's from these.
    """

    subject: Subject
    form: str = ""
    texts: list[str] = field(default_factory=list)
    methods: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    claims: dict[str, Claims] = field(default_factory=lambda: defaultdict(Claims))
    dense: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Commands that read all, at the full length."""
    search_shares: list[float] = field(default_factory=list)
    """Bytes of K that STATISTICAL read."""
    searched: int = 0
    found: int = 0
    """Pairs searched for, and those whose ids equal FULL's."""

    @property
    def name(self) -> str:
        """As results are named."""
        return self.subject.name + self.form

    def measure(
        self, capture: LayerCapture, uri: str, places: int, progress: Callable[[str], None]
    ) -> None:
        """Adds one layer of one text: all of its queries at the full length.

        Other methods get `places` of these, and the device as many of each other length.
        """
        layer = Layer(capture)
        coded = CodedLayer(layer, uri)
        positions, lengths = self.subject.positions, self.subject.lengths
        some = _spread(positions, places)
        for number, length in enumerate(lengths[:-1]):
            progress(f"layer {capture.layer}, queries of {length} tokens")
            for place in some:
                self._bounded(capture.layer, length, coded, layer.query(number * positions + place))
        beside = _Beside(layer, uri)
        for place in range(positions):
            progress(f"layer {capture.layer}, query {place + 1} of {positions} of all tokens")
            query = layer.query((len(lengths) - 1) * positions + place)
            self._bounded(capture.layer, lengths[-1], coded, query)
            tail = coded.attend(query, AttendMode.TAIL, top_k=TAIL_TOKENS)
            self.methods[TAIL].add(capture.layer, tail)
            self._search(coded, query)
            for name, answer in beside.answers(query) if place in some else ():
                self.methods[name].add(capture.layer, answer)

    def _bounded(self, layer: int, length: int, coded: CodedLayer, query: Query) -> None:
        is_full = length == self.subject.tokens
        for name, error in ERRORS.items():
            answer = coded.attend(query, AttendMode.BOUNDED, error=error)
            self.claims[name].add(layer, length, is_full, answer)
            if is_full:
                self.methods[name].add(layer, answer)
                self.dense[name] += answer.is_dense

    def _search(self, coded: CodedLayer, query: Query) -> None:
        share, equal = coded.search(query, SEARCHED_TOKENS, SEARCH_Z16)
        self.search_shares.append(share)
        self.searched += query.pairs
        self.found += equal


class _Beside:
    """Other methods on a layer."""

    def __init__(self, layer: Layer, uri: str) -> None:
        self._anchors = Anchors(layer)
        self._caches = {name: KeptCache(layer, name) for name in CACHES}
        self._over_q8_0 = CodedLayer(layer, uri, "q8_0")

    def answers(self, query: Query) -> Iterable[tuple[str, JudgedAnswer]]:
        """With the methods' names."""
        for k in (64, 256):
            yield f"top_{k}_and_means", self._anchors.top_k(query, k)
        for percent in (5, 10):
            yield f"quest_{percent}", self._anchors.quest(query, percent / 100)
        for percent in (2.5, 5):
            share = percent / 100
            yield f"vattention_{percent:g}", self._anchors.vattention(query, share, share)
        for name, cache in self._caches.items():
            yield name, cache.attend(query)
        for name, error in ERRORS.items():
            answer = self._over_q8_0.attend(query, AttendMode.BOUNDED, error=error)
            yield f"{name}_over_q8_0", answer


def _spread(count: int, wanted: int) -> list[int]:
    """Some of `count` places, evenly spread, the last one among them."""
    wanted = min(count, wanted)
    return [count - 1 - index * count // wanted for index in range(wanted)][::-1]
